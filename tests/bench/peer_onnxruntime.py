"""LeNet and ResNet-50 by onnxruntime in this process: for each line, a number of seconds, the median of a sample's milliseconds.

usage: PYTHON peer_onnxruntime.py {lenet,resnet50}

The networks are those of networks.h, with random weights, and two threads.
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


class Network:
    """A graph that grows at its end."""

    def __init__(self, shape):
        self.shape, self.end, self.channels = shape, "data", shape[0]
        self.nodes, self.values, self.random = [], [], np.random.default_rng(1)

    def value(self, array):
        name = f"value{len(self.values)}"
        self.values.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape):
        return self.value((self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    def add(self, op, *inputs, start=None, **attributes):
        name = f"node{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [start or self.end, *inputs], [name], **attributes))
        self.end = name
        return name

    def convolve(self, filters, kernel, stride=1, pad=0, start=None, channels=None):
        weight = self.weight(filters, channels or self.channels, kernel, kernel)
        self.add("Conv", weight, start=start, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        self.channels = filters

    def normalize(self):
        ones, zeros = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)
        self.add("BatchNormalization", *map(self.value, (ones, zeros, zeros, ones)))

    def dense(self, units, inputs):
        self.add("Gemm", self.weight(units, inputs), self.value(np.zeros(units, np.float32)), transB=1)

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
        data = helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, [1, *self.shape])
        output = helper.make_tensor_value_info(self.end, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [data], [output], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def lenet():
    network = Network((1, 28, 28))
    for filters in (20, 50):
        network.convolve(filters, 5)
        network.add("Relu")
        network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("Flatten")
    network.dense(500, 800)
    network.add("Relu")
    network.dense(10, 500)
    return network


def resnet50():
    network = Network((3, 224, 224))
    network.convolve(64, 7, 2, 3)
    network.normalize()
    network.add("Relu")
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            network.bottleneck(64 << stage, 2 if i == 0 and stage else 1, i == 0)
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.dense(1000, 2048)
    return network


def main():
    network = {"lenet": lenet, "resnet50": resnet50}[sys.argv[1]]()
    session = network.session()
    data = {"data": np.random.default_rng(2).standard_normal((1, *network.shape)).astype(np.float32)}
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, data)
            times.append(time.perf_counter() - begin)
        print(1e3 * statistics.median(times), flush=True)


if __name__ == "__main__":
    main()
