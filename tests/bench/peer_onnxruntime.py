"""Networks by onnxruntime in this process, with two threads: inference only.

usage: PYTHON peer_onnxruntime.py [{lenet,resnet50}]

With a network, of those of networks.h, each line is a number of seconds, and its answer the median of a sample's milliseconds.
Without one, lines and answers are gluon_bench.py's, for the cases of network_cases.py.
"""

import statistics
import sys
import time

import needs

needs.require("onnxruntime", "onnx", "numpy")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import network_cases as cases  # noqa: E402


class Network:
    """A graph that grows at its end. shape: the input's."""

    def __init__(self, shape):
        self.shape, self.end, self.channels = shape, "data", shape[1]
        self.nodes, self.values, self.matrices = [], [], 0

    def value(self, array):
        name = f"value{len(self.values)}"
        self.values.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def matrix(self, *shape):
        """The next one's values."""
        self.matrices += 1
        return cases.weight(self.matrices - 1, shape)

    def weight(self, *shape):
        return self.value(self.matrix(*shape))

    def add(self, op, *inputs, start=None, outputs=1, **attributes):
        """Adds a node, which is the end from here on; of several outputs the first one. Their names."""
        names = [f"node{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, [start or self.end, *inputs], names, **attributes))
        self.end = names[0]
        return names

    def convolve(self, filters, kernel, stride=1, pad=0, start=None, channels=None):
        weight = self.weight(filters, channels or self.channels, kernel, kernel)
        self.add("Conv", weight, start=start, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        self.channels = filters

    def normalize(self):
        ones, zeros = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)
        self.add("BatchNormalization", *map(self.value, (ones, zeros, zeros, ones)))

    def dense(self, units, inputs):
        self.add("Gemm", self.weight(units, inputs), self.value(np.zeros(units, np.float32)), transB=1)

    def dense_rows(self, units, inputs):
        """The same over the last of three axes."""
        self.add("MatMul", self.value(np.ascontiguousarray(self.matrix(units, inputs).T)))
        self.add("Add", self.value(np.zeros(units, np.float32)))

    def lstm(self, width):
        """Gates as ONNX orders them: the others have input, forget, cell, output."""
        reorder = lambda matrix: matrix.reshape(4, width, width)[[0, 3, 1, 2]].reshape(1, 4 * width, width)
        weights = [self.value(reorder(self.matrix(4 * width, width))) for _ in range(2)]
        self.add("LSTM", *weights, self.value(np.zeros((1, 8 * width), np.float32)), hidden_size=width)
        self.add("Squeeze", self.value(np.array([1], np.int64)))  # The axis of directions.

    def normalize_rows(self, width):
        self.add(
            "LayerNormalization", self.value(np.ones(width, np.float32)), self.value(np.zeros(width, np.float32)), epsilon=1e-5
        )

    def attend(self, width, steps, heads):
        """Self-attention: the projection, what each head sees, and the projection back."""
        self.dense_rows(3 * width, width)
        parts = self.add("Split", outputs=3, axis=2)
        by_heads = self.value(np.array([0, steps, heads, width // heads], np.int64))
        moved = []
        for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
            self.add("Reshape", by_heads, start=part)
            moved += self.add("Transpose", perm=order)
        query, key, value = moved
        self.add("MatMul", key, start=query)
        self.add("Mul", self.value(np.array((width // heads) ** -0.5, np.float32)))
        self.add("Softmax", axis=-1)
        self.add("MatMul", value)
        self.add("Transpose", perm=[0, 2, 1, 3])
        self.add("Reshape", self.value(np.array([0, steps, width], np.int64)))
        self.dense_rows(width, width)

    def bottleneck(self, filters, stride, match):
        start, channels = self.end, self.channels
        for width, kernel, step in ((filters, 1, stride), (filters, 3, 1), (4 * filters, 1, 1)):
            self.convolve(width, kernel, step, kernel // 2)
            self.normalize()
            if width == filters:
                self.add("Relu")
        body, shortcut = self.end, start
        if match:
            self.convolve(4 * filters, 1, stride, start=start, channels=channels)
            self.normalize()
            shortcut = self.end
        self.add("Add", shortcut, start=body)
        self.add("Relu")

    def session(self):
        data = helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, self.shape)
        output = helper.make_tensor_value_info(self.end, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [data], [output], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def lenet():
    network = Network((1, 1, 28, 28))
    for filters in (20, 50):
        network.convolve(filters, 5)
        network.add("Relu")
        network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("Flatten")
    network.dense(500, 800)
    network.add("Relu")
    network.dense(10, 500)
    return network


def resnet50(shape):
    stages, first = cases.RESNET50
    network = Network(shape)
    network.convolve(first, 7, 2, 3)
    network.normalize()
    network.add("Relu")
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            network.bottleneck(first << stage, 2 if i == 0 and stage else 1, i == 0)
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.dense(cases.CLASSES, network.channels)
    return network


def recurrent(shape):
    layers, width, _ = cases.LSTM
    network = Network(shape)
    for _ in range(layers):
        network.lstm(width)
    return network


def encoder(shape):
    layers, width, steps, heads = cases.ENCODER
    network = Network(shape)
    for _ in range(layers):
        before = network.end
        network.attend(width, steps, heads)
        network.add("Add", before)
        network.normalize_rows(width)
        before = network.end
        network.dense_rows(4 * width, width)
        network.add("Relu")
        network.dense_rows(width, 4 * width)
        network.add("Add", before)
        network.normalize_rows(width)
    return network


def dense(shape, width, layers):
    network = Network(shape)
    for _ in range(layers):
        network.dense(width, width)
        network.add("Relu")
    network.dense(cases.CLASSES, width)
    return network


def make(name):
    """The case of that name, timed."""
    case = cases.CASES[name]
    shape, of_name = cases.shape_of(case), {"recurrent": recurrent, "encoder": encoder, "resnet50": resnet50}
    network = of_name[case.network](shape) if case.network in of_name else dense(shape, *cases.DENSE[case.width])
    session, data = network.session(), {"data": cases.data_of(case)[0]}
    return case.timed(lambda: session.run(None, data)[0])


def answer_seconds(network):
    session = network.session()
    data = {"data": np.random.default_rng(2).standard_normal(network.shape).astype(np.float32)}
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, data)
            times.append(time.perf_counter() - begin)
        print(1e3 * statistics.median(times), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        answer_seconds({"lenet": lenet, "resnet50": lambda: resnet50((1, 3, 224, 224))}[sys.argv[1]]())
    else:
        cases.answer(make)
