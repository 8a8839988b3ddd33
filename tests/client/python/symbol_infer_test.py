"""Shapes and dtypes of symbols."""

import unittest
import warnings

import numpy as np

import gluond as mx
from tests import case_runner


def mlp():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc1")
    return mx.sym.BatchNorm(net, name="bn")


class ShapesTest(unittest.TestCase):
    def test_all_follow_from_the_inputs(self):
        expected = ([(4, 5), (10, 5), (10,), (10,), (10,)], [(4, 10)], [(10,), (10,)])
        self.assertEqual(mlp().infer_shape(data=(4, 5)), expected)
        self.assertEqual(mlp().infer_shape((4, 5)), expected)
        self.assertEqual(mlp().infer_shape_partial(None, (10, 5))[0][1], (10, 5))

    def test_an_unknown_dimension_is_zero(self):
        net = mlp()
        self.assertEqual(net.infer_shape_partial(data=(0, 5)), ([(0, 5), (10, 5), (10,), (10,), (10,)], [(0, 10)], [(10,), (10,)]))
        with self.assertWarnsRegex(UserWarning, r"(?s)Cannot decide shape.*data: \(0, 5\)"):
            self.assertEqual(net.infer_shape(data=(0, 5)), (None, None, None))

    def test_nothing_known_is_told_as_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(mlp().infer_shape(), (None, None, None))
        x = mx.sym.Variable("x")
        self.assertEqual(x.infer_shape_partial(), ([()], [()], []))

    def test_with_numpy_s_shapes_0_is_a_size(self):
        x = mx.sym.Variable("x")
        for inferred in (mx.sym.transpose(x, axes=(0, 2, 1)), mx.sym.load_json(mx.sym.transpose(x, axes=(0, 2, 1)).tojson())):
            with mx.np_shape():
                self.assertEqual(inferred.infer_shape_partial(x=(-1, 3, 4))[1], [(-1, 4, 3)])
                self.assertEqual(inferred.infer_shape(x=(0, 3, 4)), ([(0, 3, 4)], [(0, 4, 3)], []))
                self.assertEqual(inferred.infer_shape_partial()[:2], ([None], [None]))
                with self.assertWarns(UserWarning):
                    self.assertEqual(inferred.infer_shape(x=(-1, 3, 4)), (None, None, None))
            self.assertEqual(inferred.infer_shape_partial(x=(0, 3, 4))[1], [(0, 4, 3)])
        with mx.np_shape():
            self.assertEqual(mx.sym.sin(x).infer_shape(x=()), ([()], [()], []))
            self.assertIn('"is_np_shape"', x.tojson())
        self.assertNotIn('"is_np_shape"', x.tojson())

    def test_a_file_with_unknown_sizes_has_them_with_numpy_s_shapes(self):
        weight = mx.sym.Variable("w", shape=(10, 0))
        text = mx.sym.FullyConnected(mx.sym.Variable("x"), weight, num_hidden=10).tojson()
        with mx.np_shape():
            self.assertEqual(mx.sym.load_json(text).infer_shape(x=(2, 7))[0][1], (10, 7))

    def test_shapes_flow_backwards_and_are_merged(self):
        a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        self.assertEqual((a + b).infer_shape(a=(2, 3)), ([(2, 3), (2, 3)], [(2, 3)], []))
        self.assertEqual((a + b).infer_shape(a=(2, 0), b=(0, 3)), ([(2, 3), (2, 3)], [(2, 3)], []))

    def test_a_declared_shape_counts_until_another_is_given(self):
        v = mx.sym.Variable("v", shape=(3, 4))
        self.assertEqual((v * 2).infer_shape(), ([(3, 4)], [(3, 4)], []))
        self.assertEqual((v * 2).infer_shape(v=(5, 6)), ([(5, 6)], [(5, 6)], []))
        self.assertEqual(mx.sym.Variable("v", shape=3).infer_shape()[0], [(3,)])
        weight = mx.sym.Variable("w", shape=(10, 0))
        net = mx.sym.FullyConnected(mx.sym.Variable("x"), weight, num_hidden=10)
        self.assertEqual(net.infer_shape(x=(2, 7))[0][1], (10, 7))

    def test_reducing_everything_gives_one_element(self):
        self.assertEqual(mx.sym.sum(mx.sym.Variable("x")).infer_shape(x=(2, 3))[1], [(1,)])

    def test_dot_infers_no_weight(self):
        net = mx.sym.dot(mx.sym.Variable("x"), mx.sym.Variable("w"))
        with self.assertWarns(UserWarning):
            self.assertEqual(net.infer_shape(x=(2, 3)), (None, None, None))

    def test_contradictions_name_the_node(self):
        with self.assertRaisesRegex(mx.MXNetError, "fc1"):
            mlp().infer_shape(data=(4, 5), fc1_weight=(3, 3))
        a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        with mx.name.Prefix("mine_"):
            total = a + b
        with self.assertRaisesRegex(mx.MXNetError, "mine__plus0"):
            total.infer_shape(a=(2, 3), b=(3, 2))

    def test_nodes_are_named_as_the_user_named_them_even_where_the_wire_cannot(self):
        a, b = mx.sym.Variable("a:1"), mx.sym.Variable("b")
        net = mx.sym.elemwise_add(mx.sym.elemwise_add(a, b, name="sum:of two"), b, name="sum:of two")
        self.assertEqual(net.infer_shape(b=(2,))[0], [(2,), (2,)])
        with self.assertRaisesRegex(mx.MXNetError, "sum:of two"):
            net.infer_shape(**{"a:1": (2,), "b": (3,)})

    def test_wrong_arguments_are_refused(self):
        net = mlp()
        with self.assertRaisesRegex(mx.MXNetError, r"(?s)dat not found.*\[0\]data"):
            net.infer_shape(dat=(4, 5))
        with self.assertRaisesRegex(TypeError, "Arguments need to be shapes"):
            net.infer_shape(data=4)
        with self.assertRaisesRegex(ValueError, "either by positional or kwargs"):
            net.infer_shape((4, 5), data=(4, 5))

    def test_a_group_of_variables_has_shapes_too(self):
        x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
        self.assertEqual(mx.sym.Group([x, y * 2]).infer_shape(x=(2,), y=(3,)), ([(2,), (3,)], [(2,), (3,)], []))

    def test_variables_of_one_name_are_one_argument_each(self):
        net = mx.sym.Variable("x") + mx.sym.Variable("x") * 2
        self.assertEqual(net.list_arguments(), ["x", "x"])
        self.assertEqual(net.infer_shape(x=(2,)), ([(2,), (2,)], [(2,)], []))

    def test_a_chain_of_ten_thousand_is_inferred(self):
        net = mx.sym.Variable("x")
        for _ in range(10000):
            net = net + 1
        self.assertEqual(net.infer_shape(x=(2, 3))[1], [(2, 3)])


