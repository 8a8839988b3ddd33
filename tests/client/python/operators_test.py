"""The functions that the server's operators become."""

import inspect
import os
import subprocess
import sys
import unittest

import gluond as mx
import numpy as np
from gluond import _operators, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X = np.array([[1, -2], [3, -4]], np.float32)


class CallTest(ArrayCase):
    def test_tensors_by_position_and_by_name(self):
        x, w = nd.array(X), nd.ones((3, 2))
        expected = X @ np.ones((2, 3))
        self.assert_equal(nd.FullyConnected(x, w, num_hidden=3, no_bias=True), expected)
        self.assert_equal(nd.FullyConnected(weight=w, data=x, num_hidden=3, no_bias=True), expected)
        self.assert_equal(nd.FullyConnected(x, weight=w, bias=None, num_hidden=3, no_bias=True), expected)
        self.assert_equal(nd.FullyConnected(x, w, nd.ones(3), 3), expected + 1)

    def test_attributes_of_every_type(self):
        x = nd.array(X)
        self.assert_equal(nd.sum(x, axis=0), X.sum(0))
        self.assert_equal(nd.sum(x, axis=(0, 1), keepdims=True), [[-2]])
        self.assert_equal(nd.sum(x, axis=np.int64(1)), X.sum(1))
        self.assert_equal(nd.transpose(x, axes=[1, 0]), X.T)
        self.assert_equal(nd.cast(x, dtype=np.int32), X, np.int32)
        self.assert_equal(nd.clip(x, -1, np.float32(2)), X.clip(-1, 2))
        self.assert_equal(nd.Activation(x, "relu"), X.clip(0))

    def test_the_same_call_again_with_other_values(self):
        x = nd.array(X)
        for axis in (0, 1, 0, None, 1):
            self.assert_equal(nd.sum(x, axis=axis), X.sum(axis).reshape(-1))

    def test_any_number_of_tensors(self):
        x = nd.array(X)
        self.assert_equal(nd.concat(x, x, dim=0), np.concatenate([X, X]))
        self.assert_equal(nd.concat(*[x] * 3, dim=1), np.concatenate([X] * 3, 1))
        self.assert_equal(nd.stack(x, x), np.stack([X, X]))
        self.assert_equal(nd.add_n(x, x, x), 3 * X)
        self.assert_equal(nd.concatenate([x, x], axis=1), np.concatenate([X, X], 1))

    def test_several_outputs_are_a_list(self):
        parts = nd.split(nd.array(X), num_outputs=2, axis=1)
        self.assertEqual(len(parts), 2)
        self.assert_equal(parts[1], X[:, 1:])
        self.assertIsInstance(nd.split(nd.array(X), num_outputs=1), nd.NDArray)
        self.assert_equal(nd.split_v2(nd.arange(6), (1, 3))[1], [1, 2])

    def test_out_gets_the_result(self):
        out = nd.zeros((2, 2))
        self.assertIs(nd.relu(nd.array(X), out=out), out)
        self.assert_equal(out, X.clip(0))

    def test_methods_are_the_same_functions(self):
        x = nd.array(X)
        self.assert_equal(x.sum(axis=0), X.sum(0))
        self.assert_equal(x.abs().max(), [4])
        self.assert_equal(x.transpose(), X.T)
        self.assert_equal(x.T, X.T)
        self.assert_equal(x.slice_axis(axis=1, begin=0, end=1), X[:, :1])
        self.assert_equal(x.expand_dims(0).squeeze(), X)
        self.assert_equal(x.flatten(), X)
        self.assert_equal(x.broadcast_to((3, 2, 2)), np.broadcast_to(X, (3, 2, 2)))

    def test_what_counts_by_its_shape_alone_may_have_any_dtype(self):
        for dtype in ("float32", "int32", "float16", "bool"):
            like = nd.zeros((2, 3), dtype=dtype)
            for name, shape, expected in (
                ("reshape_like", (6,), [1, 2, 3, 4, 5, 6]),
                ("broadcast_like", (1, 3), [[5, 7, 9]]),
                ("slice_like", (2, 4), [[1, 2, 3, 0], [4, 5, 6, 0]]),
            ):
                x = nd.ones(shape)
                x.attach_grad()
                with mx.autograd.record():
                    y = getattr(nd, name)(x, like)
                self.assertEqual((y.shape, y.dtype), ((2, 3), np.float32))
                y.backward(nd.array([[1, 2, 3], [4, 5, 6]]))
                self.assert_equal(x.grad, expected)
                symbol = getattr(mx.sym, name)(mx.sym.Variable("x"), mx.sym.Variable("like"))
                self.assertEqual(symbol.infer_type(x="float32", like=dtype)[1], [np.float32])
                self.assert_equal(symbol.eval(x=x, like=like)[0], y.asnumpy())

    def test_an_elementwise_result_has_a_shape_before_it_is_computed(self):
        self.assertEqual(nd.relu(nd.array(X))._shape, (2, 2))
        self.assertEqual((nd.array(X) + nd.ones((1, 2)))._shape, (2, 2))

    def test_gamma_is_the_function_and_in_random_the_distribution(self):
        self.assert_close(nd.gamma(nd.array([1, 4])), [1, 6])
        self.assertEqual(nd.random.gamma(2, 3, shape=(4,)).shape, (4,))

    def test_onehot_and_axes(self):
        out = nd.zeros((2, 3))
        nd.onehot_encode(nd.array([2, 0]), out)
        self.assert_equal(out, [[0, 0, 1], [1, 0, 0]])
        self.assertEqual(nd.moveaxis(nd.zeros((1, 2, 3)), 0, -1).shape, (2, 3, 1))
        with self.assertRaisesRegex(ValueError, "an axis stands there twice"):
            nd.moveaxis(nd.zeros((1, 2, 3)), (0, -3), (0, 1))

    def test_a_histogram_counts(self):
        counts, edges = nd.histogram(nd.array([1, 2, 2, 3]), bins=2, range=(1, 3))
        self.assert_equal(counts, [1, 3])
        self.assert_equal(edges, [1, 2, 3])

    def test_operators_without_parameters_ignore_attributes(self):
        x = nd.array([-1, 2])
        self.assert_equal(nd.relu(x, axis=1), [0, 2])
        self.assert_equal(nd.broadcast_add(x, x, foo="bar"), [-2, 4])
        self.assert_equal(nd.ones_like(x, dtype="int32"), [1, 1], np.float32)
        self.assert_equal(mx.sym.negative(mx.sym.Variable("x"), axis=3).eval(x=x)[0], [1, -2])
        with self.assertRaisesRegex(mx.MXNetError, "Cannot find argument 'foo' of operator softmax"):
            nd.softmax(x, foo=1)
        with self.assertRaisesRegex(mx.MXNetError, "Cannot find argument 'datta'"):
            nd.relu(datta=x)


