"""A server's two GPUs under the Python client: their memory, and the calls that they refuse."""

import os
import subprocess
import tempfile
import time
import unittest

import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd
from tests import case_runner

SERVER = "tests/gpu/emulated/gluond_server.sh"


def lenet(context):
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(6, kernel_size=5, activation="relu"),
        gluon.nn.MaxPool2D(2, 2),
        gluon.nn.BatchNorm(),
        gluon.nn.Conv2D(8, kernel_size=3, activation="tanh"),
        gluon.nn.AvgPool2D(2, 2),
        gluon.nn.Dense(32, activation="relu"),
        gluon.nn.LayerNorm(),
        gluon.nn.Dense(10),
    )
    net.initialize(mx.init.Xavier(), ctx=context)
    return net


def images(n, seed):
    """Images of ten kinds, each a bright square in its own place, and their kinds."""
    random = np.random.RandomState(seed)
    kinds = random.randint(0, 10, n)
    data = random.uniform(0, 0.3, (n, 1, 16, 16)).astype("float32")
    for image, kind in zip(data, kinds):
        image[0, kind : kind + 5, 10 - kind : 15 - kind] += 1
    return data, kinds.astype("float32")


def train(contexts, steps, hybridize=False):
    """The losses of a small LeNet, step by step, its batches shared out to the devices."""
    mx.random.seed(7)
    net = lenet(contexts)
    data, kinds = images(8 * len(contexts), 3)
    parts = [
        (nd.array(data[k :: len(contexts)], ctx=c), nd.array(kinds[k :: len(contexts)], ctx=c)) for k, c in enumerate(contexts)
    ]
    with autograd.pause():
        for x, _ in parts:
            net(x)
    rng = np.random.RandomState(5)
    for parameter in net.collect_params().values():
        if parameter.grad_req != "null" and parameter.name.endswith("weight"):
            parameter.set_data(nd.array(rng.uniform(-0.2, 0.2, parameter.shape)))
    if hybridize:
        net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    losses = []
    for _ in range(steps):
        with autograd.record():
            parts_losses = [loss_of(net(x), y) for x, y in parts]
        for loss in parts_losses:
            loss.backward()
        trainer.step(len(data))
        losses.append(sum(float(loss.sum().asscalar()) for loss in parts_losses) / len(data))
    return losses


class DevicesTest(unittest.TestCase):
    def test_both_gpus_are_there(self):
        self.assertEqual(mx.context.num_gpus(), 2)

    def test_trains_as_the_cpu_does(self):
        want = train([mx.cpu()], 8)
        self.assertLess(want[-1], want[0] / 2)
        np.testing.assert_allclose(train([mx.gpu(0)], 8), want, rtol=2e-4)
        np.testing.assert_allclose(train([mx.gpu(1)], 8, hybridize=True), want, rtol=2e-4)

    def test_two_gpus_share_a_batch(self):
        want = train([mx.cpu(0), mx.cpu(1)], 6)
        np.testing.assert_allclose(train([mx.gpu(0), mx.gpu(1)], 6), want, rtol=2e-4)

    def test_copies_between_all_devices(self):
        values = np.arange(3 << 20, dtype="float32") / 7  # More than a piece of a copy from GPU to GPU.
        array, there = nd.array(values, ctx=mx.cpu()), [mx.gpu(0), mx.gpu(1), mx.cpu(), mx.gpu(1), mx.gpu(0), mx.cpu()]
        for context in there:
            array = array.as_in_context(context)
            self.assertEqual(array.context, context)
        np.testing.assert_array_equal(array.asnumpy(), values)

    def test_arrays_of_two_gpus_are_not_mixed(self):
        with self.assertRaisesRegex(mx.MXNetError, "gpu.*1"):
            (nd.ones((2,), ctx=mx.gpu(0)) + nd.ones((2,), ctx=mx.gpu(1))).asnumpy()

    def test_an_index_out_of_range_is_named(self):
        with self.assertRaisesRegex(mx.MXNetError, "index 9 at position 2 is out of range"):
            nd.take(nd.ones((4, 2), ctx=mx.gpu(0)), nd.array([0, 1, 9], ctx=mx.gpu(0)), mode="raise").asnumpy()


class StartTest(unittest.TestCase):
    def output(self, emulated, *flags):
        """The server's output on a machine with such a GPU."""
        with tempfile.TemporaryDirectory() as folder:
            server = subprocess.Popen(
                [SERVER, "--address=127.0.0.1:0", f"--port_file={folder}/port", *flags],
                env={**os.environ, "GLUOND_EMULATED_GPU": emulated},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for _ in range(300):
                if os.path.exists(f"{folder}/port") or server.poll() is not None:
                    break
                time.sleep(0.1)
            server.terminate()
            return server.communicate(timeout=60)[0]

    def test_lists_the_gpus(self):
        output = self.output("devices=2,memory_mib=2048")
        self.assertIn("gpu:0", output)
        self.assertIn("gpu:1", output)
        self.assertIn("2 GiB", output)

    def test_says_what_an_old_driver_wants(self):
        self.assertIn("the CUDA driver is too old; it must be of version 580 or newer", self.output("driver=old"))

    def test_says_what_an_old_gpu_lacks(self):
        self.assertRegex(
            self.output("capability=7"), r"gpu:0 \(emulated GPU\) has CUDA compute capability 7.0, and 8.0 or more is needed"
        )


if __name__ == "__main__":
    case_runner.main()
