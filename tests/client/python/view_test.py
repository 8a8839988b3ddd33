"""Slices and reshapes share their elements with their array."""

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class ViewTest(ArrayCase):
    def test_writing_to_a_row_writes_to_the_array(self):
        x = nd.array(X)
        row = x[1]
        row[:] = 5
        row += 1
        self.assert_equal(x[1], [6, 6, 6, 6])
        self.assert_equal(x, np.where(np.arange(3)[:, None] == 1, 6, X))

    def test_a_view_sees_later_writes_to_the_array(self):
        x = nd.array(X)
        rows = x[1:]
        self.assert_equal(rows, X[1:])
        x[2, 0] = 50
        x *= 2
        self.assert_equal(rows, [[8, 10, 12, 14], [100, 18, 20, 22]])

    def test_views_of_views(self):
        x = nd.array(X)
        x[1:][1][2:][0] = 99
        self.assertEqual(x[2, 2].asscalar(), 99)
        x.reshape((4, 3))[3].reshape((1, 3))[:] = nd.array([[1, 2, 3]])
        self.assert_equal(x[2], [8, 1, 2, 3])

    def test_part_of_a_row(self):
        x = nd.array(X)
        part = x[1, 1:3]
        part[:] = nd.array([70, 80])
        self.assert_equal(x[1], [4, 70, 80, 7])

    def test_slices_of_neighbours_are_views(self):
        for key in (
            np.s_[1],
            np.s_[1:],
            np.s_[::2],
            np.s_[:, 1:3],
            np.s_[2, 1:3],
            np.s_[:1, ::3],
            np.s_[::-1],
            np.s_[3:],
            np.s_[[0, 1]],
        ):
            with self.subTest(key=key):
                x = nd.array(X)
                is_view = nd.NDArray._basic_indexing_slice_is_contiguous(key, X.shape)
                self.assertEqual(is_view, X[key].flags.contiguous and not isinstance(key, list))
                x[key][:] = -1
                self.assertEqual((x.asnumpy() == -1).any(), is_view and X[key].size > 0)

    def test_reshape_is_a_view(self):
        x = nd.array(X)
        flat = x.reshape(-1)
        flat[5] = 0
        self.assertEqual(x[1, 1].asscalar(), 0)

    def test_reshape_s_codes(self):
        x = nd.zeros((2, 3, 4))
        for codes, shape in (
            ((4, -1), (4, 6)),
            ((0, -1), (2, 12)),
            ((-2,), (2, 3, 4)),
            ((-3, 0), (6, 4)),
            ((0, -4, -1, 3, 4), (2, 1, 3, 4)),
            ((-3, 4), (6, 4)),
            ((24,), (24,)),
            ((2, -2), (2, 3, 4)),
        ):
            with self.subTest(codes=codes):
                self.assertEqual(x.reshape(codes).shape, shape)
                self.assertEqual(x.reshape(*codes).shape, shape)
        self.assertEqual(nd.zeros((10, 5, 4)).reshape((-1, 0), reverse=True).shape, (50, 4))
        self.assertEqual(x.reshape(shape=(6, 4)).shape, (6, 4))

    def test_a_shape_that_does_not_fit_is_refused(self):
        for error in (mx.MXNetError, ValueError):
            with self.assertRaisesRegex(error, "12 elements"):
                nd.array(X).reshape((5, 2))

    def test_a_slice_with_gaps_is_a_copy(self):
        x = nd.array(X)
        column = x[:, 1]
        column[:] = 0
        self.assert_equal(x, X)

    def test_a_view_can_be_an_output(self):
        x = nd.array(X)
        nd.square(nd.array([1, 2, 3, 4]), out=x[0])
        self.assert_equal(x[0], [1, 4, 9, 16])

    def test_recorded_slices_have_gradients(self):
        x = nd.array(X)
        x.attach_grad()
        with autograd.record():
            y = (x[1] * 2).sum() + (x.reshape((4, 3))[0, 1:] * 3).sum() + x[:, 3].sum()
        y.backward()
        expected = np.zeros((3, 4))
        expected[1] += 2
        expected[0, 1:3] += 3
        expected[:, 3] += 1
        self.assert_equal(x.grad, expected)

    def test_parts_of_a_marked_view_have_its_history(self):
        for view in nd.array(X).reshape((4, 3)), nd.array(np.zeros((6, 3)))[2:]:
            view.attach_grad()
            with autograd.record():
                loss = view[1:][1] * 3 + view[0] + view.reshape((3, 4))[0, 1:]
            loss.backward()
            self.assert_equal(view.grad, [[1, 2, 2], [1, 0, 0], [3, 3, 3], [0, 0, 0]])

    def test_a_view_of_a_gradient_sees_each_backward(self):
        x = nd.array(X)
        x.attach_grad()
        row = x.grad[0]
        for factor in (2, 3):
            with autograd.record():
                y = (factor * x).sum()
            y.backward()
            self.assert_equal(row, [factor] * 4)

    def test_a_view_of_a_parameter_s_gradient_sees_each_backward(self):
        parameter = gluon.Parameter("weight", shape=(2, 2))
        parameter.initialize("ones")
        row = parameter.grad()[0]
        for factor in (2, 3):
            with autograd.record():
                y = (factor * parameter.data()).sum()
            y.backward()
            self.assert_equal(row, [factor] * 2)


if __name__ == "__main__":
    case_runner.main()
