"""fit() on a group of servers, of which too few are left for a while."""

import threading
import time
import unittest

import numpy as np

import gluond as mx
from gluond import gluon
from gluond._proto import parameters_pb2, tensor_pb2
from gluond._remote import calls, methods  # No public function reads bits.
from gluond.gluon import nn
from tests import case_runner
from tests.server.group_servers import GroupServers, kill

ROWS, BATCH, EPOCHS = 1000, 10, 10
STEPS = ROWS // BATCH * EPOCHS


def define(name):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(8, activation="relu"), nn.Dense(3))
    return mx.remote.Model.define(
        name,
        net,
        (-1, 4),
        loss=gluon.loss.SoftmaxCrossEntropyLoss(),
        optimizer="adam",
        optimizer_params={"learning_rate": 0.01},
        initializer=mx.init.Xavier(),
        seed=5,
        group=True,
    )


def bits(model):
    request = parameters_pb2.GetParametersRequest(model=model.name, encoding=tensor_pb2.Tensor.RAW)
    values = calls.current().call(methods.GET_PARAMETERS, request).parameters
    return {name: value.raw for name, value in values.items()}


class GroupFitTest(unittest.TestCase):
    def setUp(self):
        self.group = GroupServers(most=2, least=2)
        self.addCleanup(self.group.__exit__)
        self.member = self.group.add_member()
        mx.connect(self.group.leader.address)
        self.addCleanup(mx.disconnect)
        values = np.random.RandomState(7).randn(ROWS, 4).astype("float32")
        self.rows = mx.remote.Dataset("rows", data=values, label=np.abs(values[:, :3]).argmax(1))

    def fit(self, model):
        return model.fit(self.rows, epochs=EPOCHS, batch_size=BATCH, seed=3, progress=False)

    def lose_the_member(self, model, ended):
        """Takes the only other process away in the middle of the training, and brings it back."""
        while model.describe().step < STEPS // 4 and not ended.is_set():
            time.sleep(0.005)
        kill(self.member)
        self.left = model.describe().step
        time.sleep(3)
        self.member.start()

    def test_it_waits_for_the_member_that_died(self):
        model, ended = define("lost"), threading.Event()
        losing = threading.Thread(target=self.lose_the_member, args=(model, ended))
        losing.start()
        try:
            history = self.fit(model)
        finally:
            ended.set()
            losing.join()
        self.assertLess(self.left, STEPS, "the training was over before")
        self.assertEqual(model.describe().step, STEPS)
        calm = define("calm")
        expected = self.fit(calm)
        np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-6)
        self.assertEqual(bits(model), bits(calm))


if __name__ == "__main__":
    case_runner.main()
