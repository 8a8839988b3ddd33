"""A server that is killed in the middle of a training and started again on its store: fit() ends with the same bits as
without that, and a loop of train_step() hears from which step to go on."""

import os
import random
import threading
import time
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import gluon
from gluond._proto import call_pb2, parameters_pb2, serving_pb2, tensor_pb2, training_pb2
from gluond._remote import calls, methods, training
from gluond.gluon import nn
from tests import case_runner
from tests.server.running_server import RunningServer

SERVER = os.environ.get("GLUOND_SERVER", "server/gluond-server")
KILLS, EPOCHS = 8, 60


def points(count, seed=7):
    values = np.random.RandomState(seed).randn(count, 4).astype("float32")
    return values, np.abs(values[:, :3]).argmax(1)


def bits(model):
    answer = calls.current().call(
        methods.GET_PARAMETERS, parameters_pb2.GetParametersRequest(model=model.name, encoding=tensor_pb2.Tensor.RAW)
    )
    return {name: tensor.raw for name, tensor in answer.parameters.items()}


class CrashCase(unittest.TestCase):
    def start(self, every):
        self.server = RunningServer("--cpu_threads=1", f"--checkpoint_every={every}", binary=SERVER)
        self.addCleanup(self.server.__exit__)
        mx.connect(self.server.address)
        self.addCleanup(mx.connect)

    def crash(self):
        self.server.process.kill()
        self.server.process.communicate()
        self.server.start()

    def define(self, name, units=8):
        """A model that a crash does not take."""
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(units, activation="relu"), nn.Dropout(0.3), nn.Dense(units), nn.Dense(3))
        model = mx.remote.Model.define(
            name,
            net,
            (-1, 4),
            loss=gluon.loss.SoftmaxCrossEntropyLoss(),
            optimizer="adam",
            optimizer_params={"learning_rate": 0.01},
            metrics="accuracy",
            initializer=mx.init.Xavier(),
            seed=5,
        )
        while True:
            place = calls.current().check(name)
            if place.durable >= place.last:
                return model
            time.sleep(0.01)


