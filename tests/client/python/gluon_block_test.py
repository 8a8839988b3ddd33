"""Blocks: names, parts, hooks, printing, and mistakes."""

import contextlib
import io
import types
import unittest

import gluond as mx
import numpy as np
from gluond import gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def row(*blocks, **kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(*blocks)
    return net


def two_layers():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3, prefix="a_"), nn.Dense(3, prefix="b_"))
    return net


class NamesTest(ArrayCase):
    def test_a_block_is_named_by_its_class_and_counted(self):
        with mx.name.NameManager():
            self.assertEqual(
                [nn.Dense(2).name, nn.Dense(2).name, nn.Conv2D(2, 3).name, nn.Activation("relu").name],
                ["dense0", "dense1", "conv0", "relu0"],
            )

    def test_children_are_counted_in_each_scope(self):
        with mx.name.NameManager():
            for number in range(2):
                net = nn.HybridSequential()
                with net.name_scope():
                    net.add(nn.Dense(2), nn.Dense(3))
                self.assertEqual(
                    list(net.collect_params().keys()),
                    [f"hybridsequential{number}_dense{i}_{part}" for i in range(2) for part in ("weight", "bias")],
                )

    def test_a_prefix_may_be_given(self):
        net = nn.Dense(2, prefix="mine_")
        self.assertEqual(net.prefix, "mine_")
        self.assertEqual(net.name, "mine")
        self.assertEqual(net.weight.name, "mine_weight")

    def test_a_name_manager_prefixes_blocks(self):
        with mx.name.Prefix("left_"):
            self.assertTrue(nn.Dense(2).weight.name.startswith("left_dense"))

    def test_any_object_with_a_prefix_makes_a_scope_as_in_mxnet(self):
        with gluon.block._BlockScope(types.SimpleNamespace(prefix="own_", _empty_prefix=False)):
            self.assertEqual(mx.name.NameManager.current.get(None, "hello"), "own_hello0")

    def test_structural_names_are_the_attributes(self):
        class Net(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                with self.name_scope():
                    self.body = row(nn.Dense(3), nn.BatchNorm())
                    self.scale = self.params.get("scale", shape=(1,))

        self.assertEqual(
            list(Net()._collect_params_with_prefix()),
            ["scale", "body.0.weight", "body.0.bias", "body.1.gamma", "body.1.beta", "body.1.running_mean", "body.1.running_var"],
        )

    def test_parameters_are_chosen_by_a_pattern(self):
        net = two_layers()
        self.assertEqual(list(net.collect_params(".*weight").keys()), ["net_a_weight", "net_b_weight"])
        self.assertEqual(list(net.collect_params("net_a_bias|net_b_weight").keys()), ["net_a_bias", "net_b_weight"])
        self.assertEqual(list(net.collect_params("weight").keys()), [])

    def test_blocks_share_parameters(self):
        first = nn.Dense(3, in_units=2, prefix="shared_")
        second = nn.Dense(3, in_units=2, params=first.params)
        first.initialize()
        self.assertIs(first.weight, second.weight)
        x = nd.ones((1, 2))
        self.assert_equal(first(x), second(x).asnumpy())


class PrintTest(ArrayCase):
    def test_a_network_reads_as_in_mxnet(self):
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(4, activation="relu"), nn.Dropout(0.5), nn.Conv2D(3, 5, in_channels=2))
        self.assertEqual(
            repr(net),
            "HybridSequential(\n"
            "  (0): Dense(None -> 4, Activation(relu))\n"
            "  (1): Dropout(p = 0.5, axes=())\n"
            "  (2): Conv2D(2 -> 3, kernel_size=(5, 5), stride=(1, 1))\n"
            ")",
        )
        self.assertEqual(
            repr(net[0].params),
            "net_dense0_ (\n"
            "  Parameter net_dense0_weight (shape=(4, 0), dtype=float32)\n"
            "  Parameter net_dense0_bias (shape=(4,), dtype=float32)\n"
            ")",
        )

    def test_layers_print_what_they_are_made_with(self):
        for layer, text in (
            (nn.Dense(3, in_units=2), "Dense(2 -> 3, linear)"),
            (
                nn.BatchNorm(),
                "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, " "in_channels=None)",
            ),
            (nn.LayerNorm(), "LayerNorm(eps=1e-05, axis=-1, center=True, scale=True, in_channels=0)"),
            (nn.Embedding(3, 4), "Embedding(3 -> 4, float32)"),
            (
                nn.Conv2D(4, 3, 2, 1, 2, 2, use_bias=False),
                "Conv2D(None -> 4, kernel_size=(3, 3), stride=(2, 2), " "padding=(1, 1), dilation=(2, 2), groups=2, bias=False)",
            ),
            (nn.Conv2DTranspose(4, 3, in_channels=2), "Conv2DTranspose(2 -> 4, kernel_size=(3, 3), stride=(1, 1))"),
            (
                nn.MaxPool2D(),
                "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, "
                "global_pool=False, pool_type=max, layout=NCHW)",
            ),
            (nn.HybridLambda("relu"), "HybridLambda(relu)"),
            (gluon.rnn.LSTM(3, 2, bidirectional=True), "LSTM(None -> 3, TNC, num_layers=2, bidirectional)"),
            (gluon.loss.L2Loss(), "L2Loss(batch_axis=0, w=1.0)"),
        ):
            self.assertEqual(repr(layer), text)

    def test_the_summary_counts_parameters(self):
        net = row(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
        net.initialize()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            net.summary(nd.ones((2, 3)))
        lines = [line.split() for line in out.getvalue().splitlines()]
        self.assertIn(["Dense-2", "(2,", "4)", "16"], lines)
        self.assertIn(["BatchNorm-3", "(2,", "4)", "16"], lines)
        self.assertIn("Trainable params: 34", out.getvalue())
        self.assertIn("Non-trainable params: 8", out.getvalue())
        net.hybridize()
        with self.assertRaisesRegex(AssertionError, "must not be hybridized to print summary"):
            net.summary(nd.ones((2, 3)))


class PartsTest(ArrayCase):
    def test_rows_have_a_length_and_parts(self):
        net = row(nn.Dense(2), nn.Dense(3), nn.Dense(4))
        self.assertEqual(len(net), 3)
        self.assertEqual(net[-1]._units, 4)
        self.assertEqual([block._units for block in net[1:]], [3, 4])
        self.assertIs(net[1:][0], net[1])
        self.assertEqual([block._units for block in net], [2, 3, 4])

    def test_a_block_runs_its_forward(self):
        class Twice(gluon.Block):
            def forward(self, x):
                return x * 2

        net = nn.Sequential()
        net.add(Twice(), nn.Lambda("relu"), nn.Lambda(lambda x: x + 1))
        self.assert_equal(net(nd.array([-1, 2])), [1, 5])

    def test_outputs_go_on_as_inputs(self):
        class Both(gluon.HybridBlock):
            def hybrid_forward(self, F, x, y):
                return x + y, x - y

        for hybrid in (False, True):
            net = row(Both(), Both())
            if hybrid:
                net.hybridize()
            total, difference = net(nd.array([3]), nd.array([1]))
            self.assert_equal(total, [6])
            self.assert_equal(difference, [2])

    def test_apply_visits_children_first(self):
        seen = []
        net = two_layers()
        net.apply(lambda block: seen.append(block.name))
        self.assertEqual(seen, ["net_a", "net_b", "net"])

    def test_hooks_see_inputs_and_outputs_until_they_are_detached(self):
        net = nn.Dense(2, in_units=3)
        net.initialize()
        seen = []
        before = net.register_forward_pre_hook(lambda block, x: seen.append(("before", x[0].shape)))
        with net.register_forward_hook(lambda block, x, y: seen.append(("after", y.shape))):
            net(nd.ones((4, 3)))
        before.detach()
        before.detach()
        net(nd.ones((4, 3)))
        self.assertEqual(seen, [("before", (4, 3)), ("after", (4, 2))])

    def test_cast_changes_all_but_the_norms_parameters(self):
        net = row(nn.Dense(2, in_units=2), nn.BatchNorm(in_channels=2))
        net.initialize()
        net.cast("float16")
        self.assertEqual(np.dtype(net[0].weight.data().dtype), np.float16)
        self.assertEqual(np.dtype(net[1].gamma.data().dtype), np.float32)

    def test_contrib_layers_join_branches(self):
        for hybrid in (False, True):
            net = gluon.contrib.nn.HybridConcurrent(axis=1)
            net.add(gluon.contrib.nn.Identity(), nn.HybridLambda(lambda F, x: x * 2))
            if hybrid:
                net.hybridize()
            self.assert_equal(net(nd.array([[1, 2]])), [[1, 2, 2, 4]])

    def test_pixels_are_shuffled(self):
        x = np.arange(24.0).reshape(1, 12, 2, 1)
        expected = x.reshape(1, 2, 2, 3, 2, 1).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 3)
        self.assert_equal(gluon.contrib.nn.PixelShuffle2D((2, 3))(nd.array(x)), expected)


