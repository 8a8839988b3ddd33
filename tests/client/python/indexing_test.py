"""x[key] and x[key] = value: numpy's meaning, on the server."""

import warnings
from unittest import mock

import numpy as np
from gluond import nd
from gluond._array import indexing, key
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
BASIC = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    (0, 1),
    (slice(None), 2),
    (0, slice(1, 3), -2),
    Ellipsis,
    (Ellipsis, 0),
    (0, Ellipsis),
    (slice(None), slice(None, None, 2), slice(3, 0, -2)),
    None,
    (0, None, 1),
    (slice(None), None, Ellipsis, None),
    (slice(0, 1), 1, slice(2, 3)),
]
ADVANCED = [
    [0, 1, 1],
    [1],
    np.array([[0, 1], [1, 0]]),
    ([0, 1], [2, 0]),
    (slice(None), [0, 2]),
    ([1, 0], slice(1, 3)),
    (0, [0, 2], slice(None, None, 2)),
    ([0, 1], slice(None), [1, 3]),
    (Ellipsis, [-1, 0]),
    (None, [1], 0),
    (slice(None), [[0], [1]], [2, 3]),
    X[:, 0, 0] > 5,
    X > 11,
]


class GetTest(ArrayCase):
    def test_basic(self):
        for key in BASIC:
            with self.subTest(key=key):
                self.assert_equal(nd.array(X)[key], X[key])

    def test_advanced(self):
        for key in ADVANCED:
            with self.subTest(key=key):
                self.assert_equal(nd.array(X)[key], X[key])

    def test_an_element_keeps_one_dimension(self):
        self.assert_equal(nd.array(X)[1, 2, 3], [23])

    def test_indices_on_the_server(self):
        self.assert_equal(nd.array(X)[nd.array([1, 0])], X[[1, 0]])
        self.assert_equal(nd.array(X)[:, nd.array([2, 0], dtype="int64")], X[:, [2, 0]])
        self.assert_equal(nd.array(X)[nd.from_numpy(X > 11)], X[X > 11])

    def test_rows_by_iteration(self):
        self.assertEqual([row.asscalar() for row in nd.arange(3)], [0, 1, 2])

    def test_membership(self):
        self.assertIn(2, nd.arange(3))
        self.assertNotIn(5, nd.arange(3))

    def test_what_does_not_fit_is_refused_at_once(self):
        x = nd.array(X)
        for key, message in (
            (5, "index 5 is out of bounds for axis 0 with size 2"),
            ((0, 0, 0, 0), "too many indices"),
            ((0, -4), "index -4 .* axis 1"),
            ([0, 2], "index 2 is out of bounds"),
            ((Ellipsis, Ellipsis), "ellipsis"),
            (([0, 1], [0, 1, 2]), "broadcast"),
        ):
            with self.assertRaisesRegex(IndexError, message):
                x[key]
        for key in (1.5, "a", [0.5]):
            with self.assertRaises(ValueError):
                x[key]


