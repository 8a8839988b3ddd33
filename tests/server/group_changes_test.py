"""What clients change while a group of servers trains, and members that do not keep to the rules."""

import contextlib
import tempfile
import threading
import time
import unittest
from concurrent import futures

import grpc
from google.protobuf import json_format

from gluond.v1 import checkpoint_pb2, group_pb2, model_pb2, parameters_pb2, trainer_pb2, training_pb2
from tests import case_runner
from tests.server.group_processes import GroupOfServers, batches, layer, tensor
from tests.server.raw_member import RawMember

DENSE = layer("HybridSequential", layer("Dense", units=16, activation="relu"), layer("Dense", units=4))
SHAPE = [10, 8]


def create_trainer(model, momentum):
    trainer = {
        "model": model,
        "loss": {"name": "SoftmaxCrossEntropyLoss"},
        "optimizer": {"name": "sgd", "attributes": {"momentum": momentum}},
        "replace": True,
    }
    return json_format.ParseDict(trainer, trainer_pb2.CreateTrainerRequest())


@contextlib.contextmanager
def again_and_again(change):
    """Calls `change` with 0, 1, 2, ... on a thread of its own as long as the `with` block lasts."""
    ends = threading.Event()
    failed = []

    def run():
        number = 0
        try:
            while not ends.is_set():
                change(number)
                number += 1
        except BaseException as error:  # For the test's thread.
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if failed:
        raise failed[0]


