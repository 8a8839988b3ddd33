"""Groups of real servers: any number of processes gives the same bits, also where some are killed on the way."""

import os
import signal
import threading
import unittest
from unittest import mock

import grpc

from gluond.v1 import dataset_pb2, group_pb2, model_pb2, trainer_pb2, training_pb2
from tests import case_runner
from tests.server import group_kills
from tests.server.group_processes import GroupOfServers, batches, block, layer
from tests.server.group_servers import kill
from tests.server.running_server import RunningServer

DENSE = layer("HybridSequential", layer("Dense", units=16, activation="relu"), layer("Dense", units=4))
DEEP = layer(
    "HybridSequential",
    layer("Conv2D", channels=4, kernel_size=3),
    layer("BatchNorm"),
    layer("Activation", activation="relu"),
    layer("Dropout", rate=0.5),
    layer("Flatten"),
    layer("Dense", units=4),
)
STEPS = 6


class GroupTest(unittest.TestCase):
    def refused(self, code, *words):
        test = self

        class Refused:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace):
                test.assertIsInstance(error, grpc.RpcError)
                test.assertEqual(error.code(), code, error.details())
                for word in words:
                    test.assertIn(word, error.details())
                return True

        return Refused()

    @staticmethod
    def say(message, ends):
        """A message, after which the client listens."""
        yield message
        ends.wait(60)

    def train(self, processes, net, shape, shards=4, optimizer="sgd", **attributes):
        """The bits and the last loss after some steps by so many processes."""
        with GroupOfServers(most=shards) as group:
            for _ in range(processes - 1):
                group.add_member()
            group.await_ranks(processes)
            group.define("net", net, shape, shards, optimizer, **attributes)
            losses = [group.step("net", batch).loss for batch in batches(shape, STEPS)]
            return group.bits("net"), losses

    def test_numbers_of_processes_give_equal_bits(self):
        for name, net, shape, optimizer, attributes in [
            ("dense", DENSE, [10, 8], "sgd", {"learning_rate": 0.1, "momentum": 0.9}),
            ("deep", DEEP, [6, 1, 8, 8], "adam", {"learning_rate": 0.01}),
        ]:
            alone = self.train(1, net, shape, 4, optimizer, **attributes)
            for processes in (2, 4):
                with self.subTest(net=name, processes=processes):
                    self.assertEqual(alone, self.train(processes, net, shape, 4, optimizer, **attributes))

    def test_a_member_goes_through_no_proxy_of_the_environment(self):
        with GroupOfServers(most=2) as group:
            with mock.patch.dict(os.environ, http_proxy="http://127.0.0.1:9"):
                group.add_member()
            group.await_ranks(2)

    def test_a_member_that_is_killed_costs_no_step(self):
        expected = self.train(1, DENSE, [10, 8], 2)
        with GroupOfServers(most=2) as group:
            member = group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, [10, 8], 2)
            losses = []
            for number, batch in enumerate(batches([10, 8], STEPS), 1):
                if number == 3:
                    kill(member)
                if number == 5:
                    group.add_member()
                    group.await_ranks(2)
                losses.append(group.step("net", batch, number).loss)
            self.assertEqual((group.bits("net"), losses), expected)

    def test_a_member_that_is_stopped_is_lost_after_the_timeout(self):
        with GroupOfServers(most=2, timeout="1s") as group:
            member = group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, [10, 8], 2)
            batch = batches([10, 8], 1)[0]
            group.step("net", batch)
            kill(member, signal.SIGSTOP)
            group.step("net", batch)
            self.assertEqual(len(group.group().members), 1)
            kill(member, signal.SIGCONT)
            group.await_ranks(2)
            group.step("net", batch)

    def test_changes_between_steps_reach_members(self):
        with GroupOfServers(most=2) as group:
            group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, [10, 8], 2)
            batch = batches([10, 8], 1)[0]
            group.step("net", batch)
            group.peer.call("TrainingService/SetLearningRate", trainer_pb2.SetLearningRateRequest(model="net", learning_rate=0.5))
            group.step("net", batch)
            together = group.bits("net")
        with GroupOfServers(most=2) as group:
            group.define("net", DENSE, [10, 8], 2)
            group.step("net", batch)
            group.peer.call("TrainingService/SetLearningRate", trainer_pb2.SetLearningRateRequest(model="net", learning_rate=0.5))
            group.step("net", batch)
            self.assertEqual(together, group.bits("net"))

    def test_sums_of_gradients_go_on_wherever_a_step_is_computed(self):
        def train(processes, joins):
            with GroupOfServers(most=2) as group:
                for _ in range(processes - 1):
                    group.add_member()
                group.await_ranks(processes)
                group.define("net", DENSE, [10, 8], 4, adds=["0.weight", "1.bias"], learning_rate=0.1, momentum=0.9)
                for number, batch in enumerate(batches([10, 8], STEPS)):
                    if number == 2 and joins:  # It is sent the sums.
                        group.add_member()
                        group.await_ranks(2)
                    if number == 4:
                        group.peer.call("TrainingService/ZeroGradients", training_pb2.ZeroGradientsRequest(model="net"))
                    group.step("net", batch)
                return group.bits("net"), group.gradients("net", "0.weight", "1.bias")

        alone = train(1, False)
        self.assertEqual(alone, train(2, False))
        self.assertEqual(alone, train(1, True))

    def test_memory_for_shards_is_charged_with_the_trainer(self):
        wide = layer("Dense", units=1000)  # 4 MB.
        with GroupOfServers(most=2, leader_flags=(f"--max_model_bytes={40 << 20}",)) as group:
            with self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "steps in 256 shards", "model 'net'", "--max_model_bytes"):
                group.define("net", wide, [10, 1000], 256)
            group.define("net", wide, [10, 1000], 4)
            group.step("net", batches([10, 1000], 1)[0])

    def test_a_drained_member_leaves(self):
        with GroupOfServers(most=2) as group:
            member = group.add_member()
            described = group.await_ranks(2)
            self.assertEqual(member.stop()[0], 0)
            group.await_ranks(1)
            group.define("net", DENSE, [10, 8], 2)
            group.step("net", batches([10, 8], 1)[0])
            with self.refused(grpc.StatusCode.NOT_FOUND, "no member"):
                group.peer.call("GroupService/DrainMember", group_pb2.DrainMemberRequest(member=described.members[1].member))
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT, "leader itself"):
                group.peer.call("GroupService/DrainMember", group_pb2.DrainMemberRequest())

    def test_rows_of_a_dataset_are_the_same_at_every_size(self):
        rows = batches([50, 8], 1)[0]
        upload = dataset_pb2.UploadDatasetRequest(dataset="toy", tensors=rows, commit=True)
        order = dataset_pb2.Rows(dataset="toy", shuffle=True, seed=3)
        results = []
        for processes in (1, 2, 3):
            with GroupOfServers(most=3) as group:
                for _ in range(processes - 1):
                    group.add_member()
                group.await_ranks({3: 2}.get(processes, processes))
                group.define("net", DENSE, [10, 8], 4)
                group.peer.call("TrainingService/UploadDataset", upload)
                request = training_pb2.TrainStepRequest(model="net", rows=order, batch_size=16)
                answer = training_pb2.TrainStepResponse.FromString(group.peer.call("TrainingService/TrainStep", request))
                self.assertEqual((answer.steps, answer.samples), (4, 50))
                request = training_pb2.TrainRequest(
                    model="net",
                    rows=order,
                    batch_size=16,
                    epochs=3,
                    progress_every={"seconds": 60},
                )
                train = group.peer.channel.unary_stream(
                    "/gluond.v1.TrainingService/Train",
                    lambda message: message.SerializeToString(),
                    training_pb2.TrainProgress.FromString,
                )
                messages = list(train(request, timeout=60))
                last = messages[-1]
                self.assertEqual((last.done, last.steps, last.samples), (True, 12, 150))
                losses = [(each.epoch, each.loss) for message in messages for each in message.ended]
                self.assertEqual(len(losses), 3)
                results.append((group.bits("net"), answer.loss, losses))
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])

    def test_kills_stops_and_starts_leave_the_bits_of_one_process(self):
        taken, bits, faults, _ = group_kills.disturbed(faults=20, seed=1, members=3, steps=30)
        self.assertEqual(bits, group_kills.undisturbed(taken), faults)

    def test_too_few_processes_are_told(self):
        with GroupOfServers(most=3, least=2) as group:
            group.define("net", DENSE, [10, 8], 2)
            with self.refused(grpc.StatusCode.UNAVAILABLE, "--group_size"):
                group.step("net", batches([10, 8], 1)[0])

    def test_what_a_group_does_not_do_is_refused_by_name(self):
        with GroupOfServers(most=2) as group:
            group.define("net", DENSE, [10, 8], 2)
            batch = batches([10, 8], 1)[0]
            by_hand = "trained by a group"
            with self.refused(grpc.StatusCode.FAILED_PRECONDITION, by_hand):
                group.peer.call(
                    "TrainingService/Forward",
                    training_pb2.ForwardRequest(model="net", inputs={"data": batch["data"]}, training=True),
                )
            with self.refused(grpc.StatusCode.FAILED_PRECONDITION, by_hand):
                group.peer.call("TrainingService/Backward", training_pb2.BackwardRequest(model="net"))
            with self.refused(grpc.StatusCode.FAILED_PRECONDITION, by_hand):
                group.peer.call("TrainingService/Step", training_pb2.StepRequest(model="net", batch_size=10))
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT, "batch_size"):
                group.peer.call("TrainingService/TrainStep", training_pb2.TrainStepRequest(model="net", inputs=batch, batch_size=3))
            with self.refused(grpc.StatusCode.FAILED_PRECONDITION, "SyncBatchNorm"):
                group.define("other", layer("HybridSequential", layer("Dense", units=4), layer("SyncBatchNorm")), [10, 8], 2)
            for shards in (0, 1, 3, 1 << 20):
                with self.refused(grpc.StatusCode.INVALID_ARGUMENT, "virtual_shards"):
                    group.define("other", DENSE, [10, 8], shards)

    def test_a_server_without_a_group_says_so(self):
        with RunningServer() as server:
            from tests.fault.peer import Peer

            with Peer(server.address) as peer:
                request = model_pb2.DefineModelRequest(model="net", block=block(DENSE), placement={"group": True})
                for name, request in [
                    ("ModelService/DefineModel", request),
                    ("GroupService/GetGroup", group_pb2.GetGroupRequest()),
                ]:
                    with self.refused(grpc.StatusCode.FAILED_PRECONDITION, "--group"):
                        peer.call(name, request)
                hello = group_pb2.JoinRequest(hello={"process": 1, "fingerprint": "x"})
                with self.refused(grpc.StatusCode.FAILED_PRECONDITION, "--group"):
                    ends = threading.Event()
                    list(peer.stream("/gluond.v1.GroupService/Join", group_pb2.JoinResponse)(self.say(hello, ends), timeout=30))
                ends.set()

    def test_strangers_do_not_join(self):
        with GroupOfServers(most=2) as group:
            join = group.peer.stream("/gluond.v1.GroupService/Join", group_pb2.JoinResponse)
            for message, code, word in [
                (
                    group_pb2.JoinRequest(hello={"process": 1, "fingerprint": "another build"}),
                    grpc.StatusCode.FAILED_PRECONDITION,
                    "other bits",
                ),
                (group_pb2.JoinRequest(heartbeat={}), grpc.StatusCode.FAILED_PRECONDITION, "hello"),
                (group_pb2.JoinRequest(standing={"applied": 3}), grpc.StatusCode.FAILED_PRECONDITION, "hello"),
            ]:
                ends = threading.Event()
                with self.refused(code, word):
                    list(join(self.say(message, ends), timeout=30))
                ends.set()
            group.define("net", DENSE, [10, 8], 2)
            group.step("net", batches([10, 8], 1)[0])


if __name__ == "__main__":
    case_runner.main()
