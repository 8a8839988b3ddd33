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
KILLS = 8


def points(count, seed=7):
    values = np.random.RandomState(seed).randn(count, 4).astype("float32")
    return values, np.abs(values[:, :3]).argmax(1)


def bits(model):
    answer = calls.current().call(methods.GET_PARAMETERS, parameters_pb2.GetParametersRequest(
        model=model.name, encoding=tensor_pb2.Tensor.RAW))
    return {name: tensor.raw for name, tensor in answer.parameters.items()}


class CrashCase(unittest.TestCase):

    def start(self, every):
        self.server = RunningServer("--cpu_threads=1", f"--checkpoint_every={every}", binary=SERVER)
        self.addCleanup(self.server.__exit__)
        mx.connect(self.server.address)
        self.addCleanup(mx.connect)
        self.net = nn.HybridSequential(prefix="net_")
        with self.net.name_scope():
            self.net.add(nn.Dense(8, activation="relu"), nn.Dropout(0.3), nn.Dense(3))

    def crash(self):
        self.server.process.kill()
        self.server.process.communicate()
        self.server.start()

    def define(self, name):
        """A model that a crash does not take."""
        model = mx.remote.Model.define(name, self.net, (-1, 4), loss=gluon.loss.SoftmaxCrossEntropyLoss(), optimizer="adam",
                                       optimizer_params={"learning_rate": 0.01}, metrics="accuracy",
                                       initializer=mx.init.Xavier(), seed=5)
        while True:
            place = calls.current().check(name)
            if place.durable >= place.last:
                return model
            time.sleep(0.01)


class FitTest(CrashCase):

    def fit(self, model):
        """Fits in calls whose sizes do not depend on time. Returns the history, and each call's place and means."""
        answers = []
        add = training._Sum.add

        def note(total, answer):
            answers.append((answer.next_begin, answer.steps, answer.samples, answer.loss, dict(answer.metrics)))
            add(total, answer)

        with mock.patch.multiple(training, _CALL_SECONDS=1e9, _MOST_STEPS=5), mock.patch.object(training._Sum, "add", note):
            history = model.fit(*points(600), epochs=3, batch_size=6, validation=points(60, seed=8), progress=False)
        del history["seconds"]
        return history, answers

    def test_killed_at_many_moments_it_loses_nothing(self):
        self.start("13steps")
        calm, model = self.define("calm"), self.define("m")
        sent = []
        apply = calls.Caller.apply

        def count(caller, method, *rest, **options):
            sent.append(method)
            time.sleep(0.02)  # Live checkpoints come to an end meanwhile.
            return apply(caller, method, *rest, **options)

        with mock.patch.object(calls.Caller, "apply", count):
            expected, expected_answers = self.fit(calm)
            expected_bits = bits(calm)  # A kill takes the last steps of this one, too.
            undisturbed = len(sent)
            sent.clear()
            kills = []

            def kill():
                seeded = random.Random(11)
                for number in range(KILLS):
                    target = (number + seeded.random()) * undisturbed / (KILLS + 1)
                    while len(sent) < target or kills and len(sent) < kills[-1] + 2:
                        time.sleep(0.0005)
                    time.sleep(seeded.random() * 0.04)
                    self.crash()
                    kills.append(len(sent))

            killer = threading.Thread(target=kill)
            killer.start()
            history, answers = self.fit(model)
            done = len(kills)
            killer.join()
        self.assertEqual(done, KILLS, "a kill after the end tests nothing")
        self.assertGreater(len(sent), undisturbed + KILLS, "calls that were lost are sent again")
        self.assertEqual(bits(model), expected_bits)
        self.assertEqual(model.describe().step, 300)
        self.assertEqual([answer[:2] for answer in answers], [answer[:2] for answer in expected_answers])
        known = [number for number, answer in enumerate(answers) if answer[2]]
        self.assertGreaterEqual(len(known), len(answers) - KILLS, "a crash takes at most one answer")
        self.assertEqual([answers[number] for number in known], [expected_answers[number] for number in known])
        for name, values in history.items():
            if len(known) == len(answers) or name.startswith("validation_"):
                self.assertEqual(values, expected[name], name)
        self.assertEqual(mx.remote.datasets(), [])


