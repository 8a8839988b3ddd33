"""gluond's side of compare.py: `gluond_side.py {full,tiny}`, with the server at GLUOND_ADDRESS. See turns.py."""

import os
import sys

import grpc
import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd
from gluond._proto import server_pb2

import gluond_networks
import requests_of_steps
import sizes
import turns

SIZES = {"full": sizes.FULL, "tiny": sizes.TINY}[sys.argv[1]]
GPU = mx.gpu(0)


def finish_with(array):
    """One element travels, after all that was asked for before it."""
    return lambda: array.reshape(-1)[0:1].asnumpy()


def random(shape):
    return nd.random.uniform(-1, 1, shape, ctx=GPU)


def gemm(dtype):
    n = SIZES.matrix
    a, b = (random((n, n)).astype(dtype) for _ in range(2))
    product = nd.dot(a, b)
    return lambda: nd.dot(a, b, out=product), SIZES.times, finish_with(product)


def absolute():
    x, y = random((SIZES.vector,)), random((SIZES.vector,))
    return lambda: nd.abs(x, out=y), SIZES.times, finish_with(y)


class Chain(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.tanh(x * 1.5 + 0.5) * F.relu(x) - x


def chain():
    x, net = random((SIZES.vector,)), Chain()
    net.hybridize(static_alloc=True, static_shape=True)
    kept = [net(x)]

    def run():
        kept[0] = net(x)

    return run, SIZES.times, lambda: finish_with(kept[0])()


class Step:
    """A network on the GPU, with a batch that lies there."""

    def __init__(self, name):
        size = SIZES.networks[name]
        mx.random.seed(0)
        self.net = gluond_networks.make(name, size.classes, SIZES.encoder)
        self.net.initialize(mx.init.Xavier(), ctx=GPU)
        self.net.hybridize(static_alloc=True, static_shape=True)
        self.loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss_of.hybridize(static_alloc=True, static_shape=True)
        self.x = random(size.batch)
        self.y = nd.array(np.arange(size.batch[0]) % size.classes, ctx=GPU)
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        self.last = None

    def train(self):
        with autograd.record():
            self.last = self.loss_of(self.net(self.x), self.y)
        self.last.backward()
        self.trainer.step(len(self.x))

    def infer(self):
        self.last = self.net(self.x)

    def finish(self):
        """The last loss, or output, and the parameters of the last step."""
        finish_with(self.last)()
        nd.waitall()


def training(name):
    step = Step(name)
    return step.train, SIZES.networks[name].steps, step.finish


def inference(name):
    step = Step(name)
    return step.infer, SIZES.networks[name].steps, step.finish


def request(name):
    """Each is waited for."""
    size = SIZES.networks[name]
    steps = requests_of_steps.StepRequests(
        os.environ["GLUOND_ADDRESS"], name, gluond_networks.make(name, size.classes, SIZES.encoder), size
    )
    return steps.step, max(2, size.steps // 2), lambda: None


def memory():
    """The most bytes of the GPU's memory that the server's tensors had."""
    with grpc.insecure_channel(os.environ["GLUOND_ADDRESS"]) as channel:
        ask = channel.unary_unary(
            "/gluond.v1.ServerService/GetServerInfo",
            request_serializer=server_pb2.GetServerInfoRequest.SerializeToString,
            response_deserializer=server_pb2.GetServerInfoResponse.FromString,
        )
        return next(device.memory_peak_bytes for device in ask(server_pb2.GetServerInfoRequest()).devices if device.name == "gpu:0")


if __name__ == "__main__":
    turns.Turns(
        {"gemm": gemm, "abs": absolute, "chain": chain, "training": training, "inference": inference, "request": request}
    ).answer({"memory": memory})
