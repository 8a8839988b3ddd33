"""Python's operators between NDArrays and numbers."""

import operator
import re

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
    operator.lt,
    operator.le,
]
A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[3, 2, 1], [1, 5, 2]], np.float32)


def as_numpy(function, left, right):
    return function(left, right).astype(np.float32)


class ArithmeticTest(ArrayCase):
    def test_two_arrays(self):
        for function in BINARY:
            with self.subTest(function.__name__):
                self.assert_close(function(nd.array(A), nd.array(B)), as_numpy(function, A, B))

    def test_an_array_and_a_number_on_either_side(self):
        for function in BINARY:
            with self.subTest(function.__name__):
                self.assert_close(function(nd.array(A), 3), as_numpy(function, A, np.float32(3)))
                self.assert_close(function(2.5, nd.array(A)), as_numpy(function, np.float32(2.5), A))

    def test_shapes_broadcast(self):
        row, column = np.array([[1, 2, 3]], np.float32), np.array([[10], [20]], np.float32)
        self.assert_equal(nd.array(row) + nd.array(column), row + column)
        self.assert_equal(nd.array(A) * nd.array(row), A * row)

    def test_shapes_that_do_not_broadcast_are_named_at_once(self):
        with self.assertRaisesRegex(mx.MXNetError, r"shapes \[2, 3\] \[2, 4\]"):
            nd.ones((2, 3)) + nd.ones((2, 4))

    def test_in_place_changes_the_array_itself(self):
        x = nd.array(A)
        same = x
        x += 1
        x *= nd.array(B)
        x -= 2
        x /= 4
        self.assertIs(x, same)
        self.assert_close(x, ((A + 1) * B - 2) / 4)

    def test_comparisons_give_numbers_of_the_arrays_type(self):
        self.assert_equal(nd.array(A) > nd.array(B), (A > B).astype(np.float32), np.float32)
        x = nd.array([1, 2], dtype="int32")
        self.assert_equal(x == 1, [1, 0], np.int32)

    def test_negative_and_absolute_value(self):
        x = nd.array([-1, 2])
        self.assert_equal(-x, [1, -2])
        self.assert_equal(abs(x), [1, 2])

    def test_functions_take_arrays_and_numbers(self):
        x = nd.array([1, 4])
        self.assert_equal(nd.maximum(x, 2), [2, 4])
        self.assert_equal(nd.minimum(3, x), [1, 3])
        self.assert_equal(nd.power(2, x), [2, 16])
        self.assert_equal(nd.subtract(1, x), [0, -3])
        self.assert_equal(nd.logical_and(x, nd.array([0, 1])), [0, 1])
        self.assertEqual(nd.add(1, 2), 3)

    def test_other_types_are_refused(self):
        for other in (None, "a", [1, 2]):
            with self.assertRaisesRegex(TypeError, r"not supported by \+ with an NDArray. Make it one: mx.nd.array"):
                nd.ones(2) + other

    def test_numpy_scalars_are_numbers(self):
        self.assert_equal(np.float32(2) * nd.ones(2), [2, 2])
        self.assert_equal(nd.ones(2) + np.int64(3), [4, 4])

    def test_zero_has_a_sign(self):
        x = nd.array([1])
        self.assert_equal(x / 0.0, [np.inf])
        self.assert_equal(x / -0.0, [-np.inf])
        self.assert_equal(x / 0, [np.inf])

    def test_truth_is_that_of_the_only_element(self):
        self.assertTrue(nd.ones(1))
        self.assertFalse(nd.zeros((1, 1)))
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            bool(nd.ones(2))

    def test_one_element_converts_to_python_numbers(self):
        self.assertEqual(float(nd.array([2.5])), 2.5)
        self.assertEqual(int(nd.array([2.5])), 2)
        self.assertEqual([1, 2, 3][nd.array([1], dtype="int32")], 2)

    def test_arrays_are_hashed_by_identity(self):
        x, y = nd.ones(1), nd.ones(1)
        self.assertEqual(len({x: 1, y: 2}), 2)

    def test_different_devices_are_named(self):
        with self.assertRaisesRegex(mx.MXNetError, rf"{re.escape(str(mx.current_context()))} and cpu\(1\)"):
            nd.ones(2) + nd.ones(2, ctx=mx.cpu(1))


if __name__ == "__main__":
    case_runner.main()
