"""Sixteen processes train together, lose some of them, get them back, and end with the bits of one process."""

import unittest

from gluond.v1 import group_pb2
from tests import case_runner
from tests.server.group_processes import GroupOfServers, batches, layer
from tests.server.group_servers import kill

NET = layer(
    "HybridSequential",
    layer("Dense", units=32, activation="relu"),
    layer("BatchNorm"),
    layer("Dropout", rate=0.3),
    layer("Dense", units=4),
)
PROCESSES = SHARDS = 16
SHAPE, STEPS = [37, 8], 9


class GroupSixteenTest(unittest.TestCase):
    @staticmethod
    def start(members):
        # A busy machine makes a process silent for long. Who is killed is missed at once.
        group = GroupOfServers(most=PROCESSES, timeout="60s")
        for _ in range(members):
            group.add_member()
        return group

    @staticmethod
    def train(group, before_step):
        """The losses and the bits at the end. before_step: what happens before a step, by the step's number."""
        group.await_ranks(len(group.members) + 1, seconds=120)
        group.define("net", NET, SHAPE, SHARDS, "adam", learning_rate=0.01)
        losses = []
        for number, batch in enumerate(batches(SHAPE, STEPS)):
            before_step.get(number, lambda: None)()
            losses.append(group.step("net", batch, number + 1, timeout=120).loss)
        return losses, group.bits("net")

    def test_the_largest_power_of_two_of_those_who_are_left_goes_on(self):
        with self.start(members=0) as alone:
            expected = self.train(alone, {})
        with self.start(members=PROCESSES - 1) as group:

            def lose(count):
                for _ in range(count):
                    kill(group.members.pop(count))

            def come_back():
                places = [each.place for each in group.group().members]
                self.assertEqual((places.count(group_pb2.GroupMember.RANK), places.count(group_pb2.GroupMember.SPARE)), (8, 4))
                while len(group.members) < PROCESSES - 1:
                    group.add_member()
                group.await_ranks(PROCESSES, seconds=120)

            self.assertEqual(expected, self.train(group, {2: lambda: lose(1), 4: lambda: lose(3), 6: come_back}))


if __name__ == "__main__":
    case_runner.main()
