"""mx.customop: functions with gradients of their own, as minpy has them."""

import unittest

import numpy
import numpy as np

import gluond as mx
from gluond import autograd, minpy, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def my_softmax():
    """The tutorial's loss, but that its gradient heeds the one from above."""

    @mx.customop("numpy")
    def loss(x, y):
        probs = numpy.exp(x - numpy.max(x, axis=1, keepdims=True))
        probs /= numpy.sum(probs, axis=1, keepdims=True)
        N = x.shape[0]
        return -numpy.sum(numpy.log(probs[numpy.arange(N), y.astype(int)])) / N

    def gradient(ans, x, y):
        def grad(g):
            N = x.shape[0]
            probs = numpy.exp(x - numpy.max(x, axis=1, keepdims=True))
            probs /= numpy.sum(probs, axis=1, keepdims=True)
            probs[numpy.arange(N), y.astype(int)] -= 1
            return probs / N * g

        return grad

    return loss.def_grad(gradient)


class CustomOpTest(ArrayCase):
    def test_the_tutorial_s_softmax(self):
        x, y = nd.array([[1.0, 2.0], [3.0, 1.0]]), nd.array([0, 1])
        x.attach_grad()
        with autograd.record():
            loss = my_softmax()(x, y) * 10
        loss.backward()
        p = np.exp(x.asnumpy())
        p /= p.sum(axis=1, keepdims=True)
        self.assertAlmostEqual(float(loss), -10 * np.log(p[[0, 1], [0, 1]]).mean(), 4)
        self.assert_close(x.grad, 5 * (p - np.eye(2)), 1e-4)

    def test_the_mxnet_form_gets_ndarrays(self):
        @mx.customop("mxnet")
        def double(x):
            assert isinstance(x, nd.NDArray)
            return x * 2

        double.def_grad(lambda ans, x: lambda g: g * 2)
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        with autograd.record():
            y = double(x) * 5
        y.backward()
        self.assert_equal(y, [10, 20])
        self.assert_equal(x.grad, [10, 10])

    def test_arguments_of_all_kinds(self):
        @mx.customop("numpy")
        def scaled(x, factor, others, shift=None):
            assert isinstance(shift, np.ndarray) and isinstance(others[0], np.ndarray)
            return x * factor + others[0] + shift

        scaled.def_grad(lambda ans, x, factor, others, shift: lambda g: g * factor)
        scaled.def_grad_kw(lambda ans, x, factor, others, shift: lambda g: g * 7, "shift")
        x, shift = nd.ones(2), nd.ones(2)
        x.attach_grad()
        shift.attach_grad()
        with autograd.record():
            y = scaled(x, 3.0, [nd.ones(2)], shift=shift)
        y.backward()
        self.assert_equal(y, [5, 5])
        self.assert_equal(x.grad, [3, 3])
        self.assert_equal(shift.grad, [7, 7])

    def test_gradients_of_one_argument_each(self):
        @mx.customop("numpy")
        def product(a, b):
            return a * b

        product.def_grad(lambda ans, a, b: lambda g: g * b).def_grad(lambda ans, a, b: lambda g: g * a, argnum=1)
        for through in (False, True):
            a, b = nd.array([2.0]), nd.array([3.0])
            a.attach_grad()
            b.attach_grad("add")
            for _ in range(2):
                with autograd.record():
                    y = product(a, b)
                    z = y * 1 if through else y
                z.backward()
            self.assertEqual([a.grad.asscalar(), b.grad.asscalar()], [3, 4])

    def test_gradients_together_and_of_zero(self):
        @mx.customop("numpy")
        def product(a, b, c):
            return a * b

        product.def_multiple_grad(lambda ans, a, b, c: lambda g: (g * b, g * a), (0, 1)).def_grad_zero(2)
        self.assertTrue(product.gradable((0, 1, 2)))
        self.assertFalse(product.gradable((0,), ("key",)))
        arrays = [nd.array([value]) for value in (2.0, 3.0, 4.0)]
        for array in arrays:
            array.attach_grad()
        with autograd.record():
            y = product(*arrays)
        y.backward()
        self.assertEqual([array.grad.asscalar() for array in arrays], [3, 2, 0])

    def test_several_results(self):
        @mx.customop("numpy")
        def both(x):
            return x + 1, x.sum()

        both.def_grad(lambda ans, x: lambda g: g[0] + g[1])
        x = nd.ones(3)
        x.attach_grad()
        with autograd.record():
            plus, total = both(x)
            loss = plus.sum() + total * 10
        loss.backward()
        self.assertEqual(total.shape, ())
        self.assert_equal(x.grad, [11, 11, 11])

    def test_a_missing_gradient_is_an_error_only_where_it_is_needed(self):
        @mx.customop("numpy")
        def add(a, b):
            return a + b

        add.def_grad(lambda ans, a, b: lambda g: g)
        a, b = nd.ones(1), nd.ones(1)
        a.attach_grad()
        with autograd.record():
            y = add(a, b)
        y.backward()
        self.assert_equal(a.grad, [1])
        b.attach_grad()
        pattern = "No partial derivative of customized op add defined on argument 1."
        with autograd.record():
            y, z = add(a, b), add(a, b) * 2
        with self.assertRaisesRegex(minpy.NoGradientFuncError, pattern) as caught:
            y.backward()
        self.assertIsInstance(caught.exception, mx.MXNetError)
        z.backward()
        with self.assertRaisesRegex(minpy.NoGradientFuncError, pattern):
            b.grad.asnumpy()

    def test_gradient_functions_are_called_at_once(self):
        calls = []

        @mx.customop("numpy")
        def same(x):
            return x

        same.def_grad(lambda ans, x: calls.append((ans.copy(), x.copy())) or (lambda g: g))
        same(nd.ones(1))
        self.assertEqual(calls, [])
        with autograd.record():
            same(nd.ones(1))
        self.assertEqual(calls, [(1, 1)])

    def test_wrong_types(self):
        with self.assertRaisesRegex(ValueError, 'Wrong type for CustomOp. Must be either "numpy" or "mxnet"'):
            mx.customop("torch")(lambda x: x)
        with self.assertRaisesRegex(ValueError, "must be unique"):
            mx.customop("numpy")(lambda x: x).def_multiple_grad(lambda ans, x: None, (0, 0))


class WholeFunctionsTest(ArrayCase):
    def test_grad_and_loss(self):
        gradients, loss = minpy.grad_and_loss(lambda x, y: (x * x * y).sum(), argnum=[0, 1])(
            np.array([1, 2], np.float32), nd.ones(2)
        )
        self.assertEqual(loss.asscalar(), 5)
        self.assert_equal(gradients[0], [2, 4])
        self.assert_equal(gradients[1], [1, 4])

    def test_grad_of_custom_ones(self):
        x, y = nd.array([[1.0, 2.0]]), nd.array([0])
        gradient = minpy.grad(my_softmax())(x, y)
        p = np.exp(x.asnumpy()) / np.exp(x.asnumpy()).sum()
        self.assert_close(gradient, p - [1, 0], 1e-4)

    def test_a_value_that_does_not_depend_has_gradient_zero(self):
        self.assertEqual(minpy.grad(lambda x: 3.0)(nd.ones(2)), 0.0)


if __name__ == "__main__":
    case_runner.main()