class FitTest(CrashCase):
    def fit(self, model, hear=lambda training: None):
        """hear: called after each message with the progress."""
        plain = training.Training._hear

        def hear_and_tell(self, message):
            plain(self, message)
            hear(self)

        with mock.patch.object(training, "_PROGRESS_EVERY", {"nanos": 50_000_000}), mock.patch.object(
            training.Training, "_hear", hear_and_tell
        ):
            history = model.fit(*points(1920), epochs=EPOCHS, batch_size=32, validation=points(60, seed=8), progress=False)
        del history["seconds"]
        return history

    def test_killed_at_many_moments_it_loses_nothing(self):
        self.start("13steps")
        calm, model = self.define("calm", 256), self.define("m", 256)
        expected = self.fit(calm)
        expected_bits = bits(calm)
        seeded = random.Random(11)
        # The server is ahead of what it has told: the last kill leaves it enough to do.
        targets = [(number + seeded.random()) * 0.7 * EPOCHS / KILLS for number in range(KILLS)]
        hit = []

        def crash(of):
            if targets and of._place.epoch + of._place.begin / 1920 >= targets[0]:
                time.sleep(seeded.random() * 0.02)  # A live checkpoint, or more, comes to an end meanwhile.
                self.crash()
                hit.append(of._place.epoch)
                while targets and targets[0] <= of._place.epoch + of._place.begin / 1920:
                    targets.pop(0)

        history = self.fit(model, crash)
        self.assertEqual(targets, [], "a kill after the end tests nothing")
        self.assertGreater(len(hit), KILLS // 2)
        self.assertEqual(bits(model), expected_bits)
        self.assertEqual(model.describe().step, 60 * EPOCHS)
        disturbed = {near for epoch in hit for near in range(epoch - 1, epoch + 2)}
        for name, values in history.items():
            self.assertEqual(len(values), EPOCHS)
            for epoch, value in enumerate(values):
                if epoch not in disturbed:
                    # The sums of the server are rounded by slices, whose sizes depend on time.
                    self.assertAlmostEqual(value, expected[name][epoch], 12, (name, epoch))
        self.assertEqual(mx.remote.datasets(), [])


class Recorder:
    """Stands for a Client: its server takes steps, has a live checkpoint after every `durable_every`th, and tells of every
    second one. events: by the number of steps taken in all, "crash", or "broken": the connection, with what was told last."""

    address = "there"

    def __init__(self, durable_every, events):
        self.durable_every, self.events = durable_every, dict(events)
        self.rows, self.taken = [], 0

    def check(self, model, patience):
        return training_pb2.GetSequenceResponse(step=len(self.rows))

    accept = check

    def listen(self, method, request, hear, patience):
        epoch, begin, size, end = request.start_at.epoch, request.start_at.begin, request.batch_size, 100
        steps, unheard = 0, []
        message = training_pb2.TrainProgress(done=True)
        while epoch < request.rows.epoch + request.epochs:
            rows = range(begin, min(begin + size, end))
            self.rows.append((epoch, rows))
            self.taken, steps, begin = self.taken + 1, steps + 1, rows.stop
            message.samples += len(rows)
            unheard.append((epoch, rows))
            ended = begin == end
            if ended:
                of_call = [each for at, each in self.rows[len(self.rows) - steps :] if at == epoch]
                message.ended.add(epoch=epoch, samples=sum(map(len, of_call)), loss=mean(of_call))
                epoch, begin = epoch + 1, 0
            message.next.epoch, message.next.begin = epoch, begin
            event = self.events.pop(self.taken, None)
            if event == "crash":
                del self.rows[len(self.rows) // self.durable_every * self.durable_every :]
                raise calls.CallError("go on with another step", None, "ANSWER_FORGOTTEN")
            message.loss = mean([each for _, each in unheard])
            if event == "broken":
                message.stop = training_pb2.TrainProgress.CLIENT_GONE
                break
            if ended or steps % 2 == 0:
                hear(message)
                del message.ended[:]
                unheard = []
        hear(message)
        return message


def mean(ranges):
    numbers = [number for each in ranges for number in each]
    return sum(numbers) / len(numbers)


class PlaceTest(unittest.TestCase):
    def fit(self, durable_every, events):
        """Two epochs over 100 rows. Returns the rows in the order in which they were taken, and the losses."""
        caller = Recorder(durable_every, events)
        of = training.Epochs("m", mx.remote.Dataset("d"), 100, 3, True, 0, False, None, 0, 2)
        history = training.Training(caller, of, False).run()
        return [(epoch, row) for epoch, rows in caller.rows for row in rows], history["loss"]

    def test_each_row_is_taken_once_in_order(self):
        calm, losses = self.fit(4, {})
        self.assertEqual(calm, [(epoch, row) for epoch in range(2) for row in range(100)])
        self.assertEqual(losses, [49.5, 49.5])
        for place in range(1, 68):
            for events in (
                {place: "crash"},
                {place: "broken"},
                {place: "crash", place + 1: "crash", place + 2: "broken"},
                {place: "broken", place + 3: "crash"},
            ):
                rows, losses = self.fit(4, events)
                self.assertEqual(rows, calm, events)
                self.assertEqual(len(losses), 2, events)

    def test_the_means_leave_out_what_was_lost(self):
        for place in range(1, 68):
            _, losses = self.fit(1, {place: "broken"})
            for loss in losses:
                self.assertAlmostEqual(loss, 49.5, msg=str(place))
        _, losses = self.fit(10, {11: "crash"})
        self.assertAlmostEqual(losses[0], 49.5)
        # The checkpoint has nine steps, and the ninth was not told: rows 24 to 26.
        _, losses = self.fit(9, {9: "crash"})
        self.assertAlmostEqual(losses[0] * 97, 49.5 * 100 - 24 - 25 - 26)

    def test_what_lies_before_the_beginning_is_not_taken_again(self):
        class Forgetful(Recorder):
            def accept(self, model, patience):
                return training_pb2.GetSequenceResponse(step=-1)

        of = training.Epochs("m", mx.remote.Dataset("d"), 100, 3, True, 0, False, None, 0, 2)
        with self.assertRaisesRegex(mx.MXNetError, "go on with another step"):
            training.Training(Forgetful(4, {5: "crash"}), of, False).run()


class LoopTest(CrashCase):
    def test_a_loop_hears_from_which_step_to_go_on(self):
        self.start("1h")
        calm, model = self.define("calm"), self.define("m")
        batches = [points(6, seed) for seed in range(6)]
        for batch in batches:
            calm.train_step(*batch)
        for batch in batches[:5]:
            model.train_step(*batch)
        expected = bits(calm)
        self.crash()
        with self.assertRaisesRegex(mx.MXNetError, r"model 'm': .* started anew .*: go on with step 1\. Load a ") as lost:
            model.train_step(*batches[5])
        self.assertEqual(lost.exception.reason, "REWOUND")
        self.assertEqual(lost.exception.metadata, {"last": "3", "expected": "8", "step": "0"})
        for batch in batches:
            model.train_step(*batch)
        self.assertEqual(bits(model), expected)


class PublishTest(CrashCase):
    def test_a_publish_that_is_sent_again_after_a_kill_is_one_version(self):
        self.start("1h")
        model = self.define("m")

        def numbered(number):
            return call_pb2.CallOptions(client_id="ann", sequence=number)

        def step(number):
            data, label = points(6, number)
            inputs = {
                "data": tensor_pb2.Tensor(shape=[6, 4], raw=data.tobytes()),
                "label": tensor_pb2.Tensor(shape=[6], raw=label.astype("float32").tobytes()),
            }
            calls.current().call(
                methods.TRAIN_STEP, training_pb2.TrainStepRequest(model=model.name, inputs=inputs, call=numbered(number))
            )

        def publish(number):
            request = serving_pb2.PublishModelRequest(model=model.name, call=numbered(number))
            return calls.current().call(methods.PUBLISH_MODEL, request).version.version

        step(1)
        self.assertEqual(publish(2), 1)
        self.crash()
        with self.assertRaises(mx.MXNetError) as lost:
            step(3)
        self.assertEqual(lost.exception.reason, "REWOUND")
        step(1)
        self.assertEqual(publish(2), 1, "the version is on the disk, though the crash has taken the step before it")
        step(3)
        self.assertEqual(publish(4), 2)
        self.assertEqual([each.version for each in mx.remote.versions()], [1, 2])


if __name__ == "__main__":
    case_runner.main()
