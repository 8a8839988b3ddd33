"""Gradients of gradients through functions that the client computes, against derivatives by hand."""

import gluond as mx
import numpy as np
from gluond import autograd, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

AT = np.array([0.3, 0.7, 1.1], np.float32)


def operator(name, forward, backward):
    """A custom operator of one input, from f(x) and dL/dx of (out_grad, x, y), registered."""

    class Operator(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], forward(in_data[0]))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], backward(out_grad[0], in_data[0], out_data[0]))

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Operator()

    mx.operator.register(name)(Prop)
    return lambda x: nd.Custom(x, op_type=name)


cube = operator("second_order_cube", lambda x: x**3, lambda dy, x, y: 3 * x * x * dy)
exp = operator("second_order_exp", nd.exp, lambda dy, x, y: y * dy)


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


class SecondOrderTest(ArrayCase):
    def check(self, function, first, second):
        """d function / dx and its derivative, at AT."""
        x = nd.array(AT)
        x.attach_grad()
        with autograd.record():
            gradient = autograd.grad([function(x)], [x], create_graph=True)[0]
            total = gradient.sum()
        self.assert_close(gradient, first(AT))
        total.backward()
        self.assert_close(x.grad, second(AT))

    def test_at_the_head(self):
        self.check(cube, lambda x: 3 * x**2, lambda x: 6 * x)

    def test_what_reads_its_output(self):
        self.check(exp, np.exp, np.exp)

    def test_between_other_operators(self):
        self.check(lambda x: cube(2 * x) * x, lambda x: 32 * x**3, lambda x: 96 * x**2)

    def test_one_within_another(self):
        self.check(lambda x: exp(cube(x)), lambda x: 3 * x**2 * np.exp(x**3), lambda x: (6 * x + 9 * x**4) * np.exp(x**3))

    def test_a_function_that_saves_its_output(self):
        def s(x):
            return 1 / (1 + np.exp(-x))

        self.check(lambda x: Sigmoid()(x), lambda x: s(x) * (1 - s(x)), lambda x: s(x) * (1 - s(x)) * (1 - 2 * s(x)))
        self.check(
            lambda x: nd.square(Sigmoid()(x)),
            lambda x: 2 * s(x) ** 2 * (1 - s(x)),
            lambda x: 2 * s(x) ** 2 * (1 - s(x)) * (2 - 3 * s(x)),
        )

    def test_the_third_derivative(self):
        x = nd.array(AT)
        x.attach_grad()
        for function, third in ((lambda x: cube(x) * 1, np.full(3, 6.0)), (exp, np.exp(AT))):
            with autograd.record():
                first = autograd.grad([function(x)], [x], create_graph=True)[0]
                total = autograd.grad([first], [x], create_graph=True)[0].sum()
            total.backward()
            self.assert_close(x.grad, third)

    def test_a_head_gradient_takes_part(self):
        x, head = nd.array(AT), nd.array([1, 2, 3])
        x.attach_grad()
        head.attach_grad()
        with autograd.record():
            total = autograd.grad([cube(x)], [x], [head], create_graph=True)[0].sum()
        total.backward()
        self.assert_close(head.grad, 3 * AT**2)
        self.assert_close(x.grad, 6 * AT * np.array([1, 2, 3]))

    def test_what_cannot_be_recorded_says_so(self):
        by_numpy = operator("second_order_numpy", lambda x: x, lambda dy, x, y: nd.array(dy.asnumpy()))

        @mx.customop("numpy")
        def square(x):
            return x * x

        square.def_grad(lambda ans, x: lambda g: 2 * x * g)
        x = nd.array(AT)
        x.attach_grad()
        for function, pattern in ((by_numpy, r"in_grad\[0\] was computed with numpy"), (square, "cannot be recorded")):
            with autograd.record():
                y = function(x) * 1
            with self.assertRaisesRegex(mx.MXNetError, pattern):
                autograd.grad([y], [x], create_graph=True)
            y.backward()
            self.assertEqual(x.grad.shape, x.shape, "the first order goes on working")

    def test_an_error_in_backward_is_raised_in_place(self):
        def fail(dy, x, y):
            raise OSError("no file")

        fails = operator("second_order_fails", lambda x: x, fail)
        x = nd.array(AT)
        x.attach_grad()
        with autograd.record():
            y = fails(x)
        with self.assertRaisesRegex(OSError, "no file"):
            autograd.grad([y], [x], create_graph=True)
        nd.waitall()


if __name__ == "__main__":
    case_runner.main()
