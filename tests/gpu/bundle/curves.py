"""Trains a network on the CPU and on gpu:0 from the same parameters on the same batches, and compares the losses:
`curves.py {full,tiny}`, with the server at GLUOND_ADDRESS. `names` on a line of standard input asks for the networks, a
name for its comparison, which is one line: `equal: ...` or `different: ...`.

How far two right curves may be apart is measured, too: a third training on the CPU begins with parameters that differ by
one part in a million, as much as a sum's other order does in a layer. The GPU's losses may be as far from the CPU's as thirty
times the largest such distance so far, plus a hundred-thousandth."""

import sys

import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd

import gluond_networks
import images
import sizes

CLASSES = 10
# Steps and learning rate. Batch normalization over few values makes of a small difference a large one: the residual networks
# learn slowly, so that their curves stay comparable.
TRAININGS = {
    "full": {"lenet": (50, 0.0005), "resnet20": (30, 0.001), "resnet50": (3, 0.0001), "encoder": (3, 0.01)},
    "tiny": {"lenet": (3, 0.01)},
}[sys.argv[1]]
CHANGE, MARGIN, FLOOR = 1e-6, 30, 1e-5
# Beyond this the margin would excuse anything: such a training is too wild to compare.
MOST = 0.05


def batch_of(name, number, shape):
    """Images with some noise, in as many channels and as large as the network wants them; for the encoder noise with a trace of
    the label."""
    random = np.random.RandomState(number)
    labels = images.read("train", "labels-idx1", (number + 1) * shape[0])[-shape[0] :]
    if name == "encoder":
        data = random.normal(0, 1, shape)
        data[np.arange(len(labels)), :, labels] += 1
        return data.astype("float32"), labels
    small = images.read("train", "images-idx3", (number + 1) * shape[0])[-shape[0] :] / 255
    data = random.normal(0, 0.3, shape)
    data[:, :, :28, :28] += small[:, None]
    return data.astype("float32"), labels


def set_parameters(net, change):
    """By the parameters' order, so that each network has the same: normal values, as wide as rectifiers want them."""
    random, changes = np.random.RandomState(5), np.random.RandomState(6)
    for parameter in net.collect_params().values():
        if parameter.name.endswith("weight"):
            values = random.normal(0, (2 / np.prod(parameter.shape[1:])) ** 0.5, parameter.shape)
            values *= 1 + change * changes.choice([-1, 1], parameter.shape)
            parameter.set_data(nd.array(values.astype("float32")))
        elif parameter.name.endswith("gamma"):
            parameter.set_data(nd.full(parameter.shape, 0.5))  # So that a block adds less than what it adds to.


def losses(name, context, change=0.0):
    shape = sizes.SMALL_BATCHES[name] if sys.argv[1] == "full" else sizes.TINY.networks[name].batch
    net = gluond_networks.make(name, CLASSES, sizes.SMALL_ENCODER)
    net.initialize(mx.init.Xavier(), ctx=context)
    with autograd.pause():
        net(nd.array(batch_of(name, 0, shape)[0], ctx=context))
    set_parameters(net, change)
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    steps, rate = TRAININGS[name]
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "momentum": 0.9})
    found = []
    for number in range(steps):
        data, labels = batch_of(name, number, shape)
        x, y = nd.array(data, ctx=context), nd.array(labels.astype("float32"), ctx=context)
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(len(data))
        found.append(loss.mean())
    return np.array([float(loss.asscalar()) for loss in found])


def compare(name):
    cpu, changed, gpu = losses(name, mx.cpu()), losses(name, mx.cpu(), CHANGE), losses(name, mx.gpu(0))
    apart = np.abs(gpu - cpu)
    allowed = MARGIN * np.maximum.accumulate(np.abs(changed - cpu)) + FLOOR
    is_right = np.isfinite(cpu).all() and (apart <= np.minimum(allowed, MOST)).all()
    return (
        f"{'equal' if is_right else 'different'}: {name}, {len(cpu)} losses from {cpu[0]:.4f} to {cpu[-1]:.4f} on the CPU, "
        f"gpu:0 at most {apart.max():.1e} apart, allowed {allowed[-1]:.1e} at the end"
    )


if __name__ == "__main__":
    for line in map(str.strip, sys.stdin):
        print(" ".join(TRAININGS) if line == "names" else compare(line), flush=True)
