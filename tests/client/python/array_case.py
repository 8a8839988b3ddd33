"""How tests compare NDArrays with numpy."""

import unittest

import numpy as np


class ArrayCase(unittest.TestCase):
    """A case with two more assertions."""

    def assert_equal(self, array, expected, dtype=None):
        """The array's shape (as the client knows it before the values come), its values and its dtype are the expected."""
        expected = np.asarray(expected)
        self.assertEqual(array.shape, expected.shape)
        values = array.asnumpy()
        self.assertEqual(values.shape, expected.shape)
        np.testing.assert_array_equal(values, expected)
        self.assertEqual(np.dtype(array.dtype), values.dtype)
        if dtype is not None:
            self.assertEqual(array.dtype, dtype)

    def assert_close(self, array, expected, tolerance=1e-5):
        """The same up to rounding."""
        np.testing.assert_allclose(array.asnumpy(), expected, rtol=tolerance, atol=tolerance)
