"""NumPy's functions and operators on NDArrays."""

import unittest
import unittest.mock

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

ROWS = np.array([[1, 2], [3, 4]], np.float32)


class NumpyProtocolsTest(ArrayCase):
    def test_functions_of_numpy_give_numpy_arrays(self):
        x = nd.array(ROWS)
        for name, function in (
            ("ufunc", np.sin),
            ("ufunc of two", lambda a: np.maximum(a, 2)),
            ("of two", lambda a: np.add(a, a)),
            ("method", np.add.reduce),
            ("mean", np.mean),
            ("axis", lambda a: np.mean(a, axis=0)),
            ("list", lambda a: np.concatenate([a, a])),
            ("dtype", lambda a: np.sum(a, 0, "float64")),
            ("bound", lambda a: np.clip(a, a_min=2, a_max=None)),
            ("shape", np.shape),
            ("size", np.size),
            ("where", lambda a: np.where(np.asarray(a) > 2, a, 0)),
        ):
            with self.subTest(name):
                found, expected = function(x), function(ROWS)
                self.assertIs(type(found), type(expected))
                np.testing.assert_array_equal(found, expected)

    def test_functions_that_numpy_passes_on_to_methods_give_ndarrays_as_mxnet_does(self):
        x = nd.array(ROWS)
        for name, function in (
            ("sum", np.sum),
            ("axis", lambda a: np.sum(a, axis=1)),
            ("place", lambda a: np.argmax(a, 1)),
            ("keepdims", lambda a: np.max(a, 0, keepdims=True)),
            ("amin", np.amin),
            ("prod", np.prod),
            ("repeat", lambda a: np.repeat(a, 2, axis=1)),
            ("swapaxes", lambda a: np.swapaxes(a, 0, 1)),
            ("clip", lambda a: np.clip(a, a_min=2, a_max=3)),
            ("squeeze", lambda a: np.squeeze(a[:1], axis=0)),
        ):
            with self.subTest(name):
                self.assertIs(type(function(x)), nd.NDArray)
                self.assert_equal(function(x), np.atleast_1d(function(ROWS)), np.float32)
        x.attach_grad()
        with mx.autograd.record():
            y = np.sum(x * x)
        y.backward()
        self.assert_equal(x.grad, 2 * ROWS)

    def test_operators_between_both_give_ndarrays_of_the_ndarray_s_type(self):
        x, a = nd.array(ROWS), np.full((2, 2), 2.0)
        for name, apply in (
            ("+", lambda l, r: l + r),
            ("-", lambda l, r: l - r),
            ("*", lambda l, r: l * r),
            ("/", lambda l, r: l / r),
            ("%", lambda l, r: l % r),
            ("**", lambda l, r: l**r),
            ("==", lambda l, r: l == r),
            ("<", lambda l, r: l < r),
            (">=", lambda l, r: l >= r),
        ):
            for other in (a, np.array([2.0, 1.0]), np.float32(2), np.float64(2), np.int64(2)):
                with self.subTest(name, other=type(other)):
                    for found, expected in ((apply(x, other), apply(ROWS, other)), (apply(other, x), apply(other, ROWS))):
                        self.assertIsInstance(found, nd.NDArray)
                        self.assertEqual(found.dtype, np.float32)
                        self.assert_close(found, np.asarray(expected, np.float32))

    def test_operators_in_place(self):
        x, a = nd.array(ROWS), ROWS.copy()
        x += ROWS
        self.assert_equal(x, 2 * ROWS)
        a += x
        self.assertIs(type(a), np.ndarray)
        np.testing.assert_array_equal(a, 3 * ROWS)

    def test_values_are_not_lost_silently(self):
        for wrong in (
            lambda: nd.ones(2, dtype="int32") + np.array([0.5, 1]),
            lambda: np.array([0.5, 1]) * nd.ones(2, dtype="int32"),
        ):
            with self.assertRaisesRegex(TypeError, r"loses values in the NDArray's int32. Cast one: x.astype\('float64'\)"):
                wrong()

    def test_numpy_does_not_write_into_ndarrays(self):
        x = nd.array(ROWS)
        for write in (lambda: np.add(ROWS, ROWS, out=x), lambda: np.sum(x, axis=0, out=x)):
            with self.assertRaisesRegex(TypeError, r"cannot write into an NDArray.*x\[:\] = np\."):
                write()

    @unittest.skipIf(np.lib.NumpyVersion(np.__version__) < "2.0.0", "copy=False means: only where it must")
    def test_there_is_no_view_of_an_ndarray(self):
        with self.assertRaisesRegex(ValueError, r"np.asarray\(x\)"):
            np.array(nd.array(ROWS), copy=False)

    def test_a_wish_for_no_copy_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"np.asarray\(x\)"):
            nd.array(ROWS).__array__(copy=False)
        np.testing.assert_array_equal(np.asarray(nd.array(ROWS)), ROWS)


class PrintingTest(ArrayCase):
    def test_arrays_are_printed_as_numpy_prints_them(self):
        for shape in ((5,), (2000,), (40, 50), (3, 5, 400), (10, 10, 10, 10), (2, 3000), (3000, 2)):
            for values in (np.random.RandomState(0).randn(*shape).astype("float32"), np.arange(np.prod(shape)).reshape(shape)):
                with self.subTest(shape=shape, dtype=values.dtype):
                    self.assertEqual(str(nd.array(values, dtype=values.dtype)).split("\n<NDArray")[0], f"\n{values}")

    def test_only_the_edges_of_a_large_array_are_fetched(self):
        x = nd.zeros((1000, 1000))
        sizes, fetch = [], type(x._session).fetch_one
        with unittest.mock.patch.object(
            type(x._session), "fetch_one", autospec=True, side_effect=lambda *a: sizes.append(fetch(*a)) or sizes[-1]
        ):
            str(x)
        self.assertEqual([each.shape for each in sizes], [(7, 7)])

    def test_printing_is_not_recorded(self):
        x = nd.zeros((1000, 1000))
        x.attach_grad()
        with mx.autograd.record():
            y = x * 2
            str(y)
        y.backward()
        self.assert_equal(x.grad[0, :2], [2, 2])


if __name__ == "__main__":
    case_runner.main()