class Recorder:
    """Stands for a Caller: its server takes rows, and makes each `durable_every`th call durable at once. events: what
    happens at the attempts of these numbers: "crash" before it; "short": one step alone; "forgotten": no answer."""

    address = "there"

    def __init__(self, durable_every, events):
        self.durable_every, self.events = durable_every, events
        self.rows, self.attempts = [], 0

    def check(self, model, patience):
        return training_pb2.GetSequenceResponse(last=len(self.rows), step=self.step())

    def step(self):
        return sum(steps for _, _, steps in self.rows)

    def durable(self):
        return len(self.rows) // self.durable_every * self.durable_every

    def apply(self, method, request, patience):
        self.attempts += 1
        event = self.events.get(self.attempts)
        if event == "crash":
            expected = len(self.rows)
            del self.rows[self.durable():]
            if len(self.rows) < expected:
                raise calls.CallError("go on with another step", None, "REWOUND",
                                      {"last": str(len(self.rows)), "expected": str(expected)})
        request.call.sequence = len(self.rows) + 1
        begin, size = request.rows.begin, request.batch_size
        end = min(begin + size * (1 if event == "short" else request.steps), request.rows.end)
        self.rows.append((request.rows.epoch, range(begin, end), -(-(end - begin) // size)))
        if event == "forgotten":
            raise calls.CallError("gone", None, "ANSWER_FORGOTTEN")
        answer = training_pb2.TrainStepResponse(steps=self.rows[-1][2], samples=end - begin, next_begin=end, loss=begin,
                                                durable_sequence=self.durable())
        answer.report.step = self.step()
        return answer


class KeptCallsTest(unittest.TestCase):

    def fit(self, durable_every, events):
        """Two epochs over 100 rows. Returns the rows in the order in which they were taken, and the losses."""
        caller = Recorder(durable_every, events)
        trainer = training.Trainer(caller, training.Epochs("m", mx.remote.Dataset("d"), 100, 3, True, 0, False), False)
        with mock.patch.multiple(training, _CALL_SECONDS=1e9, _MOST_STEPS=2):
            losses = [trainer.epoch(number, "")["loss"] for number in range(2)]
        self.assertLessEqual(len(trainer._kept), durable_every)
        return [(epoch, row) for epoch, rows, _ in caller.rows for row in rows], losses

    def test_each_row_is_taken_once_in_order(self):
        calm = self.fit(4, {})
        self.assertEqual(calm[0], [(epoch, row) for epoch in range(2) for row in range(100)])
        for place in range(2, 40):
            for events in ({}, {place + 1: "short"}, {place + 2: "crash"}, {place + 2: "short", place + 4: "crash"}):
                rows, losses = self.fit(4, {place: "crash", **events})
                self.assertEqual(rows, calm[0], (place, events))
                if "short" not in events.values():  # The sizes of calls decide how the sums are rounded.
                    self.assertEqual(losses, calm[1], (place, events))

    def test_an_answer_that_is_lost_leaves_its_rows_out_of_the_means(self):
        calm, (loss, other) = self.fit(4, {})
        rows, losses = self.fit(4, {2: "forgotten", 6: "crash", 7: "forgotten"})
        self.assertEqual(rows, calm)
        self.assertAlmostEqual(losses[0] * 94, loss * 100 - 3 * 6)
        self.assertEqual(losses[1], other)

    def test_more_calls_than_are_kept_end_it(self):
        with mock.patch.object(training, "_MOST_KEPT", 3):
            with self.assertRaisesRegex(mx.MXNetError, "go on with another step"):
                self.fit(8, {6: "crash"})


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
            inputs = {"data": tensor_pb2.Tensor(shape=[6, 4], raw=data.tobytes()),
                      "label": tensor_pb2.Tensor(shape=[6], raw=label.astype("float32").tobytes())}
            calls.current().call(methods.TRAIN_STEP, training_pb2.TrainStepRequest(
                model=model.name, inputs=inputs, call=numbered(number)))

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
