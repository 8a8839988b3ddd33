"""Files: parameters by structural and by prefixed names, exported networks, optimizer states."""

import json
import os
import tempfile

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def network(units=(4, 2), **kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Dense(units[0], activation="relu"), nn.BatchNorm(), nn.Dense(units[1]))
    return net


class FilesCase(ArrayCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.x = nd.array(np.random.RandomState(0).randn(3, 5))
        self.path = os.path.join(folder.name, "net")

    def saved(self):
        net = network()
        net.initialize(mx.init.Normal(1))
        net.hybridize()
        net(self.x)
        return net


class ParametersTest(FilesCase):
    def test_names_are_structural(self):
        net = self.saved()
        net.save_parameters(self.path)
        self.assertEqual(
            sorted(nd.load(self.path)),
            sorted(["0.weight", "0.bias", "1.gamma", "1.beta", "1.running_mean", "1.running_var", "2.weight", "2.bias"]),
        )
        other = network()
        other.load_parameters(self.path)
        self.assert_close(other(self.x), net(self.x).asnumpy())
        other.load_parameters(self.path, ctx=mx.cpu())

    def test_prefixed_names_are_read_too(self):
        net = self.saved()
        net.collect_params().save(self.path, strip_prefix=net.prefix)
        other = network()
        other.load_parameters(self.path)
        self.assert_close(other(self.x), net(self.x).asnumpy())
        net.collect_params().save(self.path)
        net.load_parameters(self.path)

    def test_a_block_without_parameters_is_saved_and_read(self):
        class Product(gluon.HybridBlock):
            def hybrid_forward(self, F, x, y):
                return x * y + 1

        net = Product()
        net.hybridize()
        x, y = nd.array([1, 2]), nd.array([3, 4])
        net(x, y)
        symbol_file, params_file = net.export(self.path)
        read = gluon.SymbolBlock.imports(symbol_file, ["data0", "data1"], params_file)
        self.assert_equal(read(x, y), [4, 9])
        self.assertEqual(mx.model.load_checkpoint(self.path, 0)[1:], ({}, {}))
        net.save_parameters(self.path)
        net.load_parameters(self.path)
        net.collect_params().load(self.path)
        with self.assertRaisesRegex(AssertionError, "is missing in file"):
            self.saved().load_parameters(self.path)
        nd.save(self.path, [x])
        with self.assertRaisesRegex(ValueError, "arrays without names"):
            net.load_parameters(self.path)

    def test_an_exported_file_is_read_too(self):
        net = self.saved()
        _, path = net.export(self.path, 3)
        self.assertTrue(path.endswith("net-0003.params"))
        before = net(self.x).asnumpy()
        net.initialize(force_reinit=True)
        net.load_parameters(path)
        self.assert_close(net(self.x), before)

    def test_shared_parameters_are_written_once_on_demand(self):
        net = nn.HybridSequential()
        net.add(nn.Dense(3, in_units=3))
        net.add(nn.Dense(3, in_units=3, params=net[0].params))
        net.initialize()
        net.save_parameters(self.path)
        self.assertEqual(len(nd.load(self.path)), 4)
        net.save_parameters(self.path, deduplicate=True)
        self.assertEqual(sorted(nd.load(self.path)), ["0.bias", "0.weight"])
        net.load_parameters(self.path)

    def test_what_does_not_fit_is_named(self):
        self.saved().save_parameters(self.path)
        with self.assertRaisesRegex(
            AssertionError,
            r"Failed loading Parameter '\w*dense0_weight' from saved params: shape "
            r"incompatible expected \(7, 0\) vs saved \(4, 5\)",
        ):
            network((7, 2)).load_parameters(self.path)
        more = network()
        more.add(nn.Dense(3))
        with self.assertRaisesRegex(AssertionError, "Parameter '3.weight' is missing in file .*allow_missing=True"):
            more.load_parameters(self.path)
        more.load_parameters(self.path, allow_missing=True)
        fewer = nn.HybridSequential()
        fewer.add(nn.Dense(4))
        with self.assertRaisesRegex(AssertionError, "Parameter '1.gamma' loaded from file .*ignore_extra=True"):
            fewer.load_parameters(self.path)
        fewer.load_parameters(self.path, ignore_extra=True)
        with self.assertRaisesRegex(AssertionError, "dtype incompatible .*cast_dtype=True"):
            half = network()
            half.cast("float64")
            half.load_parameters(self.path)
        half.load_parameters(self.path, cast_dtype=True)
        self.assertEqual(half[0].weight.data().dtype, np.float64)
        half.load_parameters(self.path, cast_dtype=True, dtype_source="saved")
        self.assertEqual(half[0].weight.data().dtype, np.float32)

    def test_recurrent_layers_have_the_names_of_cells(self):
        net = gluon.rnn.LSTM(2, bidirectional=True, input_size=3)
        net.initialize()
        net.save_parameters(self.path)
        self.assertIn("_unfused.0.r_cell.h2h_weight", nd.load(self.path))
        other = gluon.rnn.LSTM(2, bidirectional=True)
        other.load_parameters(self.path)
        x = nd.ones((4, 1, 3))
        self.assert_close(other(x), net(x).asnumpy())

    def test_a_tree_is_saved_and_checked(self):
        net = self.saved()
        net.save(self.path)
        other = network()
        other.load(self.path)
        self.assert_close(other(self.x), net(self.x).asnumpy())
        with self.assertRaisesRegex(ValueError, "The saved model has at .* hybridsequential0, this one sequential0"):
            nn.Sequential().load(self.path)
        with self.assertRaisesRegex(ValueError, "has 3 parts at .*, this one 0"):
            nn.HybridSequential().load(self.path)

    def test_a_tree_is_mxnets_and_gives_children_the_names_that_they_had(self):
        class Named(nn.Block):
            def add(self, block):
                self.register_child(block, f"{block.name}_{len(self._children)}")

            def forward(self, x):
                for child in self._children.values():
                    x = child(x)
                return x

        def make():
            net, inside = Named(), Named()
            inside.add(nn.Dense(3))
            net.add(inside)
            net.add(nn.Dense(4))
            return net

        net, other = make(), make()
        net.initialize()
        net.hybridize()
        y = net(self.x)
        net.save(self.path)
        with open(self.path + "-model.json", encoding="utf-8") as file:
            tree = json.load(file)["named0"]
        inner, dense = tree["named1"], tree["dense3"]
        self.assertEqual(list(tree), ["orig_name", "children", "named1", "dense3"])
        names = [part["orig_name"] for part in (inner, dense)]
        self.assertEqual(tree["children"], {names[0]: names[0] + "_0", names[1]: names[1] + "_1"})
        self.assertEqual([inner["dense2"][key] for key in ("in_format", "out_format", "hybridized")], [[0], 0, True])
        self.assertEqual(mx.sym.load_json(dense["symbol"]).list_arguments(), ["data", *net.collect_params(dense["orig_name"])])
        self.assertNotEqual(list(other._children), list(net._children))
        other.load(self.path)
        self.assertEqual(list(other._children), list(net._children))
        self.assertEqual(other._children[dense["orig_name"] + "_1"].name, dense["orig_name"])
        self.assert_close(other(self.x), y.asnumpy())


class ExportTest(FilesCase):
    def test_an_exported_network_is_imported(self):
        net = self.saved()
        symbol_file, params_file = net.export(self.path)
        self.assertEqual({name[:4] for name in nd.load(params_file)}, {"arg:", "aux:"})
        with open(symbol_file, encoding="utf-8") as file:
            self.assertIn("FullyConnected", [node["op"] for node in json.load(file)["nodes"]])
        block = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
        self.assert_close(block(self.x), net(self.x).asnumpy())
        again = gluon.nn.HybridSequential()
        again.add(block, nn.Dense(1))
        again[1].initialize()
        again.hybridize()
        self.assertEqual(again(self.x).shape, (3, 1))

    def test_an_exported_network_is_a_checkpoint(self):
        net = self.saved()
        net.export(self.path, epoch=3)
        symbol, arguments, auxiliary = mx.model.load_checkpoint(self.path, 3)
        self.assertEqual(set(arguments) | {"data"}, set(symbol.list_arguments()))
        self.assertEqual(set(auxiliary), set(symbol.list_auxiliary_states()))
        mx.model.save_checkpoint(f"{self.path}_other", 12, symbol, arguments, auxiliary)
        again = gluon.SymbolBlock.imports(f"{self.path}_other-symbol.json", ["data"], f"{self.path}_other-0012.params")
        self.assert_close(again(self.x), net(self.x).asnumpy())
        mx.model.save_checkpoint(f"{self.path}_alone", 0, None, arguments, {})
        self.assertFalse(os.path.exists(f"{self.path}_alone-symbol.json"))
        self.assertEqual(mx.model.load_params(f"{self.path}_alone", 0)[1], {})
        with self.assertRaisesRegex(AttributeError, "FeedForward.*gluon.Trainer"):
            mx.model.FeedForward

    def test_export_wants_a_graph(self):
        net = network()
        net.initialize()
        with self.assertRaisesRegex(RuntimeError, "Please first call block.hybridize"):
            net.export(self.path)

    def test_an_imported_network_is_trained_on(self):
        net = self.saved()
        block = gluon.SymbolBlock.imports(*net.export(self.path)[:1], "data", net.export(self.path)[1])
        trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        before = {name: p.data().asnumpy() for name, p in block.collect_params().items()}
        with autograd.record():
            (block(self.x) ** 2).sum().backward()  # For a plain sum, gamma's gradient is 0.
        trainer.step(1)
        for name, p in block.collect_params().items():
            changed = bool(np.any(p.data().asnumpy() != before[name]))
            self.assertEqual(changed, "dense0" not in name or changed, name)

    def test_a_part_of_a_network(self):
        net = self.saved()
        inner = net(mx.sym.var("data")).get_internals()[f"{net.prefix}dense0_fwd_output"]
        part = gluon.SymbolBlock(inner, mx.sym.var("data"), params=net.collect_params())
        self.assertEqual(repr(part), f"SymbolBlock(\n<Symbol {net.prefix}dense0_fwd> : 1 -> 1\n)")
        weight, bias = net[0].weight.data().asnumpy(), net[0].bias.data().asnumpy()
        self.assert_close(part(self.x), self.x.asnumpy() @ weight.T + bias)


if __name__ == "__main__":
    case_runner.main()
