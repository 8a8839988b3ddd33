"""Symbols: their composition, their names, and their descriptions of themselves."""

import copy
import pickle
import unittest

import gluond as mx
from gluond.symbol import _server
from tests import case_runner


def mlp():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu", name="relu1"), name="bn1")
    net = mx.sym.FullyConnected(net, num_hidden=4, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


class ComposingTest(unittest.TestCase):
    def test_inputs_left_out_become_variables_in_the_order_in_which_the_graph_reads_them(self):
        net = mlp()
        self.assertEqual(
            net.list_arguments(),
            ["data", "fc1_weight", "fc1_bias", "bn1_gamma", "bn1_beta", "fc2_weight", "fc2_bias", "softmax_label"],
        )
        self.assertEqual(net.list_auxiliary_states(), ["bn1_moving_mean", "bn1_moving_var"])
        self.assertEqual(
            net.list_inputs()[:7], ["data", "fc1_weight", "fc1_bias", "bn1_gamma", "bn1_beta", "bn1_moving_mean", "bn1_moving_var"]
        )
        self.assertEqual(net.list_outputs(), ["softmax_output"])

    def test_a_layer_without_bias_has_none(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, no_bias=True, name="fc")
        self.assertEqual(net.list_arguments(), ["x", "fc_weight"])

    def test_inputs_come_by_position_or_by_keyword(self):
        x, w = mx.sym.Variable("x"), mx.sym.Variable("w")
        for net in (
            mx.sym.FullyConnected(x, w, num_hidden=3, name="fc"),
            mx.sym.FullyConnected(weight=w, data=x, num_hidden=3, name="fc"),
            mx.sym.FullyConnected(x, weight=w, num_hidden=3, name="fc"),
        ):
            self.assertEqual(net.list_arguments(), ["x", "w", "fc_bias"])

    def test_any_number_of_inputs_counts_itself(self):
        a, b, c = (mx.sym.Variable(name) for name in "abc")
        net = mx.sym.Concat(a, b, c, dim=1, name="join")
        self.assertEqual(net.list_arguments(), ["a", "b", "c"])
        self.assertEqual(net.attr("num_args"), "3")
        self.assertEqual(mx.sym.add_n(a, a).list_arguments(), ["a"])

    def test_a_call_puts_symbols_in_the_place_of_variables_and_leaves_the_original(self):
        first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc1")
        second = mx.sym.FullyConnected(mx.sym.Variable("input"), num_hidden=2, name="fc2")
        both = second(input=first, name="joined")
        self.assertEqual(both.list_arguments(), ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"])
        self.assertEqual(both.list_outputs(), ["joined_output"])
        self.assertEqual(second.list_arguments(), ["input", "fc2_weight", "fc2_bias"])
        self.assertEqual(second.list_outputs(), ["fc2_output"])

    def test_the_operator_alone(self):
        net = mlp()._gen_atomic_symbol()
        self.assertEqual(net.list_arguments(), ["softmax_data", "softmax_label"])
        self.assertEqual(len(mx.sym.split(mx.sym.Variable("x"), num_outputs=3)._gen_atomic_symbol()), 3)
        with self.assertRaisesRegex(mx.MXNetError, "of one operator"):
            mx.sym.Variable("x")._gen_atomic_symbol()

    def test_compose_errors_name_the_candidates(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        with self.assertRaisesRegex(mx.MXNetError, r"(?s)argument name dat not found.*\[0\]data.*\[1\]fc_weight"):
            net(dat=mx.sym.Variable("x"))
        with self.assertRaisesRegex(TypeError, "Compose expect `Symbol`"):
            net(data=3)
        with self.assertRaisesRegex(TypeError, "either as positional or keyword"):
            net(mx.sym.Variable("x"), data=mx.sym.Variable("y"))

    def test_a_symbol_of_several_outputs_is_no_single_input(self):
        parts = mx.sym.SliceChannel(mx.sym.Variable("x"), num_outputs=2)
        with self.assertRaisesRegex(mx.MXNetError, "single value is required"):
            mx.sym.relu(parts)

    def test_wrong_arguments_raise_where_they_are_given(self):
        x = mx.sym.Variable("x")
        with self.assertRaisesRegex(mx.MXNetError, "num_hidden"):
            mx.sym.FullyConnected(x)
        with self.assertRaisesRegex(mx.MXNetError, "num_hiden"):
            mx.sym.FullyConnected(x, num_hidden=3, num_hiden=4)
        with self.assertRaises(TypeError):
            mx.sym.FullyConnected(3, num_hidden=3)
        with self.assertRaisesRegex(AttributeError, "FullyConnected"):
            mx.sym.FullyConected

    def test_a_chain_of_ten_thousand_composes_copies_and_lists(self):
        net = x = mx.sym.Variable("x")
        for _ in range(10000):
            net = net + 1
        self.assertEqual(net.list_arguments(), ["x"])
        self.assertEqual(len(net.get_internals()), 10001)
        self.assertEqual(net(x=mx.sym.Variable("y")).list_arguments(), ["y"])
        self.assertEqual(copy.deepcopy(net).name, net.name)
        del net, x


class NamesOfMXNetTest(unittest.TestCase):
    """Names that code and saved graphs rely on are MXNet's."""

    def test_outputs(self):
        x = mx.sym.Variable("x")
        for made, names in (
            (mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", name="n"), ["n_output"]),
            (mx.sym.Pooling(x, kernel=(2, 2), pool_type="avg", name="n"), ["n_output"]),
            (mx.sym.shuffle(x, name="n"), ["n_output"]),
            (mx.sym.make_loss(x, name="n"), ["n_loss"]),
            (mx.sym.moments(x, axes=0, name="n"), ["n_output0", "n_output1"]),
            (mx.sym.SliceChannel(x, num_outputs=1, name="n"), ["n_output0"]),
            (mx.sym.BatchNorm(x, name="n"), ["n_output"]),
        ):
            self.assertEqual(made.list_outputs(), names)
            self.assertEqual(made.get_internals()[names[0]].name, "n")

    def test_inputs_that_are_left_out(self):
        x = mx.sym.Variable("x")
        for op in (mx.sym.Concat, mx.sym.add_n, mx.sym.stack):
            self.assertEqual(op(num_args=2, name="n").list_arguments(), ["n_arg0", "n_arg1"])
            self.assertEqual(op(x, num_args=2, name="n").list_arguments(), ["x", "n_arg1"])
        self.assertEqual(mx.sym.Concat(arg1=x, arg0=mx.sym.Variable("y"), name="n").list_arguments(), ["y", "x"])
        self.assertEqual(mx.sym.reshape_like(rhs=x, name="n").list_arguments(), ["n_lhs", "x"])

    def test_automatic_names_of_numbers_on_the_left(self):
        x = mx.sym.Variable("x")
        with mx.name.NameManager():
            self.assertEqual(
                [mx.sym.pow(x, 2).name, mx.sym.pow(2, x).name, mx.sym.maximum(2, x).name],
                ["_powerscalar0", "_rpowerscalar0", "_maximumscalar0"],
            )

    def test_states_and_steps_of_cells(self):
        with mx.name.NameManager():
            states = mx.gluon.rnn.LSTMCell(4, prefix="l_").begin_state(func=mx.sym.zeros)
        self.assertEqual([state.name for state in states], ["l_begin_state_0", "l_begin_state_1"])
        for kind in (mx.gluon.rnn.RNNCell, mx.gluon.rnn.LSTMCell, mx.gluon.rnn.GRUCell):
            outputs, _ = kind(4, prefix="c_").unroll(2, mx.sym.Variable("x"), merge_outputs=False)
            self.assertEqual([output.list_outputs()[0] for output in outputs], ["c_t0_out_output", "c_t1_out_output"])

    def test_a_size_of_zero_in_what_is_made_of_nothing_is_told_by_its_use(self):
        other = mx.sym.Variable("x", shape=(3, 4))
        for made in (mx.sym.zeros((0, 4)), mx.sym.ones((3, 0)), mx.sym.random.uniform(shape=(0, 4))):
            self.assertEqual((made + other).infer_shape()[1], [(3, 4)])
        self.assertEqual(mx.sym.zeros((0, 4)).attr("shape"), "(0, 4)")

    def test_the_shape_of_an_old_model(self):
        old = mx.sym.Reshape(mx.sym.Variable("x"), target_shape=(0, 4))
        self.assertEqual(old.infer_shape(x=(2, 2, 2))[1], [(2, 4)])
        with self.assertRaisesRegex(mx.MXNetError, "Required parameter shape"):
            mx.sym.Reshape(mx.sym.Variable("x")).infer_shape(x=(2, 2))


class GroupsTest(unittest.TestCase):
    def setUp(self):
        self.parts = mx.sym.SliceChannel(mx.sym.Variable("x"), num_outputs=3, name="cut")

    def test_outputs_are_taken_by_index_name_and_iteration(self):
        self.assertEqual(len(self.parts), 3)
        self.assertEqual(self.parts.list_outputs(), ["cut_output0", "cut_output1", "cut_output2"])
        self.assertEqual(self.parts[1].list_outputs(), ["cut_output1"])
        self.assertEqual(self.parts["cut_output2"].list_outputs(), ["cut_output2"])
        self.assertEqual([part.list_outputs()[0] for part in self.parts], self.parts.list_outputs())
        self.assertEqual(self.parts[0:2].list_outputs(), ["cut_output0", "cut_output1"])

    def test_wrong_indices_say_what_there_is(self):
        with self.assertRaises(IndexError):
            self.parts[3]
        with self.assertRaisesRegex(ValueError, 'Cannot find output that matches name "nothing"'):
            self.parts["nothing"]

    def test_a_group_has_all_outputs_and_no_name(self):
        group = mx.sym.Group([self.parts, mx.sym.Variable("y")])
        self.assertEqual(group.list_outputs(), ["cut_output0", "cut_output1", "cut_output2", "y"])
        self.assertIsNone(group.name)
        self.assertEqual(repr(group), "<Symbol group [cut, cut, cut, y]>")
        for wrong in ([], [3]):
            with self.assertRaisesRegex(TypeError, "Expected a list of symbols"):
                mx.sym.Group(wrong)

    def test_internals_are_every_nodes_outputs(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        self.assertEqual(net.get_internals().list_outputs(), ["data", "fc_weight", "fc_bias", "fc_output"])
        self.assertEqual(net.get_internals()["fc_output"].name, "fc")
        self.assertEqual(net.get_children().list_outputs(), ["data", "fc_weight", "fc_bias"])
        self.assertIsNone(mx.sym.Variable("x").get_children())


class ArithmeticTest(unittest.TestCase):
    def test_each_operator_of_python_is_one_of_the_servers(self):
        a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        made = {
            "elemwise_add": a + b,
            "elemwise_sub": a - b,
            "elemwise_mul": a * b,
            "elemwise_div": a / b,
            "_plus_scalar": 1 + a,
            "_rminus_scalar": 1 - a,
            "_mul_scalar": -a,
            "_rdiv_scalar": 2 / a,
            "_mod_scalar": a % 2,
            "_rmod_scalar": 2 % a,
            "_power_scalar": a**2,
            "_rpower_scalar": 2**a,
            "_equal_scalar": a == 1,
            "_not_equal_scalar": a != 1,
            "_greater_scalar": a > 1,
            "_greater_equal_scalar": a >= 1,
            "_lesser_scalar": a < 1,
            "_lesser_equal_scalar": a <= 1,
            "abs": abs(a),
        }
        for op, symbol in made.items():
            self.assertEqual(symbol._entries[0].node.op, op)

    def test_automatic_names_are_mxnets(self):
        with mx.name.NameManager():
            x = mx.sym.Variable("x")
            self.assertEqual(
                [
                    (x + 1).name,
                    (x + x).name,
                    (x + 2).name,
                    (-x).name,
                    mx.sym.sum(x).name,
                    mx.sym.FullyConnected(x, num_hidden=2).name,
                    mx.sym.maximum(x, 1).name,
                ],
                ["_plusscalar0", "_plus0", "_plusscalar1", "_mulscalar0", "sum0", "fullyconnected0", "_maximumscalar0"],
            )

    def test_what_a_symbol_cannot_do_says_so(self):
        x = mx.sym.Variable("x")
        with self.assertRaisesRegex(mx.base.NotImplementedForSymbol, "only available in NDArray"):
            bool(x)
        with self.assertRaisesRegex(mx.base.NotImplementedForSymbol, "only available in NDArray"):
            x += 1
        with self.assertRaisesRegex(mx.base.NotImplementedForSymbol, "asnumpy"):
            x.asnumpy()
        with self.assertRaisesRegex(TypeError, "not supported"):
            x + "1"

    def test_operators_are_methods_too(self):
        x = mx.sym.Variable("x")
        self.assertEqual(x.sum(axis=1).attr("axis"), "1")
        self.assertEqual(x.reshape((2, -1)).attr("shape"), "(2, -1)")
        self.assertEqual(x.reshape(2, -1).attr("shape"), "(2, -1)")
        self.assertEqual(x.astype("float16").attr("dtype"), "float16")


class AttributesTest(unittest.TestCase):
    def test_a_variable_keeps_what_it_was_made_with(self):
        x = mx.sym.Variable(
            "x",
            lr_mult=2,
            wd_mult=3,
            dtype="float32",
            shape=(2, 3),
            init=mx.init.One(),
            stype="default",
            attr={"__mood__": "good"},
            __bar__="1",
        )
        self.assertEqual(
            x.list_attr(),
            {
                "__lr_mult__": "2",
                "lr_mult": "2",
                "__wd_mult__": "3",
                "wd_mult": "3",
                "__dtype__": "0",
                "__shape__": "(2, 3)",
                "__init__": '["one", {}]',
                "__storage_type__": "0",
                "__mood__": "good",
                "__bar__": "1",
            },
        )
        self.assertEqual(x.attr("lr_mult"), "2")
        self.assertIsNone(x.attr("none"))

    def test_wrong_attributes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "must start and end with double underscores"):
            mx.sym.Variable("x", bar="1")
        with self.assertRaisesRegex(ValueError, "string"):
            mx.sym.Variable("x", attr={"a": 1})
        with self.assertRaisesRegex(TypeError, "Expect a string for variable `name`"):
            mx.sym.Variable(3)

    def test_automatic_variables_get_the_operators_attributes_and_initial_values(self):
        net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc"), name="bn")
        attributes = net.attr_dict()
        self.assertEqual(attributes["fc_weight"], {"num_hidden": "3"})
        self.assertEqual(attributes["bn_moving_mean"]["__init__"], '["zero", {}]')
        self.assertEqual(attributes["bn_moving_var"]["__init__"], '["one", {}]')

    def test_a_scope_gives_attributes_and_the_inner_one_wins(self):
        with mx.AttrScope(ctx_group="outer", __data__="great"):
            with mx.AttrScope(ctx_group="inner"):
                x = mx.sym.Variable("x")
                y = x * 2
        self.assertEqual(x.attr("ctx_group"), "inner")
        self.assertEqual(y.attr("__data__"), "great")
        self.assertIsNone(mx.sym.Variable("z").attr("ctx_group"))
        with self.assertRaisesRegex(ValueError, "string"):
            mx.AttrScope(a=3)

    def test_attributes_can_be_set_afterwards(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc")
        net._set_attr(lr_mult="3", __note__="n")
        self.assertEqual((net.attr("lr_mult"), net.attr("__note__")), ("3", "n"))
        with self.assertRaisesRegex(ValueError, "string"):
            net._set_attr(__note__=1)
        with self.assertRaises(mx.MXNetError):
            net._set_attr(nonsense="1")


class CustomTest(unittest.TestCase):
    """With a stand-in for what mx.operator says of registered operators."""

    def setUp(self):
        self.addCleanup(setattr, _server, "custom", _server.custom)
        _server.custom = self

    def describe(self, attrs, node):
        self.assertEqual(attrs, {"op_type": "scaled", "factor": "(1, 2)"})
        return _server.Call(("data", "weight", "state"), (2,), ("output",), ({}, {}, {}))

    def needs_head_gradient(self, attrs):
        return False

    def on_the_wire(self, attrs, for_all=False):
        return attrs, None

    def in_a_file(self, attrs):
        return attrs

    def test_inputs_come_by_the_names_that_the_prop_lists_and_parameters_as_text(self):
        x = mx.sym.Variable("x")
        for net in (
            mx.sym.Custom(x, op_type="scaled", factor=(1, 2), name="c"),
            mx.sym.Custom(data=x, op_type="scaled", factor=(1, 2), name="c"),
        ):
            self.assertEqual(net.list_arguments(), ["x", "c_weight"])
            self.assertEqual(net.list_auxiliary_states(), ["c_state"])
            self.assertEqual(net.list_outputs(), ["c_output"])
        self.assertEqual(mx.sym.load_json(net.tojson()).list_auxiliary_states(), ["c_state"])
        with self.assertRaisesRegex(mx.MXNetError, r"(?s)label not found.*\[0\]data.*\[1\]weight"):
            mx.sym.Custom(label=x, op_type="scaled", factor=(1, 2))


class NamesTest(unittest.TestCase):
    def test_a_prefix_stands_before_given_and_made_names(self):
        x = mx.sym.Variable("x")
        with mx.name.Prefix("net_"):
            self.assertEqual(mx.sym.FullyConnected(x, num_hidden=3).name, "net_fullyconnected0")
            self.assertEqual(
                mx.sym.FullyConnected(x, num_hidden=3, name="fc").list_arguments(), ["x", "net_fc_weight", "net_fc_bias"]
            )
            self.assertEqual(mx.sym.Variable("v").name, "v")

    def test_copies_are_independent(self):
        net = mlp()
        for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            self.assertEqual(twin.tojson(), net.tojson())
            twin._set_attr(__mark__="1")
            self.assertIsNone(net.attr("__mark__"))

    def test_symbols_are_printed_by_name(self):
        self.assertEqual(repr(mx.sym.Variable("x")), "<Symbol x>")
        self.assertIn("Op:FullyConnected, Name=fc1", mlp().debug_str())

    def test_functions_have_signatures_docstrings_and_are_listed(self):
        self.assertIn("num_hidden", mx.sym.FullyConnected.__doc__)
        self.assertIn("FullyConnected", dir(mx.sym))
        self.assertIs(mx.sym.FullyConnected, mx.sym.FullyConnected)


if __name__ == "__main__":
    case_runner.main()
