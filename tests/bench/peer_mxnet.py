"""The same training steps in MXNet 1.9.1 (Gluon, hybridized), in process: prints milliseconds a step, one
line for each line of standard input. Needs numpy<1.24. Threads are OMP_NUM_THREADS.

usage: peer_mxnet.py {mlp,lenet,resnet20} STEPS [BATCH]
"""

import sys
import time

import needs

needs.require("numpy", "mxnet")

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon  # noqa: E402
from mxnet.gluon import nn  # noqa: E402


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    return net, (1, 28, 28)


def lenet():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(50, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Dense(500, activation="relu"),
        nn.Dense(10),
    )
    return net, (1, 28, 28)


class Residual(gluon.HybridBlock):
    def __init__(self, channels, stride, match):
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(
            nn.Conv2D(channels, 3, stride, 1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 3, 1, 1, use_bias=False),
            nn.BatchNorm(),
        )
        self.shortcut = nn.HybridSequential()
        if match:
            self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet20():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    channels_in = 16
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            net.add(Residual(channels, stride if i == 0 else 1, i == 0 and channels != channels_in))
        channels_in = channels
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(10))
    return net, (3, 32, 32)


def main():
    name, steps = sys.argv[1], int(sys.argv[2])
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    mx.random.seed(0)
    net, shape = {"mlp": mlp, "lenet": lenet, "resnet20": resnet20}[name]()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x = mx.nd.random.uniform(shape=(batch, *shape))
    y = mx.nd.array([i % 10 for i in range(batch)])

    def step():
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(batch)
        return loss.mean().asscalar()

    for _ in range(min(steps, 20)):
        step()
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        print(f"{(time.perf_counter() - begin) / steps * 1e3:.3f}", flush=True)


if __name__ == "__main__":
    main()
