"""Initializers: their values, how names choose among them, and their JSON."""

import os
import tempfile
import json
import unittest

import gluond as mx
import numpy as np
from gluond import init, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def drawn(initializer, shape, name="x_weight", dtype="float32"):
    array = nd.zeros(shape, dtype=dtype)
    initializer(init.InitDesc(name), array)
    return array.asnumpy()


class ValuesTest(ArrayCase):
    def test_random_ones_have_their_range_and_spread(self):
        mx.random.seed(1)
        big = (300, 200)
        for initializer, low, high, spread in (
            (init.Uniform(0.5), -0.5, 0.5, 0.5 / np.sqrt(3)),
            (init.Normal(2.0), -12, 12, 2.0),
            (init.Xavier(), -np.sqrt(3 / 250), np.sqrt(3 / 250), np.sqrt(1 / 250)),
            (init.Xavier("gaussian", "in", 2), -1, 1, np.sqrt(2 / 200)),
            (init.Xavier(factor_type="out", magnitude=6), -1, 1, np.sqrt(2 / 300)),
            (init.MSRAPrelu(slope=0.5), -1, 1, np.sqrt(2 / 1.25 / 250)),
        ):
            with self.subTest(initializer.dumps()):
                x = drawn(initializer, big)
                self.assertAlmostEqual(x.std() / spread, 1, delta=0.02)
                self.assertAlmostEqual(x.mean(), 0, delta=0.05 * spread)
                self.assertTrue(low <= x.min() and x.max() <= high)

    def test_fans_of_a_convolution(self):
        x = drawn(init.Xavier(), (40, 30, 5, 4))
        self.assertAlmostEqual(np.abs(x).max() / np.sqrt(3 / (35 * 20)), 1, delta=0.01)

    def test_the_seed_decides(self):
        values = []
        for seed in (5, 5, 6):
            mx.random.seed(seed)
            values.append(drawn(init.Xavier(), (3, 4)))
        np.testing.assert_array_equal(values[0], values[1])
        self.assertFalse((values[0] == values[2]).any())

    def test_half_precision(self):
        self.assertEqual(drawn(init.Uniform(), (3, 4), dtype="float16").dtype, np.float16)

    def test_rows_or_columns_are_orthonormal(self):
        for shape in ((3, 8), (8, 3)):
            x = drawn(init.Orthogonal(2.0), shape)
            product = x @ x.T if shape[0] < shape[1] else x.T @ x
            np.testing.assert_allclose(product, 4 * np.eye(3), atol=1e-5)

    def test_constants(self):
        np.testing.assert_array_equal(drawn(init.Zero(), 3), np.zeros(3))
        np.testing.assert_array_equal(drawn(init.One(), 3), np.ones(3))
        for value in ([1, 2], np.array([1, 2]), nd.array([1, 2])):
            np.testing.assert_array_equal(drawn(init.Constant(value), 2), [1, 2])
        np.testing.assert_array_equal(drawn(init.LSTMBias(2.0), 8), [0, 0, 2, 2, 0, 0, 0, 0])

    def test_bilinear_interpolates(self):
        row = np.array([0.25, 0.75, 0.75, 0.25])
        np.testing.assert_allclose(drawn(init.Bilinear(), (1, 1, 4, 4))[0, 0], np.outer(row, row))

    def test_the_recurrent_operator_s_array(self):
        x = drawn(init.FusedRNN(init.Constant(0.5), 2, 1, "lstm", forget_bias=3.0), (4 * 2 * (3 + 2 + 2),))
        np.testing.assert_array_equal(x[:40], np.full(40, 0.5))
        np.testing.assert_array_equal(x[40:], [0, 0, 3, 3, 0, 0, 0, 0] * 2)


class NamesTest(ArrayCase):
    def test_names_choose(self):
        for name, value in (("a_bias", 0), ("a_gamma", 1), ("a_beta", 0), ("a_moving_mean", 0), ("a_running_var", 1)):
            np.testing.assert_array_equal(drawn(init.Uniform(), 2, name), [value] * 2)
        with self.assertRaisesRegex(ValueError, "Unknown initialization pattern for other"):
            drawn(init.Uniform(), 2, "other")

    def test_patterns_choose(self):
        mixed = init.Mixed(["bias", ".*"], [init.Zero(), init.Constant(3)])
        np.testing.assert_array_equal(drawn(mixed, 2, "b_weight"), [3, 3])
        np.testing.assert_array_equal(drawn(mixed, 2, "bias_weight"), [0, 0])
        with self.assertRaisesRegex(ValueError, "did not match any pattern"):
            drawn(init.Mixed(["a"], ["zeros"]), 2, "b")

    def test_values_are_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w.params")
            nd.save(path, {"arg:w": nd.array([1, 2])})
            load = init.Load(path, default_init="ones")
        np.testing.assert_array_equal(drawn(load, 2, "w"), [1, 2])
        np.testing.assert_array_equal(drawn(load, 2, "v"), [1, 1])
        with self.assertRaisesRegex(AssertionError, "Shape mismatch, target .* vs loaded"):
            drawn(load, 3, "w")
        with self.assertRaisesRegex(AssertionError, "Not found in loaded param"):
            drawn(init.Load({}), 2, "w")

    def test_a_vector_has_no_fans(self):
        with self.assertRaisesRegex(ValueError, "Xavier initializer cannot be applied to vector x_weight"):
            drawn(init.Xavier(), 3)

    def test_json_makes_them_again(self):
        for initializer in (
            init.Xavier(magnitude=2.24),
            init.Constant([1, 2]),
            init.Constant(nd.array([1, 2])),
            init.Zero(),
            init.MSRAPrelu(slope=0.1),
        ):
            again = init.create(initializer.dumps())
            self.assertEqual(again, initializer)
            self.assertEqual(again.dumps(), initializer.dumps())
        self.assertEqual(
            [init.Constant(value).dumps() for value in (1, nd.ones(2), np.ones(2))],
            ['["constant", {"value": 1}]', *['["constant", {"value": [1.0, 1.0]}]'] * 2],
        )
        self.assertEqual(json.dumps(init.Constant(nd.ones(2))._kwargs), '{"value": [1.0, 1.0]}')
        self.assertEqual(init.Uniform(0.5).dumps(), '["uniform", {"scale": 0.5}]')

    def test_names_are_looked_up(self):
        self.assertIsInstance(init.create("zeros"), init.Zero)
        self.assertIsInstance(init.create("Xavier", magnitude=2), init.Xavier)
        with self.assertRaisesRegex(ValueError, "Cannot find initializer xavir. Did you mean xavier"):
            init.create("xavir")

    def test_an_own_initializer(self):
        @init.register
        class Count(init.Initializer):
            def _init_weight(self, name, array):
                array[:] = np.arange(array.size).reshape(array.shape)

        np.testing.assert_array_equal(drawn(init.create("count"), (2, 2)), [[0, 1], [2, 3]])


if __name__ == "__main__":
    case_runner.main()
