"""Symbols as MXNet's JSON, written and read."""

import json
import os
import tempfile
import unittest

import gluond as mx
from tests import case_runner

# As MXNet 1.9.1 writes it: sym.BatchNorm(sym.FullyConnected(data, num_hidden=10, name="fc1"), name="bn").
NEW = """{
  "nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "fc1_weight", "attrs": {"num_hidden": "10"}, "inputs": []},
    {"op": "null", "name": "fc1_bias", "attrs": {"num_hidden": "10"}, "inputs": []},
    {"op": "FullyConnected", "name": "fc1", "attrs": {"num_hidden": "10"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
    {"op": "null", "name": "bn_gamma", "inputs": []},
    {"op": "null", "name": "bn_beta", "inputs": []},
    {"op": "null", "name": "bn_moving_mean", "attrs": {"__init__": "[\\"zero\\", {}]"}, "inputs": []},
    {"op": "null", "name": "bn_moving_var", "attrs": {"__init__": "[\\"one\\", {}]"}, "inputs": []},
    {"op": "BatchNorm", "name": "bn", "inputs": [[3, 0, 0], [4, 0, 0], [5, 0, 0], [6, 0, 1], [7, 0, 1]]}
  ],
  "arg_nodes": [0, 1, 2, 4, 5, 6, 7],
  "node_row_ptr": [0, 1, 2, 3, 4, 5, 6, 7, 8, 11],
  "heads": [[8, 0, 0]],
  "attrs": {"mxnet_version": ["int", 10901]}
}"""

# As MXNet 0.8 wrote it: `param` beside `attr`, inputs of two numbers, no auxiliary states, short hidden keys.
OLD = """{
  "nodes": [
    {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "fc_weight", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "fc_bias", "inputs": [], "backward_source_id": -1},
    {"op": "FullyConnected", "param": {"no_bias": "False", "num_hidden": "5"}, "name": "fc",
     "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1, "attr": {"ctx_group": "a", "weight_lr_mult": "1.2"}},
    {"op": "null", "param": {}, "name": "bn_gamma", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "bn_beta", "inputs": [], "backward_source_id": -1},
    {"op": "BatchNorm", "param": {"eps": "0.001"}, "name": "bn", "inputs": [[3, 0], [4, 0], [5, 0]],
     "backward_source_id": -1}
  ],
  "arg_nodes": [0, 1, 2, 4, 5],
  "heads": [[6, 0]]
}"""


class ReadingTest(unittest.TestCase):
    def test_a_file_of_mxnet_is_read_and_written_as_it_was(self):
        net = mx.sym.load_json(NEW)
        self.assertEqual(net.list_arguments(), ["data", "fc1_weight", "fc1_bias", "bn_gamma", "bn_beta"])
        self.assertEqual(net.list_auxiliary_states(), ["bn_moving_mean", "bn_moving_var"])
        ours, theirs = json.loads(net.tojson()), json.loads(NEW)
        for field in ("nodes", "arg_nodes", "heads", "attrs"):
            self.assertEqual(ours[field], theirs[field])

    def test_what_is_composed_here_is_what_mxnet_would_write(self):
        net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc1"), name="bn")
        ours, theirs = json.loads(net.tojson())["nodes"], json.loads(NEW)["nodes"]
        for node in ours:
            if node["name"] in ("bn_gamma", "bn_beta"):  # The server tells their initial values, too.
                del node["attrs"]
        self.assertEqual(ours, theirs)

    def test_old_files_are_understood(self):
        net = mx.sym.load_json(OLD)
        self.assertEqual(net.list_arguments(), ["data", "fc_weight", "fc_bias", "bn_gamma", "bn_beta"])
        self.assertEqual(net.list_auxiliary_states(), ["bn_moving_mean", "bn_moving_var"])
        self.assertEqual(net.attr_dict()["fc_weight"]["__lr_mult__"], "1.2")
        self.assertEqual(net.attr_dict()["fc"]["ctx_group"], "a")
        self.assertEqual(net.infer_shape(data=(2, 3))[1], [(2, 5)])

    def test_broken_files_say_where(self):
        cases = {
            "": "no symbol file",
            "{}": 'missing field "nodes"',
            '{"nodes": [{"name": "x"}], "arg_nodes": [], "heads": []}': 'node 0 has no "op"',
            '{"nodes": [{"op": "relu", "name": "y", "inputs": [[5, 0, 0]]}], "arg_nodes": [], "heads": []}': "y reads",
            '{"nodes": [{"op": "null", "name": "x"}], "arg_nodes": [0], "heads": [[1, 0, 0]]}': "heads reads",
            '{"nodes": [{"op": "nope", "name": "x"}, {"op": "nor", "name": "y"}], "arg_nodes": [], "heads": [[0, 0]]}': "nope, nor",
        }
        for text, words in cases.items():
            with self.assertRaisesRegex(mx.MXNetError, words):
                mx.sym.load_json(text)
        with self.assertRaises(TypeError):
            mx.sym.load_json(3)


class SavingTest(unittest.TestCase):
    def test_save_and_load_give_the_same_graph(self):
        x = mx.sym.Variable("x", shape=(2, 0), lr_mult=0.5)
        parts = mx.sym.SliceChannel(x, num_outputs=2, name="cut")
        net = mx.sym.Group([parts[1] * 2, mx.sym.concat(parts[0], parts[1], dim=0, name="join")])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net-symbol.json")
            net.save(path)
            again = mx.sym.load(path)
            self.assertEqual(again.tojson(), net.tojson())
            self.assertEqual(again.list_outputs(), net.list_outputs())
            with self.assertRaisesRegex(mx.MXNetError, "No such file"):
                mx.sym.load(os.path.join(folder, "nothing"))
        with self.assertRaisesRegex(TypeError, "fname need to be string"):
            net.save(3)

    def test_each_writer_of_a_state_counts_its_version(self):
        mean = mx.sym.Variable("mean")
        first = mx.sym.BatchNorm(mx.sym.Variable("x"), moving_mean=mean, name="b1")
        second = mx.sym.BatchNorm(first, moving_mean=mean, name="b2")
        nodes = json.loads(second.tojson())["nodes"]
        self.assertEqual([node["inputs"][3][2] for node in nodes if node["op"] == "BatchNorm"], [1, 2])

    def test_a_chain_of_ten_thousand_is_written_and_read(self):
        net = mx.sym.Variable("x")
        for _ in range(10000):
            net = net + 1
        again = mx.sym.load_json(net.tojson())
        self.assertEqual(len(again.get_internals()), 10001)


if __name__ == "__main__":
    case_runner.main()
