"""A training that waits for other servers of its group: who ends it, and what its client is told."""

import contextlib
import threading
import unittest

import grpc

from gluond.v1 import dataset_pb2, training_pb2
from google.rpc import error_details_pb2
from tests import case_runner
from tests.server.group_processes import GroupOfServers, batches, layer
from tests.server.group_servers import kill
from tests.server.raw_member import RawMember
from tests.server.running_server import Waits

DENSE = layer("HybridSequential", layer("Dense", units=16, activation="relu"), layer("Dense", units=4))
CODE, STOP = grpc.StatusCode, training_pb2.TrainProgress


class GroupWaitsTest(Waits, unittest.TestCase):
    def define(self, group):
        group.define("net", DENSE, [10, 8], 2)
        rows = dataset_pb2.UploadDatasetRequest(dataset="toy", tensors=batches([100, 8], 1)[0], commit=True)
        group.peer.call("TrainingService/UploadDataset", rows)

    def train(self, group, timeout=120):
        """The messages of a Train without end."""
        rows = dataset_pb2.Rows(dataset="toy")
        request = training_pb2.TrainRequest(
            model="net", rows=rows, batch_size=10, epochs=1_000_000, progress_every={"nanos": 50_000_000}
        )
        train = group.peer.channel.unary_stream(
            "/gluond.v1.TrainingService/Train", training_pb2.TrainRequest.SerializeToString, STOP.FromString
        )
        return train(request, timeout=timeout)

    def refusal(self, call):
        with self.assertRaises(grpc.RpcError) as refused:
            list(call)
        return refused.exception.code()

    def cancel_training(self, group):
        answer = group.peer.call("TrainingService/CancelTraining", training_pb2.CancelTrainingRequest(model="net"))
        return training_pb2.CancelTrainingResponse.FromString(answer).cancelled

    @contextlib.contextmanager
    def group(self):
        with GroupOfServers(most=2, timeout="6s") as group:
            group.await_ranks(1)
            self.define(group)
            yield group

    @contextlib.contextmanager
    def stuck(self, group):
        """A ring with a member that is there, and never answers."""
        member = RawMember(group, process=77)
        member.become_rank()
        beats = threading.Thread(target=member.beat_until_the_end)
        beats.start()
        try:
            yield
        finally:
            member.end()
            beats.join()

    def test_its_client_goes(self):
        with self.group() as group, self.stuck(group):
            train = self.train(group)
            self.until(lambda: self.refusal(self.train(group, timeout=0.5)) == CODE.FAILED_PRECONDITION)
            train.cancel()
            # Another one may begin, and ends with its deadline.
            self.until(lambda: self.refusal(self.train(group, timeout=1)) == CODE.DEADLINE_EXCEEDED)

    def test_cancel_training_ends_it(self):
        with self.group() as group:
            train = self.train(group)
            self.assertGreater(next(train).steps, 0)
            with self.stuck(group):
                self.assertTrue(self.cancel_training(group))
                last = list(train)[-1]
                self.assertEqual((last.stop, last.status.code), (STOP.BY_CALL, CODE.CANCELLED.value[0]))
                train = self.train(group)
                self.until(lambda: self.cancel_training(group))
                self.assertEqual(self.refusal(train), CODE.CANCELLED, "it has taken no step")

    def test_a_leader_that_stops_does_not_wait_for_it(self):
        with self.group() as group:
            train = self.train(group)
            self.assertGreater(next(train).steps, 0)
            with self.stuck(group):
                batch = batches([10, 8], 1)[0]
                step = group.peer.start("TrainingService/TrainStep", training_pb2.TrainStepRequest(model="net", inputs=batch))
                self.assertEqual(group.leader.stop()[0], 0, "a call was cut")
                last = list(train)[-1]
                self.assertEqual((last.stop, last.status.code), (STOP.SERVER_STOPS, CODE.UNAVAILABLE.value[0]))
                self.assertEqual(step.code(), CODE.UNAVAILABLE)

    def test_too_few_processes_are_told_as_an_error_of_a_call(self):
        with GroupOfServers(most=2, least=2) as group:
            member = group.add_member()
            group.await_ranks(2)
            self.define(group)
            train = self.train(group)
            self.assertGreater(next(train).steps, 0)
            kill(member)
            last = list(train)[-1]
            self.assertEqual((last.stop, last.status.code), (STOP.BY_ERROR, CODE.UNAVAILABLE.value[0]))
            self.assertEqual(last.status.message, last.error)
            retry = error_details_pb2.RetryInfo()
            self.assertTrue(any(detail.Unpack(retry) for detail in last.status.details))
            self.assertGreater(retry.retry_delay.ToTimedelta().total_seconds(), 0)


if __name__ == "__main__":
    case_runner.main()
