"""The tutorials' code, timed: the same lines with gluond and with MXNet 1.9.1. Prints microseconds, one line for each
case named on a line of standard input.

usage: gluon_bench.py {gluond,mxnet}

gluond works with the server at GLUOND_ADDRESS. The case `echo_N` sends N bytes to the echo server at ECHO_ADDRESS, by
grpcio, and gets them back.
MXNet needs numpy<1.24. Threads are OMP_NUM_THREADS.
"""

import importlib
import os
import statistics
import sys
import time

import needs

if len(sys.argv) != 2 or sys.argv[1] not in ("gluond", "mxnet"):
    sys.exit(__doc__)
needs.require("numpy", *(("grpc", "google.protobuf", "crc32c") if sys.argv[1] == "gluond" else ()), sys.argv[1])

import numpy as np  # noqa: E402

mx = importlib.import_module(sys.argv[1])
nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
nn = gluon.nn


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        y /= y.sum(axis=1, keepdims=True)
        self.assign(out_data[0], req[0], nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy().copy()
        y[np.arange(label.shape[0]), label] -= 1.0
        self.assign(in_grad[0], req[0], nd.array(y))


@mx.operator.register("bench_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


class Same(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("bench_same")
class SameProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Same()


def chain():
    a = nd.ones((2, 2))

    def run():
        b = a
        for _ in range(1000):
            b = b + 1
        b.wait_to_read()

    return run, 20, 1000


def round_trip():
    a, b = nd.ones((2, 2)), nd.ones((2, 2))
    return lambda: (a + b).asnumpy(), 500, 1


def echo(size):
    import grpc

    channel = grpc.insecure_channel(os.environ["ECHO_ADDRESS"])
    call = channel.unary_unary("/gluond.v1.OperatorService/Invoke")
    message = bytes(size)
    return lambda: call(message), 500 if size == 0 else 20, 1


def element():
    """One element of an array that has just been computed."""
    a = nd.ones((8, 8))
    return lambda: (a + 1)[3][4].asscalar(), 300, 1


def elements():
    """A loop over the elements of an array that has just been computed."""
    a = nd.ones((100,))

    def run():
        b = a + 1
        for i in range(100):
            b[i].asscalar()

    return run, 30, 100


def set_one(key):
    """One element of a large array is written."""
    a = nd.zeros((100_000_000,))

    def run():
        a[key] = 1
        a.wait_to_read()

    return run, 50, 1


def small_network():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(4))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.ones((4, 8))
    return lambda: net(x).asnumpy(), 300, 1


def add(size):
    x = nd.ones((size,))

    def run():
        (x + 1).wait_to_read()

    return run, 50, 1


def fetch(size):
    x = nd.ones((size,))
    x.wait_to_read()
    return x.asnumpy, 20, 1


def put(size):
    values = np.ones((size,), "float32")

    def run():
        nd.array(values).wait_to_read()

    return run, 20, 1


def copy(size):
    values = np.ones((size,), "float32")
    return values.copy, 20, 1


def lenet(hybrid):
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(50, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Dense(500, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    images = np.random.RandomState(0).uniform(size=(64, 1, 28, 28)).astype("float32")
    labels = (np.arange(64) % 10).astype("float32")

    def step():
        x, y = nd.array(images), nd.array(labels)
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(64)
        return loss.mean().asscalar()

    return step, 60, 1


def recurrent():
    """Two layers of LSTM of 256 over 35 steps of one sequence."""
    net = gluon.rnn.LSTM(256, 2, input_size=256)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    x = np.random.RandomState(0).uniform(size=(35, 1, 256)).astype("float32")
    return lambda: net(nd.array(x)).asnumpy(), 20, 1


class EncoderLayer(gluon.HybridBlock):
    """Self-attention and two dense layers, normalized after each."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        with self.name_scope():
            self.project, self.merge = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
            self.widen, self.narrow = nn.Dense(4 * width, flatten=False, activation="relu"), nn.Dense(width, flatten=False)
            self.norms = nn.HybridSequential()
            self.norms.add(nn.LayerNorm(), nn.LayerNorm())

    def heads_of(self, F, x):
        """(batch, steps, width) as (batch * heads, steps, width / heads)."""
        return F.reshape(F.transpose(F.reshape(x, (0, 0, self.heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))

    def hybrid_forward(self, F, x):
        query, key, value = (self.heads_of(F, y) for y in F.split(self.project(x), num_outputs=3, axis=2))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) * self.scale)
        y = F.reshape(F.batch_dot(weights, value), (-4, -1, self.heads, 0, 0))
        y = self.norms[0](x + self.merge(F.reshape(F.transpose(y, (0, 2, 1, 3)), (0, 0, -3))))
        return self.norms[1](y + self.narrow(self.widen(y)))


def encoder():
    """Four layers of width 256 over a sequence of 128."""
    net = nn.HybridSequential()
    for _ in range(4):
        net.add(EncoderLayer(256, 8))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    x = np.random.RandomState(0).uniform(size=(1, 128, 256)).astype("float32")
    return lambda: net(nd.array(x)).asnumpy(), 15, 1


class Bottleneck(gluon.HybridBlock):
    """1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, channels, stride, match):
        super().__init__()
        with self.name_scope():
            self.body, self.shortcut = nn.HybridSequential(), nn.HybridSequential()
            self.body.add(
                nn.Conv2D(channels // 4, 1, stride),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels // 4, 3, 1, 1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 1),
                nn.BatchNorm(),
            )
            if match:
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        return F.Activation(self.body(x) + (self.shortcut(x) if len(self.shortcut) else x), act_type="relu")


def resnet50(batch):
    """Inference of one image, or training steps."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            net.add(Bottleneck(256 << stage, 2 if stage > 0 and i == 0 else 1, i == 0))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(1000))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    images = np.random.RandomState(0).uniform(size=(batch, 3, 224, 224)).astype("float32")
    if batch == 1:
        return lambda: net(nd.array(images)).asnumpy(), 5, 1
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    labels = np.arange(batch).astype("float32")

    def step():
        x, y = nd.array(images), nd.array(labels)
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(batch)
        return loss.mean().asscalar()

    return step, 1, 1


def custom_softmax(computed):
    """computed: the operator's input is another operator's output, as in a network."""
    x = nd.array(np.random.RandomState(0).normal(size=(64, 1000)))
    label = nd.array(np.arange(64))
    x.attach_grad()

    def run():
        with autograd.record():
            y = nd.Custom(x * 1 if computed else x, label, op_type="bench_softmax")
        y.backward()
        x.grad.wait_to_read()

    return run, 200, 1


def custom_float():
    x = nd.ones((1,))
    x.attach_grad()

    def run():
        with autograd.record():
            y = nd.Custom(x, op_type="bench_same")
        y.backward()
        x.grad.wait_to_read()

    return run, 200, 1


CASES = {
    "chain": chain,
    "round_trip": round_trip,
    "hybridized": lambda: lenet(True),
    "imperative": lambda: lenet(False),
    "custom_softmax": lambda: custom_softmax(False),
    "computed_softmax": lambda: custom_softmax(True),
    "custom_float": custom_float,
    "recurrent": recurrent,
    "encoder": encoder,
    "resnet50": lambda: resnet50(1),
    "resnet50_training": lambda: resnet50(8),
    "element": element,
    "elements": elements,
    "set_list": lambda: set_one([0]),
    "set_row": lambda: set_one(0),
    "small_network": small_network,
    "add": lambda: add(4 << 20),
    "fetch": lambda: fetch(4 << 20),
    "fetch_64": lambda: fetch(16 << 20),
    "put": lambda: put(4 << 20),
    "copy": lambda: copy(4 << 20),
    "copy_64": lambda: copy(16 << 20),
}


def main():
    prepared = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared[name] = echo(int(name[5:])) if name.startswith("echo_") else CASES[name]()
            for _ in range(10):
                prepared[name][0]()
        run, times, operations = prepared[name]
        nd.waitall()
        parts = []
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(max(1, times // 5)):
                run()
            parts.append((time.perf_counter() - begin) / max(1, times // 5) / operations * 1e6)
        print(f"{statistics.median(parts):.2f}", flush=True)


if __name__ == "__main__":
    main()
