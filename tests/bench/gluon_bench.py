"""The tutorials' code and the networks of network_cases.py, timed: the same lines with gluond and with MXNet 1.9.1. Prints
microseconds, one line for each case named on a line of standard input; network_cases.py has the rest of the protocol.

usage: gluon_bench.py {gluond,mxnet}

gluond works with the server at GLUOND_ADDRESS. The case `echo_N` sends N bytes to the echo server at ECHO_ADDRESS, by
grpcio, and gets them back. `kill_N` kills process N, a member of the group that gluond leads.
MXNet needs numpy<1.24. Threads are OMP_NUM_THREADS.
"""

import os
import sys

import needs

if len(sys.argv) != 2 or sys.argv[1] not in ("gluond", "mxnet"):
    sys.exit(__doc__)
needs.require("numpy", *(("grpc", "google.protobuf", "crc32c") if sys.argv[1] == "gluond" else ()), sys.argv[1])

import numpy as np  # noqa: E402

import gluon_networks  # noqa: E402
from gluon_networks import autograd, gluon, mx, nd, nn  # noqa: E402
from network_cases import Timed, answer  # noqa: E402

# The cases that gluond alone has, and lines that are not timed.
GLUONDS, OTHERS = {}, {}
if sys.argv[1] == "gluond":
    import gluond_cases

    GLUONDS, OTHERS = gluond_cases.CASES, {"memory": gluond_cases.memory, "ranks": gluond_cases.ranks}


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

    channel = grpc.insecure_channel(os.environ["ECHO_ADDRESS"], [("grpc.max_receive_message_length", -1)])
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
    net = gluon_networks.lenet()
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


def make(line):
    """A case, timed."""
    if line.startswith("echo_"):
        return Timed(*echo(int(line[len("echo_") :])))
    if line.startswith("kill_"):
        return gluond_cases.kill(int(line[len("kill_") :]))
    if line in CASES:
        return Timed(*CASES[line]())
    return GLUONDS[line]() if line in GLUONDS else gluon_networks.make(line)


if __name__ == "__main__":
    answer(make, OTHERS, nd.waitall)