class MaskTest(ArrayCase):
    def setUp(self):
        self.values = np.arange(12).reshape(4, 3)
        self.x = nd.array(self.values)
        mock.patch.multiple(key, _warned=[], _looks=16).start()
        self.addCleanup(mock.patch.stopall)

    def test_boolean_arrays_are_masks(self):
        for mask in (np.array([True, False, True, False]), self.values > 4):
            for given in (mask, nd.array(mask, dtype="bool")):
                self.assert_equal(self.x[given], self.values[mask])
                written, expected = self.x.copy(), self.values.copy()
                written[given] = expected[mask] = -1
                self.assert_equal(written, expected)

    def test_a_comparison_chooses_rows_by_number_and_a_warning_says_so_once(self):
        with self.assertWarnsRegex(UserWarning, r"rows 0 and 1.*boolean_mask.*nd.where") as caught:
            found = self.x[self.x > 4]
        self.assertEqual(caught.filename, __file__)
        self.assertEqual(found.shape, (4, 3, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.x[self.x > 4] = 0

    def test_a_comparison_that_is_written_to_is_told_too(self):
        with self.assertWarnsRegex(UserWarning, "chooses rows by their numbers"):
            self.x[(self.x > 4) * (self.x < 9)] = 0

    def test_numbers_of_rows_are_no_mask(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(20):
                self.assert_equal(self.x[nd.array([3, 1, 0, 2])][0], [9, 10, 11])
            self.assert_equal(self.x[nd.array([0, 1])], self.values[:2])
            self.assert_equal(nd.array([5, 6])[nd.array([1, 0])], [6, 5])


class FewElementsTest(ArrayCase):
    def test_elements_are_written_one_by_one_as_together(self):
        random = np.random.RandomState(0)
        for shape, place in (
            ((5,), [0, 3, 0]),
            ((5, 4), [1, 2]),
            ((5, 4, 3), (slice(None), [0, 2])),
            ((5, 4, 3), (slice(1, 4), [0, 2], slice(None, None, 2))),
            ((5, 4, 3), ([0, 1], slice(None), [1, 2])),
            ((5, 4, 3), (slice(None, None, -1), [0, 2], [1, 1])),
            ((5, 4, 3), (np.array([[0, 1], [2, 3]]),)),
            ((5, 4, 3), (2, [1, 2])),
            ((5, 4, 3), ([1, 2], Ellipsis, 0)),
            ((5, 4), (None, [0, 1])),
            ((5, 4), random.rand(5, 4) > 0.5),
        ):
            values = random.rand(*shape).astype("float32")
            chosen = values[place].shape
            for value in (7, random.rand(*chosen).astype("float32"), random.rand(*chosen[-1:]).astype("float32")):
                expected = values.copy()
                expected[place] = value
                for bytes_per_part in (0, 1 << 60):
                    for given in (value, value if isinstance(value, int) else nd.array(value)):
                        with self.subTest(shape=shape, place=place, bytes_per_part=bytes_per_part):
                            x = nd.array(values)
                            with mock.patch.object(indexing, "_BYTES_PER_PART", bytes_per_part):
                                x[place] = given
                            self.assert_equal(x, expected)

    def test_few_elements_of_a_large_array_are_written_without_a_number_for_each(self):
        x = nd.zeros((1 << 22,))
        with mock.patch.object(key.Advanced, "positions", side_effect=AssertionError):
            x[[0, 5]] = 1
        self.assert_equal(x[:6], [1, 0, 0, 0, 0, 1])

    def test_as_many_numbers_are_made_as_elements_are_chosen(self):
        places = key.parse([0, 5], (1 << 40,)).positions()
        self.assertEqual(places.tolist(), [0, 5])


class SetTest(ArrayCase):
    def check(self, key, value, given=None):
        x, expected = nd.array(X), X.copy()
        expected[key] = value
        x[key] = value if given is None else given
        self.assert_equal(x, expected)

    def test_a_number(self):
        for key in BASIC + ADVANCED:
            with self.subTest(key=key):
                self.check(key, 7)

    def test_an_array_of_the_result_s_shape(self):
        for key in BASIC + ADVANCED:
            with self.subTest(key=key):
                value = -np.arange(1, X[key].size + 1, dtype=np.float32).reshape(X[key].shape)
                self.check(key, value)
                if value.ndim:
                    self.check(key, value, nd.array(value))

    def test_indices_on_the_server(self):
        for dtype in "int32", "float32":
            for index in np.array([1, 0]), np.array(1):
                for value in 7, nd.array([1, 2, 3, 4]):
                    with self.subTest(dtype=dtype, shape=index.shape, value=value):
                        x, expected = nd.array(X[0]), X[0].copy()
                        x[nd.array(index, dtype=dtype)] = value
                        expected[index] = value.asnumpy() if isinstance(value, nd.NDArray) else value
                        self.assert_equal(x, expected)

    def test_values_broadcast(self):
        for key, shape in ((slice(None), (4,)), (0, (3, 1)), ((slice(None), [0, 2]), (4,)), (slice(None), (1, 1, 3, 1))):
            value = np.full(shape, 5, np.float32)
            with self.subTest(key=key):
                self.check(key, value, value)
                if len(shape) < 4:
                    self.check(key, value, nd.array(value))

    def test_values_become_the_array_s_type(self):
        x = nd.zeros(3, dtype="int32")
        x[:] = np.array([1.5, 2.5, 3.5])
        self.assert_equal(x, [1, 2, 3], np.int32)
        x[1:] = nd.array([7.9, 8.9])
        self.assert_equal(x, [1, 7, 8], np.int32)

    def test_what_does_not_fit_is_refused_at_once(self):
        x = nd.array(X)
        with self.assertRaisesRegex(ValueError, "broadcast"):
            x[0] = nd.ones(5)
        with self.assertRaisesRegex(ValueError, "broadcast"):
            x[:] = np.ones(5)
        with self.assertRaisesRegex(ValueError, "broadcast"):
            x[[0, 1]] = np.ones(5)
        with self.assertRaises(IndexError):
            x[2] = 1
        with self.assertRaisesRegex(TypeError, "non-array-like"):
            x[0] = "a"
        self.assert_equal(x, X)


if __name__ == "__main__":
    case_runner.main()