class GroupChangesTest(unittest.TestCase):
    def train(self, group, model, batch, steps):
        """Takes steps; some may find a trainer that has been replaced. Returns how many were taken."""
        taken = 0
        for _ in range(steps):
            try:
                group.step(model, batch)
                taken += 1
            except grpc.RpcError as error:
                self.assertIn(error.code(), (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE), error)
        return taken

    def set_rate(self, group, model, rate):
        group.peer.call("TrainingService/SetLearningRate", trainer_pb2.SetLearningRateRequest(model=model, learning_rate=rate))

    def set_bias(self, group, model, value):
        name = next(name for name in group.bits(model) if name.endswith("1.bias"))
        request = parameters_pb2.SetParametersRequest(model=model, parameters={name: tensor([4], [value] * 4)})
        group.peer.call("ModelService/SetParameters", request)

    def test_a_trainer_may_be_replaced_while_steps_are_under_way(self):
        with GroupOfServers(most=3) as group:
            for _ in range(2):
                group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, SHAPE, 2, momentum="0.9")
            batch = batches(SHAPE, 1)[0]

            def replace(number):
                time.sleep(0.2)  # Some steps come between.
                group.peer.call("TrainingService/CreateTrainer", create_trainer("net", momentum=0.1 * (number % 9)))

            with again_and_again(replace):
                taken = self.train(group, "net", batch, 150)
            self.assertGreater(taken, 0)
            # Beyond the next checksum of all processes: two that differ from the leader would stop all training.
            for _ in range(120):
                group.step("net", batch)
            end, applied = time.monotonic() + 30, set()
            while len(applied) != 1 and time.monotonic() < end:
                time.sleep(0.05)
                applied = {member.applied for member in group.group().members}
            self.assertEqual(len(applied), 1)

    def test_learning_rates_travel_with_steps(self):
        bits = []
        for processes in (1, 2):
            with GroupOfServers(most=2) as group:
                for _ in range(processes - 1):
                    group.add_member()
                group.await_ranks(processes)
                group.define("net", DENSE, SHAPE, 2)
                batch = batches(SHAPE, 1)[0]
                group.step("net", batch)
                generation = group.group().generation
                for i in range(20):
                    self.set_rate(group, "net", 0.1 / (1 + i))
                    group.step("net", batch)
                self.assertEqual(group.group().generation, generation, "a rate is no state that members want")
                bits.append(group.bits("net"))
        self.assertEqual(*bits)

    def test_changes_of_a_model_do_not_delay_others(self):
        with GroupOfServers(most=2) as group:
            group.add_member()
            group.await_ranks(2)
            for model in ("net", "other"):
                group.define(model, DENSE, SHAPE, 2)
            batch = batches(SHAPE, 1)[0]
            for model in ("net", "other"):
                group.step(model, batch)
            generation = group.group().generation
            with again_and_again(lambda number: self.set_bias(group, "other", number)):
                for _ in range(20):
                    group.step("net", batch)
            self.assertEqual(group.group().generation, generation)
            group.step("other", batch)
            self.assertEqual(group.group().generation, generation + 1, "its own step brings the change")
            # A model that changes all the time makes its own steps fail, and those of others wait a little.
            with again_and_again(lambda number: self.set_bias(group, "other", number)):
                self.train(group, "other", batch, 5)
                for _ in range(5):
                    group.step("net", batch)

    def test_batches_that_do_not_fit_cost_no_generation(self):
        with GroupOfServers(most=2) as group:
            group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, SHAPE, 2)
            batch = batches(SHAPE, 1)[0]
            group.step("net", batch)
            generation = group.group().generation
            label = batch["label"]
            for inputs, words in [
                ({"data": batch["data"]}, "is missing"),
                ({"data": batch["data"], "label": label, "extra": label}, "no input 'extra'"),
                ({"data": tensor([10, 7], [0.0] * 70), "label": label}, "has shape"),
                ({"data": tensor([0, 8], []), "label": tensor([0], [])}, "without a row"),
                ({"data": batch["data"], "label": tensor([9], [0.0] * 9)}, "cuts each input into rows"),
            ]:
                with self.subTest(words=words):
                    with self.assertRaises(grpc.RpcError) as refused:
                        group.step("net", inputs)
                    self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                    self.assertIn(words, refused.exception.details())
            stale = training_pb2.TrainStepRequest(model="net", inputs=batch, call={"expected_version": 1 << 40})
            with self.assertRaises(grpc.RpcError) as refused:
                group.peer.call("TrainingService/TrainStep", stale)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.ABORTED)
            self.assertEqual(group.group().generation, generation)

    def test_a_model_of_fewer_shards_than_ranks_trains(self):
        steps = batches(SHAPE, 3)
        with tempfile.TemporaryDirectory() as store:
            flags = [f"--store_dir={store}"]
            with GroupOfServers(most=2, leader_flags=flags) as group:
                group.define("net", DENSE, SHAPE, 2, optimizer="adam")
                group.peer.call(
                    "ModelService/SaveCheckpoint", checkpoint_pb2.SaveCheckpointRequest(model="net", checkpoint="begin")
                )
                for batch in steps:
                    group.step("net", batch)
                alone = group.bits("net")
            for processes in (1, 4):
                with GroupOfServers(most=4, leader_flags=flags) as group:
                    for _ in range(processes - 1):
                        group.add_member()
                    group.await_ranks(processes)
                    load = model_pb2.LoadCheckpointRequest(checkpoint="begin", model="net")
                    answer = group.peer.call("ModelService/LoadCheckpoint", load)
                    placement = model_pb2.LoadCheckpointResponse.FromString(answer).model.placement
                    self.assertEqual((placement.group, placement.virtual_shards), (True, 2))
                    for batch in steps:
                        group.step("net", batch)
                    self.assertEqual(group.bits("net"), alone)

    def test_a_checksum_holds_no_memory_of_the_model(self):
        wide = layer("HybridSequential", layer("Dense", units=512, in_units=512), layer("Dense", units=4))
        batch = batches([2, 512], 1)[0]
        with GroupOfServers(most=1) as group:
            group.define("net", wide, [2, 512], 1, momentum="0.9")
            for _ in range(3):
                group.step("net", batch)
            answer = group.peer.call("ModelService/GetModel", model_pb2.GetModelRequest(model="net"))
            needed = model_pb2.GetModelResponse.FromString(answer).model.tensor_bytes
        copy = 4 * 512 * 512
        with GroupOfServers(most=1, leader_flags=[f"--max_model_bytes={needed + copy // 2}"]) as group:
            group.define("net", wide, [2, 512], 1, momentum="0.9")
            for _ in range(205):  # Two checksums among them.
                group.step("net", batch)

    def test_texts_of_a_ring_are_bounded(self):
        with GroupOfServers(most=2) as group:
            group.define("net", DENSE, SHAPE, 2)
            member = RawMember(group, process=77)
            member.become_rank()
            for number in range(300):
                member.say(meeting={"key": f"key {number}", "value": b"value"})
            error = member.beat_until_the_end()
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("too many", error.details())
            member.end()
            group.step("net", batches(SHAPE, 1)[0])

    def test_a_member_that_is_there_and_answers_nothing_is_lost(self):
        with GroupOfServers(most=2, timeout="200ms") as group:
            group.define("net", DENSE, SHAPE, 2)
            member = RawMember(group, process=77)
            member.hear("prepare")
            member.say(standing={})
            member.hear("state")
            with futures.ThreadPoolExecutor(1) as thread:
                ended = thread.submit(member.beat_until_the_end)
                # A step waits for so long, and no longer: saves of its model wait for it.
                with self.assertRaises(grpc.RpcError) as refused:
                    group.step("net", batches(SHAPE, 1)[0])
                self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertIn("has not been able to begin", refused.exception.details())
                error = ended.result()
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("has not answered", error.details())
            member.end()
            group.step("net", batches(SHAPE, 1)[0])

    def test_a_member_with_which_no_ring_forms_is_left_out(self):
        with GroupOfServers(most=3) as group:
            group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, SHAPE, 2)
            member = RawMember(group, process=77)
            form = member.become_rank()
            for _ in range(2):
                member.say(broken={"generation": form.generation, "message": "there is no way to rank 2", "rank": 2})
                member.hear("end")
                self.assertIn("there is no way to rank 2", group.group().why_not)
                member.say(standing=member.standing)
                form = member.hear("form")
            member.say(broken={"generation": form.generation, "message": "there is no way to rank 2", "rank": 2})
            error = member.beat_until_the_end()
            self.assertEqual(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("no ring forms with this member: there is no way to rank 2", error.details())
            member.end()
            group.step("net", batches(SHAPE, 1)[0])
            self.assertEqual(len(group.group().members), 2)

    def test_a_member_that_was_drained_stays_away(self):
        with GroupOfServers(most=2, timeout="500ms") as group:
            server = group.add_member()
            drained = group.await_ranks(2).members[1].member
            group.peer.call("GroupService/DrainMember", group_pb2.DrainMemberRequest(member=drained))
            group.await_ranks(1)
            end = time.monotonic() + 2
            while time.monotonic() < end:
                self.assertEqual(len(group.group().members), 1)
                time.sleep(0.05)
            self.assertEqual(server.stop()[0], 0, "it is a server still")


if __name__ == "__main__":
    case_runner.main()