class DTypesTest(unittest.TestCase):
    def test_all_follow_from_the_inputs(self):
        self.assertEqual(mlp().infer_type(data="float32"), ([np.float32] * 5, [np.float32], [np.float32] * 2))
        self.assertEqual(mlp().infer_type(np.float32)[1], [np.float32])

    def test_half_precision_keeps_the_statistics_single(self):
        arguments, outputs, states = mlp().infer_type(data=np.float16)
        self.assertEqual(outputs, [np.float16])
        self.assertEqual(arguments, [np.float16] * 3 + [np.float32] * 2)
        self.assertEqual(states, [np.float32] * 2)

    def test_declared_types_count(self):
        v = mx.sym.Variable("v", dtype="float64")
        self.assertEqual((v * 2).infer_type(), ([np.float64], [np.float64], []))

    def test_what_is_unknown_is_none(self):
        x = mx.sym.Variable("x")
        self.assertEqual((x * 2).infer_type_partial(), ([None], [None], []))
        with self.assertWarnsRegex(UserWarning, "Cannot decide type"):
            self.assertEqual((x * 2).infer_type(), (None, None, None))

    def test_contradictions_and_nonsense_are_refused(self):
        a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        with self.assertRaises(mx.MXNetError):
            (a + b).infer_type(a=np.float32, b=np.float64)
        with self.assertRaises(TypeError):
            a.infer_type(a="float99")


if __name__ == "__main__":
    case_runner.main()