class MistakesTest(ArrayCase):
    def test_an_attribute_keeps_its_type(self):
        net = nn.HybridSequential()
        net.part = nn.Dense(2)
        with self.assertRaisesRegex(TypeError, "Changing attribute type for part from .*Dense.* to .*int.* is not allowed"):
            net.part = 3
        net.weight = net.params.get("weight", shape=(1,))
        with self.assertRaisesRegex(AssertionError, "Overriding Parameter attribute weight is not allowed"):
            net.weight = net.params.get("other", shape=(1,))

    def test_only_hybrid_blocks_go_into_hybrid_blocks(self):
        with self.assertRaisesRegex(ValueError, "Children of HybridBlock must also be HybridBlock"):
            nn.HybridSequential().add(nn.Sequential())

    def test_a_list_of_blocks_is_warned_about(self):
        net = nn.Sequential()
        net.parts = [nn.Dense(2)]
        with self.assertWarnsRegex(UserWarning, '"Sequential.parts" is an unregistered container with Blocks'):
            net.collect_params()

    def test_a_misspelt_flag_is_told(self):
        with self.assertRaisesRegex(TypeError, "'static_aloc'. Did you mean 'static_alloc'"):
            nn.Dense(2).hybridize(static_aloc=True)
        with self.assertRaisesRegex(mx.base.MXNetError, "static_alloc must be True when static_shape is True"):
            nn.Dense(2).hybridize(static_shape=True)

    def test_input_that_is_no_array(self):
        net = nn.Dense(2, in_units=2)
        net.initialize()
        with self.assertRaisesRegex(ValueError, "there must be one NDArray or one Symbol in the input"):
            net(np.ones((1, 2)))

    def test_no_forward(self):
        with self.assertRaisesRegex(NotImplementedError, "Block has no forward"):
            gluon.Block()(nd.ones(1))
        with self.assertRaisesRegex(NotImplementedError, "HybridBlock has no hybrid_forward"):
            gluon.HybridBlock()(nd.ones(1))

    def test_a_sequential_of_hybrid_blocks_says_that_it_could_be_one_graph(self):
        net = nn.Sequential()
        net.add(nn.Dense(2))
        with self.assertWarnsRegex(UserWarning, "Consider using HybridSequential"):
            net.hybridize()


if __name__ == "__main__":
    case_runner.main()
