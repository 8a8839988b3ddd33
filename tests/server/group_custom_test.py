"""Operators of clients in models that a group trains: callbacks of all processes go through the leader to the client."""

import contextlib
import threading
import time
import unittest

import grpc

from gluond.v1 import training_pb2
from tests import case_runner
from tests.server import group_operators
from tests.server.group_operators import OperatorsOfClient, define
from tests.server.group_processes import GroupOfServers, batches, layer, tensor
from tests.server.group_servers import kill

SHAPE = [10, 8]
STEPS = 5


class GroupCustomTest(unittest.TestCase):
    def refused(self, group, batch):
        with self.assertRaises(grpc.RpcError) as refused:
            group.step("net", batch)
        return refused.exception

    @staticmethod
    @contextlib.contextmanager
    def with_members(most, members):
        with GroupOfServers(most=most) as group:
            for _ in range(members):
                group.add_member()
            group.await_ranks(1 + members)
            yield group

    def train(self, processes, shape):
        """The bits and the losses after some steps by so many processes."""
        with self.with_members(8, processes - 1) as group, OperatorsOfClient(group.leader.address) as client:
            define(group, "net", 8)
            losses = [group.step("net", batch).loss for batch in batches(shape, STEPS)]
            # Both operators in each shard of each step, wherever it is computed.
            self.assertEqual(client.forwards, 2 * 8 * STEPS)
            return group.bits("net"), losses

    def test_numbers_of_processes_give_equal_bits(self):
        for shape in (SHAPE, [2001, 8]):  # Large values travel apart from their messages.
            alone = self.train(1, shape)
            self.assertTrue(any(alone[0]["drift_mean"]), "the operator moves its state")
            for processes in (2, 4, 8):
                with self.subTest(processes=processes, shape=shape):
                    self.assertEqual(self.train(processes, shape), alone)

    def test_a_client_is_asked_about_shapes_once_for_all_processes(self):
        questions = []
        for members in (0, 1):
            with self.with_members(2, members) as group, OperatorsOfClient(group.leader.address) as client:
                define(group, "net", 2)
                group.step("net", batches(SHAPE, 1)[0])
                questions.append(client.questions)
        self.assertEqual(questions[0], questions[1])

    def test_an_operator_that_fails_on_a_member_fails_the_step(self):
        with self.with_members(2, 1) as group, OperatorsOfClient(group.leader.address):
            define(group, "net", 2)
            batch = batches(SHAPE, 1)[0]
            group.step("net", batch)
            before = group.bits("net")
            # The last rows are the member's.
            rows = [0.5] * (9 * 8) + [1e9] * 8
            failed = self.refused(group, {**batch, "data": tensor(SHAPE, rows)})
            self.assertEqual(failed.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("forward of custom operator 'scaled' failed in its client: ValueError: these rows are", failed.details())
            details = dict(failed.trailing_metadata())["grpc-status-details-bin"]
            for fact in (b"OPERATOR_FAILED", b"line 7 of the client"):
                self.assertIn(fact, details)
            self.assertEqual(group.bits("net"), before)
            group.step("net", batch)
            self.assertEqual(len(group.group().members), 2)

    def test_a_client_that_is_away_is_missed_until_it_is_back(self):
        batch = batches(SHAPE, 1)[0]
        with GroupOfServers(most=1) as group:
            with OperatorsOfClient(group.leader.address):
                define(group, "net", 1, placement={})
            alone = self.refused(group, batch)
        with self.with_members(2, 1) as group:
            with OperatorsOfClient(group.leader.address):
                define(group, "net", 2)
                group.step("net", batch)
            away = self.refused(group, batch)
            self.assertEqual(away.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(away.details(), alone.details())
            with OperatorsOfClient(group.leader.address) as client:
                group.step("net", batch)
                self.assertGreater(client.forwards, 0)
            self.assertEqual(len(group.group().members), 2)

    def test_a_client_that_goes_while_it_computes_fails_the_step(self):
        batch = batches(SHAPE, 1)[0]
        with self.with_members(2, 1) as group:
            with OperatorsOfClient(group.leader.address) as client:
                define(group, "net", 2)
                wait = client.hold_forwards(2)
                failed = []
                step = threading.Thread(target=lambda: failed.append(self.refused(group, batch)))
                step.start()
                wait()
            step.join()
            self.assertEqual(failed[0].code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("custom operator 'scaled'", failed[0].details())
            with OperatorsOfClient(group.leader.address):
                group.step("net", batch)

    def test_a_member_that_is_killed_in_a_callback_costs_no_step(self):
        batch = batches(SHAPE, 1)[0]
        with GroupOfServers(most=2) as group, OperatorsOfClient(group.leader.address):
            define(group, "net", 2)
            group.step("net", batch)
            expected = group.bits("net")
        with self.with_members(2, 1) as group, OperatorsOfClient(group.leader.address) as client:
            define(group, "net", 2)
            wait = client.hold_forwards(2)
            step = threading.Thread(target=lambda: group.step("net", batch))
            step.start()
            numbers = wait()
            kill(group.members[0])
            client.await_cancelled(numbers)  # The member's is withdrawn, and the leader's own, since the step begins again.
            client.go_on()
            step.join()
            self.assertEqual(group.bits("net"), expected)

    @contextlib.contextmanager
    def silent(self, timeout):
        """A group with a model `net`, whose client answers no forward pass, and `other` of nobody's operators."""
        with GroupOfServers(most=2, timeout=timeout) as group, OperatorsOfClient(group.leader.address) as client:
            group.add_member()
            group.await_ranks(2)
            define(group, "net", 2)
            group.define("other", layer("Dense", units=4), SHAPE, 2)
            for model in ("net", "other"):
                group.step(model, batches(SHAPE, 1)[0])
            yield group, client

    def test_a_silent_operator_in_a_prediction_keeps_no_other_model(self):
        batch = batches(SHAPE, 1)[0]
        with self.silent("500ms") as (group, client):
            wait = client.hold_forwards(1)
            request = training_pb2.EvaluateRequest(model="net", inputs=batch)
            evaluate = threading.Thread(target=lambda: group.peer.call("TrainingService/Evaluate", request, 60))
            evaluate.start()
            wait()
            kill(group.members[0])  # All models are held for the next generation.
            group.step("other", batch)
            refused = self.refused(group, batch)
            self.assertEqual(refused.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("another call of the model has not ended", refused.details())
            group.add_member()
            group.await_ranks(2)
            group.step("other", batch)
            client.go_on()
            evaluate.join()
            self.take_once_it_can(group, batch)
            group.step("other", batch)

    def take_once_it_can(self, group, batch):
        """A step of a model that the group has gone on without."""
        end = time.monotonic() + 30
        while True:
            try:
                return group.step("net", batch)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise

    def test_a_step_whose_client_has_gone_keeps_nobody(self):
        batch = batches(SHAPE, 1)[0]
        with self.silent("2s") as (group, client):
            before = group.bits("net")
            wait = client.hold_forwards(2)
            gone = []
            request = training_pb2.TrainStepRequest(model="net", inputs=batch)

            def step():
                try:
                    group.peer.call("TrainingService/TrainStep", request, 3)
                except grpc.RpcError as error:
                    gone.append(error.code())

            thread = threading.Thread(target=step)
            thread.start()
            numbers = wait()
            group.step("other", batch)  # Waits for the one before, and no longer.
            client.await_cancelled(numbers)
            thread.join()
            self.assertEqual(gone, [grpc.StatusCode.DEADLINE_EXCEEDED])
            client.go_on()
            self.assertEqual(group.bits("net"), before)
            group.step("net", batch)

    def test_members_know_no_credential(self):
        with self.with_members(2, 1) as group, OperatorsOfClient(group.leader.address):
            define(group, "net", 2)
            group.step("net", batches(SHAPE, 1)[0])
            self.assertTrue(holds(group.leader.process.pid, group_operators.SCOPE))
            self.assertFalse(holds(group.members[0].process.pid, group_operators.SCOPE))


def holds(pid, text):
    """Whether the text is anywhere in what a process has written into its memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, _, device = line.split()[:4]
            if "w" not in rights or device != "00:00":
                continue
            begin, end = (int(each, 16) for each in place.split("-"))
            memory.seek(begin)
            if text.encode() in memory.read(end - begin):
                return True
    return False


if __name__ == "__main__":
    case_runner.main()
