"""autograd.Function: functions with a gradient written by hand."""

import gc
import time
from unittest import mock

import numpy as np

import gluond as mx
from gluond import autograd, nd
from gluond._custom import functions
from gluond._array import tape
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


class FunctionTest(ArrayCase):
    def test_its_gradient_is_used(self):
        x = nd.array([0.0, 1.0])
        x.attach_grad()
        with autograd.record():
            y = Sigmoid()(x * 2) * 3
        y.backward()
        s = 1 / (1 + np.exp(-np.array([0, 2])))
        self.assert_close(y, 3 * s)
        self.assert_close(x.grad, 6 * s * (1 - s))

    def test_nothing_within_forward_is_recorded(self):
        seen = []

        class Look(autograd.Function):
            def forward(self, x):
                seen.append((autograd.is_recording(), autograd.is_training()))
                return x * 5

            def backward(self, dy):
                seen.append((autograd.is_recording(), autograd.is_training()))
                return dy

        x = nd.ones(1)
        x.attach_grad()
        with autograd.record():
            y = Look()(x)
            self.assertTrue(autograd.is_recording())
        y.backward()
        self.assert_equal(x.grad, [1])
        self.assertEqual(seen, [(False, True), (False, True)])

    def test_several_inputs_and_outputs(self):
        class Two(autograd.Function):
            def forward(self, a, b):
                return a + b, a * b

            def backward(self, dsum, dproduct):
                return dsum + dproduct * 10, [dsum, dproduct][1]

        a, b = nd.array([2.0]), nd.array([3.0])
        a.attach_grad()
        b.attach_grad()
        with autograd.record():
            total, product = Two()(a, b)
            loss = total * 1 + product * 100
        loss.backward()
        self.assert_equal(loss, [605])
        self.assert_equal(a.grad, [1001])
        self.assert_equal(b.grad, [100])

    def test_grad_req_add_and_inputs_without_a_gradient(self):
        class Add(autograd.Function):
            def forward(self, a, b, c):
                return a + b + c

            def backward(self, dy):
                return dy, None, dy * 2

        a, b, c = nd.ones(2), nd.ones(2), nd.ones(2)
        a.attach_grad()
        c.attach_grad("add")
        for _ in range(3):
            with autograd.record():
                y = Add()(a, b, c)
            y.backward()
        self.assert_equal(a.grad, [1, 1])
        self.assert_equal(c.grad, [6, 6])

    def test_numpy_within(self):
        class Cube(autograd.Function):
            def forward(self, x):
                self.x = x.asnumpy()
                return mx.nd.array(self.x**3)

            def backward(self, dy):
                return mx.nd.array(3 * self.x**2 * dy.asnumpy())

        x = nd.array([2.0])
        x.attach_grad()
        with autograd.record():
            y = Cube()(x)
        y.backward()
        self.assert_close(x.grad, [12])

    def test_it_works_without_recording(self):
        self.assert_close(Sigmoid()(nd.zeros(2)), [0.5, 0.5])

    def test_the_form_of_the_result_stays(self):
        class Listed(autograd.Function):
            def forward(self, x):
                return [x * 1]

            def backward(self, dy):
                return [dy]

        x = nd.ones(1)
        x.attach_grad()
        with autograd.record():
            y = Listed()(x)
        self.assertIsInstance(y, list)
        y[0].backward()
        self.assert_equal(x.grad, [1])

    def test_a_gradient_computed_here_lives_until_backward_has_been_submitted(self):
        x = nd.ones(3)
        x.attach_grad()
        submit = tape._submit

        def slowly(session, field, command):
            nd.ones(1).wait_to_read()  # Another thread's message takes along the Free of dead arrays.
            submit(session, field, command)

        with autograd.record():
            y = Sigmoid()(x)
        with mock.patch.object(tape, "_submit", slowly):
            y.backward()
        self.assert_close(x.grad, [0.196612] * 3, 1e-5)

    def test_what_is_not_reached_any_more_is_forgotten_after_its_backward_pass(self):
        x = nd.ones(1)
        x.attach_grad()
        for _ in range(3 * functions.MOST_USED):
            with autograd.record():
                y = Sigmoid()(x)
            y.backward()
        x.grad.wait_to_read()
        gc.collect()
        self.assertLessEqual(len(functions.functions), functions.MOST_USED)

    def test_what_the_server_cannot_reach_any_more_is_forgotten(self):
        x = nd.ones(1)
        x.attach_grad()
        for _ in range(200):
            with autograd.record():
                y = Sigmoid()(x) * 1
        del y
        deadline = time.monotonic() + 30
        while len(functions.functions) > 64:
            self.assertLess(time.monotonic(), deadline, f"{len(functions.functions)} are kept")
            nd.waitall()
            time.sleep(0.02)

    def test_one_that_is_forgotten_says_so(self):
        x = nd.ones(1)
        x.attach_grad()
        with autograd.record():
            y = Sigmoid()(x) * 1
        functions.functions.release(list(functions.functions._waiting))
        y.backward()
        with self.assertRaisesRegex(mx.MXNetError, "is gone"):
            x.grad.asnumpy()


class ErrorsTest(ArrayCase):
    def gradient_error(self, error, pattern, backward):
        """It is raised where a backward pass begins at the function, and later where the server calls back."""
        kind = type("Wrong", (autograd.Function,), {"forward": lambda self, x: x * 1, "backward": backward})
        x = nd.ones(2)
        x.attach_grad()
        with autograd.record():
            y, z = kind()(x), kind()(x) * 1
        with self.assertRaisesRegex(error, pattern) as caught:
            y.backward()
        self.assertIsInstance(caught.exception, mx.MXNetError)
        z.backward()
        with self.assertRaisesRegex(error, pattern) as caught:
            x.grad.asnumpy()
        self.assertIsInstance(caught.exception, mx.MXNetError)

    def test_an_object_is_for_one_call(self):
        function = Sigmoid()
        function(nd.ones(1))
        with self.assertRaisesRegex(AssertionError, "can only be called once"):
            function(nd.ones(1))

    def test_recording_goes_on_after_an_error_in_forward(self):
        class Raises(autograd.Function):
            def forward(self, x):
                raise OSError("no file")

        with autograd.record():
            with self.assertRaisesRegex(OSError, "no file"):
                Raises()(nd.ones(1))
            self.assertTrue(autograd.is_recording())

    def test_what_backward_returns(self):
        self.gradient_error(ValueError, "Expecting 1 got 2", lambda self, dy: (dy, dy))
        self.gradient_error(TypeError, "must return NDArrays, not <class 'int'>", lambda self, dy: [1])
        self.gradient_error(
            ValueError, r"shape \(3,\) cannot be assigned to one of shape \(2,\)", lambda self, dy: mx.nd.array([1, 2, 3])
        )
        self.gradient_error(ZeroDivisionError, "Wrong.backward", lambda self, dy: 1 / 0)

    def test_what_forward_takes_and_returns(self):
        with self.assertRaisesRegex(TypeError, "must be an NDArray, not int"):
            Sigmoid()(3)
        with self.assertRaisesRegex(TypeError, "must return an NDArray"):
            type("Wrong", (autograd.Function,), {"forward": lambda self, x: None})()(nd.ones(1))


if __name__ == "__main__":
    case_runner.main()
