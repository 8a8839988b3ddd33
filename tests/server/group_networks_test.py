"""Each network of tests/bench, and one with what they lack, ends with the same bits in groups of 1, 2, 4 and 8 processes.

With WHOLE_NETWORKS in the environment they are as large as they are measured, but for the pictures.
"""

import contextlib
import os
import sys
import time
import unittest
from unittest import mock

import numpy as np

import gluond as mx
from gluond._proto import parameters_pb2, tensor_pb2, trainer_pb2
from gluond._remote import calls, methods  # No public function reads the bits of a trainer's states.
from tests import case_runner
from tests.server.group_servers import GroupServers

with mock.patch.object(sys, "argv", [sys.argv[0], "gluond"]):  # The module for which these networks are.
    import gluon_networks as networks
cases, gluon, nn = networks.cases, networks.gluon, networks.nn

PROCESSES, SHARDS = (1, 2, 4, 8), 8
# The rows of each step: equal shards, unequal ones, and empty ones.
ROWS = (16, 11, 5)
WORDS, CLASSES = 50, 10
WHOLE = "WHOLE_NETWORKS" in os.environ
cases.IMAGE = (3, 64, 64)
if not WHOLE:  # The same layers, short sequences, and of ResNet-50 all four stages.
    cases.LSTM, cases.ENCODER, cases.RESNET50 = (2, 256, 12), (2, 256, 32, 8), ((1, 1, 1, 1), 16)
OF_CASES = ("recurrent", "encoder", "dense1024", *(("dense2048", "dense4096") if WHOLE else ()), "resnet50", "mobilenet")

GET_OPTIMIZER_STATE = methods.Method(
    "/gluond.v1.TrainingService/GetOptimizerState",
    trainer_pb2.GetOptimizerStateRequest,
    trainer_pb2.GetOptimizerStateResponse,
)


class BatchFirst(gluon.HybridBlock):
    """A network of sequences whose batch is in axis 1, with the batch in axis 0: a group wants it there."""

    def __init__(self, net):
        super().__init__()
        with self.name_scope():
            self.net = net

    def hybrid_forward(self, F, x):
        return F.swapaxes(self.net(F.swapaxes(x, 0, 1)), 0, 1)


def words():
    """An embedding, dropout within an LSTM and behind it, and statistics of batches."""
    return networks.sequential(
        nn.Embedding(WORDS, 16),
        gluon.rnn.LSTM(16, 2, layout="NTC", dropout=0.3, input_size=16),
        nn.Dropout(0.5),
        nn.Dense(32),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Dense(CLASSES),
    )


class Task:
    """A network, and what it is to learn of rows of this shape: the class of a row, or, of sequences, the row itself."""

    def __init__(self, net, shape, classes=None, vocabulary=None, optimizer="sgd", **attributes):
        self.net, self.shape, self._classes, self._vocabulary = net, tuple(shape), classes, vocabulary
        self.loss = gluon.loss.L2Loss() if classes is None else gluon.loss.SoftmaxCrossEntropyLoss()
        self.optimizer, self.attributes = optimizer, attributes or {"learning_rate": 0.01, "momentum": 0.9}

    def batch(self, rng, rows):
        shape = (rows, *self.shape)
        values = rng.uniform(size=shape) if self._vocabulary is None else rng.randint(self._vocabulary, size=shape)
        target = values if self._classes is None else rng.randint(self._classes, size=rows)
        return values.astype("float32"), target.astype("float32")


def of_case(name):
    """A network of network_cases.py."""
    case = cases.CASES[name]
    net, shape = networks.built(case), cases.shape_of(case)
    if case.network == "recurrent":
        return Task(BatchFirst(net), (shape[0], shape[2]))
    return Task(net, shape[1:], None if case.network == "encoder" else cases.CLASSES)


TASKS = {
    **{name: lambda name=name: of_case(name) for name in OF_CASES},
    "resnet20": lambda: Task(networks.resnet20(), cases.RESNET20_IMAGE, CLASSES),
    "lenet": lambda: Task(networks.lenet(), (1, 28, 28), CLASSES),
    "small": lambda: Task(networks.small(), (cases.SMALL_WIDTH,), optimizer="adam", learning_rate=0.01),
    "words": lambda: Task(words(), (9,), CLASSES, WORDS, optimizer="adam", learning_rate=0.01),
}


@contextlib.contextmanager
def connected(server):
    mx.connect(server.address)
    try:
        yield
    finally:
        mx.disconnect()


def ranks():
    """The numbers of the processes that compute: one that is lost and joins again has another."""
    return [each.member for each in mx.remote.group().members if each.place == "RANK"]


def bits(model):
    """All values of a model, and of its optimizer."""
    client, raw = calls.current(), tensor_pb2.Tensor.RAW
    request = parameters_pb2.GetParametersRequest(model=model.name, encoding=raw)
    values = client.call(methods.GET_PARAMETERS, request).parameters
    request = trainer_pb2.GetOptimizerStateRequest(model=model.name, encoding=raw)
    states = client.call(GET_OPTIMIZER_STATE, request).states
    return {name: tensor.raw for tensors in (values, states) for name, tensor in tensors.items()}


def trained(name, task):
    """The reports of the steps, measures of one more batch, and the bits at the end."""
    model = mx.remote.Model.define(
        name,
        task.net,
        (-1, *task.shape),
        loss=task.loss,
        optimizer=task.optimizer,
        optimizer_params=task.attributes,
        initializer=mx.init.Xavier(),
        seed=7,
        group=True,
        virtual_shards=SHARDS,
    )
    rng = np.random.RandomState(1)
    reports = [model.train_step(*task.batch(rng, rows)) for rows in ROWS]
    found = reports, model.evaluate(*task.batch(rng, 11)), bits(model)
    model.delete()
    return found


class GroupNetworksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A group of each size is there for all networks. One that nobody asks takes no time of the others."""
        cls.groups = {}
        for processes in PROCESSES:
            # Nobody dies here, and a busy machine makes a process silent for long. Whole parameters come in one message each.
            group = GroupServers(most=processes, timeout="60s", leader_flags=[f"--max_message_bytes={1 << 30}"])
            cls.addClassCleanup(group.__exit__)
            for number in range(1, processes):
                group.add_member(f"--cpu_threads={1 + number % 2}")  # Bits do not depend on threads, either.
            cls.groups[processes] = group

    def await_ranks(self, processes):
        """Waits until so many processes compute; returns their numbers."""
        end = time.monotonic() + 120
        while len(found := ranks()) != processes:
            self.assertLess(time.monotonic(), end, mx.remote.group())
            time.sleep(0.05)
        return found

    def compare(self, name):
        task, expected = TASKS[name](), None
        for processes, group in self.groups.items():
            with self.subTest(processes=processes):
                with connected(group.leader):
                    began = self.await_ranks(processes)
                    reports, measures, values = trained(name, task)
                    self.assertEqual(began, self.await_ranks(processes), "a process was lost on the way")
                self.assertFalse(any(each.nonfinite for each in reports), reports)
                expected = expected or (reports, measures, values)
                self.assertEqual(expected[0], reports)
                self.assertEqual(expected[1], measures)
                self.assertEqual(expected[2].keys(), values.keys())
                self.assertEqual([], [each for each in values if values[each] != expected[2][each]])


for _name in TASKS:
    setattr(GroupNetworksTest, f"test_{_name}", lambda self, name=_name: self.compare(name))


if __name__ == "__main__":
    case_runner.main()
