"""Operators that a C++ program computes for Python's models, the other way round, and what happens where one of the two is killed."""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import unittest

import numpy as np

import gluond as mx
from gluond import gluon
from tests import case_runner
from tests.server.running_server import RunningServer

KEY = "0123456789abcdef0123456789abcdef"
# As a program has it that does not know the operator.
NETWORK = json.dumps(
    {
        "nodes": [
            {"op": "null", "name": "data", "inputs": []},
            {"op": "null", "name": "w_weight", "inputs": []},
            {
                "op": "FullyConnected",
                "name": "w",
                "attrs": {"num_hidden": "1", "no_bias": "True"},
                "inputs": [[0, 0, 0], [1, 0, 0]],
            },
            {"op": "null", "name": "label", "inputs": []},
            {
                "op": "Custom",
                "name": "loss",
                "attrs": {"op_type": "huber", "__custom__": json.dumps({"arguments": ["data", "label"], "outputs": ["output"]})},
                "inputs": [[2, 0, 0], [3, 0, 0]],
            },
        ],
        "arg_nodes": [0, 1, 3],
        "node_row_ptr": [0, 1, 2, 3, 4, 5],
        "heads": [[4, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
)
OWN_CALL = "tests/client/cpp/own_call"
PROVIDER = "client/cpp/provider"


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RunningServer())
        mx.connect(self.server.address)
        self.addCleanup(mx.disconnect)

    def start(self, seconds=0.0):
        provider = subprocess.Popen(
            [PROVIDER, self.server.address, str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GLUOND_OPERATOR_KEY": KEY},
        )
        self.addCleanup(self.stop, provider)
        self.assertEqual(provider.stdout.readline(), "huber is computed here\n")
        return provider

    def stop(self, provider):
        provider.kill()
        provider.wait()
        provider.stdout.close()

    def model(self):
        network = gluon.SymbolBlock(mx.sym.load_json(NETWORK), [mx.sym.var("data"), mx.sym.var("label")])
        model = mx.remote.Model.define("line", network, [(-1, 2), (-1, 1)], initializer="zeros", replace=True)
        model.create_trainer(loss_output=model.describe().outputs[0].name, optimizer="sgd", optimizer_params={"learning_rate": 0.5})
        return model

    def weight(self, model):
        (weight,) = model.block().collect_params().values()
        return weight.data().asnumpy()

    def test_python_trains_what_cpp_computes_and_a_provider_that_is_killed_comes_back_with_its_key(self):
        provider = self.start()
        model = self.model()
        rng = np.random.RandomState(1)
        points = rng.uniform(-1, 1, (64, 2)).astype("float32")
        labels = (points @ [[2.0], [-3.0]]).astype("float32")
        batch = dict(zip((each.name for each in model.describe().inputs), (points, labels)))
        losses = [model.train_step(batch, None).loss for _ in range(40)]
        self.assertLess(losses[-1], 0.2 * losses[0])
        before = self.weight(model)
        self.stop(provider)
        with self.assertRaisesRegex(mx.MXNetError, "huber"):
            model.train_step(batch, None)
        np.testing.assert_array_equal(self.weight(model), before)  # Nothing was applied.
        self.start()
        self.assertEqual(model.train_step(batch, None).step, 41)
        self.assertFalse(np.array_equal(self.weight(model), before))

    def test_a_provider_that_is_killed_within_a_call_fails_that_call(self):
        provider = self.start(60)
        model = self.model()
        errors = []
        names = [each.name for each in model.describe().inputs]

        def step():
            try:
                model.train_step(dict(zip(names, (np.ones((4, 2), "float32"), np.ones((4, 1), "float32")))), None)
            except mx.MXNetError as error:
                errors.append(str(error))

        thread = threading.Thread(target=step)
        thread.start()
        time.sleep(0.5)
        provider.send_signal(signal.SIGKILL)
        thread.join(30)
        self.assertEqual(len(errors), 1)
        self.assertIn("huber", errors[0])

    def test_cpp_calls_what_python_computes(self):
        class Shift(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] + 100)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * 7)

        @mx.operator.register("shift_in_python", shared=True)
        class ShiftProp(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                return Shift()

        ran = subprocess.run([OWN_CALL, self.server.address], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (0, "101 102 7 7\n"), ran.stderr)

    def test_the_container_file_copies_what_is_there(self):
        folder = pathlib.Path("deploy/examples/cpp_provider")
        lines = (folder / "Containerfile").read_text().splitlines()
        (copied,) = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
        for name in copied:
            self.assertTrue((folder / name).exists(), name)


if __name__ == "__main__":
    case_runner.main()
