"""Cases with a server that saves sessions, and a file of keys of their own; and a training to be left and come back to."""

import os
import subprocess
import sys
import tempfile
from unittest import mock

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests.client.python.array_case import ArrayCase
from tests.server.running_server import RunningServer

SERVER = os.environ.get("GLUOND_SERVER", "server/gluond-server")


def started(case, *flags):
    """A server that ends with the case, to which this process is connected."""
    server = RunningServer(*flags, binary=SERVER)
    case.addCleanup(server.__exit__)
    mx.connect(server.address)
    return server


def program(code, **options):
    """A Python process that runs this code."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        **options,
    )


class SavedCase(ArrayCase):
    """The file of keys is in `self.folder`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": self.folder})
        patch.start()
        self.addCleanup(patch.stop)


class SessionCase(SavedCase):
    """With a server of the case's own."""

    def setUp(self):
        super().setUp()
        self.server = started(self)


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(3))
    return net


def trained(net=None, steps=3, optimizer="adam", **parameters):
    """A network and its trainer after a few steps."""
    net = net or network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(points()[0])
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **parameters})
    train(net, trainer, steps)
    return net, trainer


def points():
    values = np.random.RandomState(7).randn(16, 4).astype("float32")
    return nd.array(values), nd.array(np.abs(values[:, :3]).argmax(1))


def train(net, trainer, steps=3):
    x, y = points()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(steps):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(16)


def bits(net):
    """All numbers of a network, by the structural names of its parameters."""
    return {name: each.data().asnumpy().tobytes().hex() for name, each in net._collect_params_with_prefix().items()}
