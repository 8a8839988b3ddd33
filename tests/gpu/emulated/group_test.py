"""A group of servers whose models are on GPUs."""

import time
import unittest

import grpc

from tests import case_runner
from tests.server.group_processes import GroupOfServers, batches, layer
from tests.server.group_servers import kill

SERVER = "tests/gpu/emulated/gluond_server.sh"
NET = layer(
    "HybridSequential",
    layer("Conv2D", channels=4, kernel_size=3, activation="relu"),
    layer("BatchNorm"),
    layer("Dense", units=16, activation="relu"),
    layer("Dropout", rate=0.3),
    layer("Dense", units=4),
)
SHAPE = [10, 1, 6, 6]
ADAM = {"optimizer": "adam", "learning_rate": "0.01"}


def group_of(processes, most=4):
    group = GroupOfServers(most=most, timeout="10s", flags=["--devices=gpu:0,cpu"], binary=SERVER)
    for _ in range(processes - 1):
        group.add_member()
    group.await_ranks(processes)
    return group


class GroupTest(unittest.TestCase):
    def trained(self, processes, shape=SHAPE, adds=()):
        with group_of(processes) as group:
            group.define("net", NET, shape, 4, device="gpu:0", adds=adds, **ADAM)
            losses = [group.step("net", batch).loss for batch in batches(shape, 3)]
            return group.bits("net"), losses

    def test_numbers_of_processes_give_equal_bits(self):
        alone = self.trained(1)
        for processes in (2, 4):
            self.assertTrue(self.trained(processes) == alone, processes)

    def test_gradients_that_are_added_go_on(self):
        adds = ("0.weight",)
        self.assertTrue(self.trained(2, adds=adds) == self.trained(1, adds=adds))

    def test_a_member_that_comes_gets_the_state(self):
        alone = self.trained(1)
        with group_of(2) as group:
            group.define("net", NET, SHAPE, 4, device="gpu:0", **ADAM)
            first, *others = batches(SHAPE, 3)
            group.step("net", first)
            kill(group.members[0])
            group.members[0].start()
            group.await_ranks(2)
            for batch in others:
                group.step("net", batch)
            self.assertTrue(group.bits("net") == alone[0])

    def test_a_member_without_a_gpu_cannot_take_part(self):
        with GroupOfServers(most=2, timeout="1s", flags=["--devices=gpu:0,cpu"], binary=SERVER) as group:
            group.define("net", NET, SHAPE, 2, device="gpu:0", **ADAM)
            group.add_member("--devices=cpu")
            end = time.monotonic() + 30
            taken = 0
            while taken < 20:
                try:
                    group.step("net", batches(SHAPE, 1)[0])
                    taken += 1
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                        raise
            self.assertEqual(len(group.group().members), 1)


if __name__ == "__main__":
    case_runner.main()
