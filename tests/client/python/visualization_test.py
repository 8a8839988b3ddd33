"""Pictures of networks."""

import contextlib
import io
import sys
import types
import unittest
from unittest import mock

import gluond as mx
from tests import case_runner


def network():
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu", name="relu"), name="bn")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    return mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=3, name="fc")


class Digraph:
    """The part of graphviz that plot_network needs."""

    def __init__(self, name, format):
        self.nodes, self.edges = {}, []

    def node(self, name, label, **attributes):
        self.nodes[name] = label

    def edge(self, tail_name, head_name, label, **attributes):
        self.edges.append((tail_name, head_name, label))


class PicturesTest(unittest.TestCase):
    def test_the_summary_has_a_row_for_each_layer(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            mx.viz.print_summary(network(), {"data": (1, 2, 8, 8)})
        rows = [line.split() for line in text.getvalue().splitlines() if not line.startswith(("_", "="))]
        self.assertEqual(
            rows[1:],
            [
                ["data(null)", "2x8x8", "0"],
                ["conv(Convolution)", "4x6x6", "76", "data"],
                ["relu(Activation)", "4x6x6", "0", "conv"],
                ["bn(BatchNorm)", "4x6x6", "8", "relu"],
                ["pool(Pooling)", "4x3x3", "0", "bn"],
                ["flat(Flatten)", "36", "0", "pool"],
                ["fc(FullyConnected)", "3", "111", "flat"],
                ["Total", "params:", "195"],
            ],
        )

    def test_a_plot_has_nodes_and_edges_with_shapes(self):
        with mock.patch.dict(sys.modules, graphviz=types.SimpleNamespace(Digraph=Digraph)):
            dot = mx.viz.plot_network(network(), shape={"data": (1, 2, 8, 8)})
            full = mx.viz.plot_network(network(), hide_weights=False)
        self.assertEqual(dot.nodes["conv"], "Convolution\n3x3/1, 4")
        self.assertEqual(dot.nodes["pool"], "Pooling\nmax, 2x2/2x2")
        self.assertIn(("relu", "conv", "4x6x6"), dot.edges)
        self.assertNotIn("conv_weight", dot.nodes)
        self.assertIn(("conv", "conv_weight", ""), full.edges)

    def test_what_is_missing_is_named(self):
        with mock.patch.dict(sys.modules, graphviz=None), self.assertRaisesRegex(ImportError, "graphviz"):
            mx.viz.plot_network(network())
        with self.assertRaisesRegex(TypeError, "must be Symbol"):
            mx.viz.print_summary(3)

    def test_nodes_of_one_name_are_drawn_as_one_and_named_by_a_warning(self):
        x = mx.sym.Variable("x")
        twice = mx.sym.Group([mx.sym.relu(mx.sym.relu(x, name="a"), name="b"), mx.sym.relu(x, name="a")])
        with mock.patch.dict(sys.modules, graphviz=types.SimpleNamespace(Digraph=Digraph)):
            with self.assertWarnsRegex(RuntimeWarning, "multiple variables with the same name in your graph.*: a$"):
                dot = mx.viz.plot_network(twice, shape={"x": (2, 3)}, dtype={"x": "float16"})
        self.assertEqual(dot.edges, [("a", "x", "3(float16)"), ("b", "a", "3(float16)"), ("a", "x", "3(float16)")])


if __name__ == "__main__":
    case_runner.main()