class ArgumentsTest(unittest.TestCase):
    def test_the_types_of_arguments_are_written_as_mxnet_writes_them(self):
        found = mx.operator.get_operator_arguments("Activation")
        self.assertIsInstance(found, mx.operator.OperatorArguments)
        self.assertEqual((found.narg, found.names), (2, ["data", "act_type"]))
        self.assertEqual(found.types, ["NDArray-or-Symbol", "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, required"])
        found = mx.operator.get_operator_arguments("concat")
        self.assertEqual(dict(zip(found.names, found.types))["dim"], "int, optional, default='1'")


class MistakeTest(unittest.TestCase):
    def test_a_typo_in_a_keyword_names_what_was_meant(self):
        with self.assertRaisesRegex(mx.MXNetError, "'no_bia'.*did you mean 'no_bias'"):
            nd.FullyConnected(nd.ones((1, 2)), nd.ones((1, 2)), num_hidden=1, no_bia=True)

    def test_a_required_parameter_is_named(self):
        with self.assertRaisesRegex(mx.MXNetError, "Required parameter num_hidden"):
            nd.FullyConnected(nd.ones((1, 2)), nd.ones((1, 2)))

    def test_the_values_of_a_choice_are_listed(self):
        with self.assertRaisesRegex(mx.MXNetError, "Invalid Input: 'foo', valid values are: {'relu'"):
            nd.Activation(nd.ones(1), act_type="foo")

    def test_a_value_of_another_type_is_named(self):
        with self.assertRaisesRegex(mx.MXNetError, "keepdims expect boolean but value='1.5'"):
            nd.sum(nd.ones(1), keepdims=1.5)

    def test_a_value_that_no_parser_takes_comes_from_the_server(self):
        with self.assertRaisesRegex(mx.MXNetError, "abc"):
            nd.sum(nd.ones(1), axis="abc").asnumpy()

    def test_numpy_arrays_are_no_tensors(self):
        with self.assertRaisesRegex(TypeError, "mx.nd.array"):
            nd.relu(np.ones(2))

    def test_too_many_arguments(self):
        with self.assertRaisesRegex(TypeError, "at most|must be NDArray"):
            nd.relu(nd.ones(1), nd.ones(1), 3)

    def test_an_unknown_operator_has_close_names(self):
        with self.assertRaisesRegex(AttributeError, "'sigmod'.*sigmoid"):
            nd.sigmod


class DocumentationTest(unittest.TestCase):
    def test_a_function_has_a_signature_and_a_docstring(self):
        self.assertEqual(
            list(inspect.signature(nd.FullyConnected).parameters),
            ["data", "weight", "bias", "num_hidden", "no_bias", "flatten", "out", "name"],
        )
        for text in ("num_hidden : long, required", "Units of the output.", "weight : NDArray", "Returns"):
            self.assertIn(text, nd.FullyConnected.__doc__)

    def test_every_operator_has_a_function(self):
        for name, info in _operators.operators().items():
            function = getattr(nd._internal if name.startswith("_") else nd, name)
            self.assertTrue(callable(function) and function.__doc__, name)
            self.assertTrue(info.name == name or name in info.aliases)

    def test_completion_lists_them(self):
        self.assertLessEqual({"relu", "FullyConnected", "NDArray", "array", "random"}, set(dir(nd)))
        self.assertIn("gemm2", dir(nd.linalg))
        self.assertIn("uniform", dir(nd.random))
        self.assertIn("_plus_scalar", dir(nd._internal))
        self.assertNotIn("_plus_scalar", dir(nd))

    def test_prefixed_operators_are_in_their_modules(self):
        product = nd.linalg.gemm2(nd.ones((1, 2)), nd.ones((2, 1)))
        self.assertEqual(product.asscalar(), 2)
        self.assertEqual(nd._internal._plus_scalar(nd.ones(1), scalar=2).asscalar(), 3)
        self.assertEqual(nd.op.relu(nd.ones(1)).asscalar(), 1)

    def test_importing_starts_nothing(self):
        code = "import gluond, sys; from gluond._wire import connect; sys.exit(connect._current is not None)"
        environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        self.assertEqual(subprocess.run([sys.executable, "-c", code], env=environment).returncode, 0)


if __name__ == "__main__":
    case_runner.main()
