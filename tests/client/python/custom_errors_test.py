"""Custom operators that are wrong, within others, and where every call waits: mx.operator."""

import os
import subprocess
import sys
import threading
import traceback
import unittest

import gluond as mx
import numpy as np
from gluond import autograd, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.beside import in_threads
from tests.client.python.custom_case import Sigmoid, SigmoidProp, gradient, registered


class ErrorsTest(ArrayCase):
    def refused(self, error, pattern, call, *args, **kwargs):
        with self.assertRaisesRegex(error, pattern) as caught:
            call(*args, **kwargs)
        return caught.exception

    def test_an_error_in_forward_is_raised_in_place_as_itself_and_as_mxnet_s(self):
        def forward(self, in_data, **_):
            raise LookupError("no such row")

        registered("raises", forward)
        error = self.refused(
            LookupError, "Error in raises.forward: LookupError: no such row", nd.Custom, nd.ones(1), op_type="raises"
        )
        self.assertIsInstance(error, mx.MXNetError)
        self.assertIsInstance(error.__cause__, LookupError)
        self.assertEqual(nd.Custom(nd.zeros(1), op_type="sigmoid").asscalar(), 0.5)

    def test_an_error_in_backward_is_raised_in_place_or_comes_with_the_gradient(self):
        def backward(self, **_):
            raise KeyError("no gradient here")  # The line of the error.

        registered("raises", None, backward)
        x = nd.ones(1)
        with self.assertRaises(KeyError) as in_place:
            gradient(x, op_type="raises")
        gradient(x, called_back=True, op_type="raises")
        with self.assertRaises(KeyError) as caught:
            x.grad.asnumpy()
        for error in (in_place.exception, caught.exception):
            self.assertIsInstance(error, mx.MXNetError)
            self.assertIsInstance(error.__cause__, KeyError)
            self.assertIn("raises.backward", str(error))
            self.assertIn("no gradient here", str(error))
        for text in ("The line of the error", "custom_errors_test.py"):
            self.assertIn(text, str(caught.exception))
        gradient(x, op_type="sigmoid")
        self.assertGreater(x.grad.asscalar(), 0)

    def test_a_traceback_is_of_the_program_s_lines(self):
        def wrong(self, **_):
            raise RuntimeError("wrong alpha")

        for callback in ("forward", "backward"):
            registered("raises", *((wrong,) if callback == "forward" else (None, wrong)))
            with self.subTest(callback), self.assertRaises(RuntimeError) as caught:
                gradient(nd.ones(1), op_type="raises")
            for error, most in ((caught.exception, 3), (caught.exception.__cause__, 0)):
                lines = traceback.extract_tb(error.__traceback__)
                self.assertLessEqual(len([line for line in lines if "/gluond/_" in line.filename]), most, lines)
            self.assertEqual(lines[-1].name, "wrong")

    def test_an_error_of_the_server_s_within_forward_names_the_line(self):
        def forward(self, req, in_data, out_data, **_):
            self.assign(out_data[0], req[0], mx.nd.dot(in_data[0], in_data[0]))  # The wrong product.

        registered("wrong", forward)
        with self.assertRaisesRegex(mx.MXNetError, "The wrong product"):
            nd.Custom(nd.ones((2, 3)), op_type="wrong").asnumpy()

    def test_recording_goes_on_after_an_error(self):
        registered("raises", lambda self, **_: 1 / 0)
        x = nd.ones(1)
        x.attach_grad()
        with autograd.record():
            with self.assertRaises(ZeroDivisionError):
                nd.Custom(x, op_type="raises")
            self.assertTrue(autograd.is_recording())
            y = x * 3
        y.backward()
        self.assert_equal(x.grad, [3])

    def test_names_and_numbers_of_inputs(self):
        x = nd.ones((2, 3))
        self.refused(
            mx.MXNetError, "Cannot find custom operator sigmoidd, did you mean 'sigmoid'", nd.Custom, x, op_type="sigmoidd"
        )
        self.refused(mx.MXNetError, "Required argument `op_type` is missing", nd.Custom, x)
        self.refused(mx.MXNetError, r"takes 2 inputs \(data, label\), got 1: label missing", nd.Custom, x, op_type="softmax")
        self.refused(mx.MXNetError, r"takes 1 inputs \(data\), got 2", nd.Custom, x, x, op_type="sigmoid")
        self.refused(mx.MXNetError, "no input 'lable', did you mean 'label'", nd.Custom, x, lable=x, op_type="softmax")
        self.refused(TypeError, "multiple values for argument 'data'", nd.Custom, x, data=x, label=x, op_type="softmax")
        self.refused(TypeError, "must be an NDArray, not ndarray; mx.nd.array", nd.Custom, np.ones(1), op_type="sigmoid")

    def test_the_constructor_s_errors_are_the_user_s_own(self):
        error = self.refused(TypeError, "unexpected keyword argument 'bias'", nd.Custom, nd.ones(1), op_type="softmax", bias=1)
        self.assertNotIsInstance(error, mx.MXNetError)

    def test_shapes_that_contradict(self):
        self.refused(
            mx.MXNetError,
            r"input 'label': Shape inconsistent, Provided = \[5\], inferred shape=\[4\]",
            nd.Custom,
            nd.ones((4, 3)),
            nd.ones(5),
            op_type="softmax",
        )
        registered("typed", None, infer_type=lambda self, types: ([np.float64], [np.float64], []))
        self.refused(
            mx.MXNetError, "Type inconsistent, Provided = float32, inferred type = float64", nd.Custom, nd.ones(1), op_type="typed"
        )

    def test_wrong_numbers_of_shapes_and_types(self):
        for method, said, pattern in (
            ("infer_shape", ([[1]],), "infer_shape must return 2 or 3 lists"),
            ("infer_shape", ([[1]], [], []), "InferShape Error: expecting 1 entries in returned output shapes, got 0"),
            ("infer_shape", ([], [[1]], []), "InferShape Error: expecting 1 entries in returned input shapes, got 0"),
            ("infer_shape", ([[1]], [[1]], [[1]]), "expecting 0 entries in returned aux state shapes, got 1"),
            ("infer_shape", ([[1]], [1]), r"a shape is a tuple or a list of sizes, not 1; of one dimension: \(1,\)"),
            ("infer_type", ([np.float32],), "infer_type must return 2 or 3 lists"),
            ("infer_type", ([np.float32], []), "InferType Error: expecting 1 entries in returned output types, got 0"),
            ("infer_type", ([np.float32], ["float31"]), "float31"),
            ("infer_shape", ([[1]], [None]), "leave output 'output' unknown"),
            ("list_outputs", [], "it needs an output"),
            ("list_arguments", ["a,b"], "names without commas"),
            ("list_arguments", ["a", "a"], "several inputs of one name"),
            ("create_operator", 7, "must return a CustomOp, not 7"),
        ):
            registered("wrong", None, **{method: lambda self, *args: said})
            self.refused((mx.MXNetError, AssertionError, TypeError), pattern, nd.Custom, nd.ones(1), op_type="wrong")

    def test_dependencies_that_are_none(self):
        registered("wrong", None, declare_backward_dependency=lambda self, *args: [7])
        self.refused(mx.MXNetError, r"returned \[7\]; expected some of", nd.Custom, nd.ones(1), op_type="wrong")

    def test_a_gradient_of_a_wrong_shape(self):
        x = nd.ones(2)
        for said, pattern in (
            (lambda: np.ones(3), r"an array of shape \(3,\) cannot be assigned to one of shape \(2,\)"),
            (lambda: mx.nd.ones((1, 3)).sum(axis=0), r"\(3,\).*\(2,\)"),
        ):
            registered("wrong", None, lambda self, req, in_grad, **_: self.assign(in_grad[0], req[0], said()))
            self.refused(mx.MXNetError, pattern, gradient, x, op_type="wrong")
            gradient(x, called_back=True, op_type="wrong")
            self.refused(mx.MXNetError, pattern, x.grad.asnumpy)

    def test_backward_twice_says_what_to_do(self):
        x = nd.ones(1)
        y = gradient(x, op_type="sigmoid")
        self.refused(mx.MXNetError, "retain_graph=True", y.backward)

    def test_only_props_are_registered(self):
        self.refused(TypeError, "Can only register subclass of CustomOpProp", mx.operator.register("no"), Sigmoid)
        self.refused(ValueError, "name is text", mx.operator.register(""), SigmoidProp)

    def test_waitall_within_a_backward_pass_that_the_server_waits_for_would_wait_for_itself(self):
        registered("waits", None, lambda self, **_: nd.waitall())
        x = nd.ones(1)
        gradient(x, op_type="waits")
        gradient(x, called_back=True, op_type="waits")
        self.refused(mx.MXNetError, "would wait for the operator itself", x.grad.asnumpy)


class NestedTest(ArrayCase):
    def test_operators_call_operators_and_wait(self):
        def forward(self, req, in_data, out_data, **_):
            y = nd.Custom(in_data[0] * 2, op_type="sigmoid")
            assert y.asnumpy().shape == in_data[0].shape
            self.assign(out_data[0], req[0], y)

        def backward(self, req, out_grad, in_data, in_grad, **_):
            x = in_data[0] * 2
            x.attach_grad()
            with autograd.record():
                y = nd.Custom(x, op_type="sigmoid")
            y.backward(out_grad[0])  # Another callback, while this one waits.
            self.assign(in_grad[0], req[0], x.grad.asnumpy() * 2)

        registered("outer", forward, backward)
        x = nd.zeros(3)
        y = gradient(x, op_type="outer")
        self.assert_close(y, np.full(3, 0.5))
        self.assert_close(x.grad, np.full(3, 0.5))

    def test_many_threads_at_once(self):
        results = {}

        def work(number):
            for _ in range(10):
                x = nd.full(4, number)
                y = gradient(x, called_back=number % 2, op_type="sigmoid")
                results[number] = (y.asnumpy()[0], x.grad.asnumpy()[0])

        in_threads(work, 8)
        for number in range(8):
            y = 1 / (1 + np.exp(-number))
            np.testing.assert_allclose(results[number], [y, y * (1 - y)], rtol=1e-4)

    def test_calls_under_way_together(self):
        barrier = threading.Barrier(3, timeout=30)
        registered("meet", None, lambda self, req, in_grad, **_: (barrier.wait(), self.assign(in_grad[0], req[0], 1)))
        arrays = [nd.ones(1) for _ in range(3)]
        for x in arrays:
            gradient(x, called_back=True, op_type="meet")
        self.assertEqual([x.grad.asscalar() for x in arrays], [1, 1, 1])


NAIVE = """
import numpy as np
import gluond as mx
from tests.client.python import custom_case as t
x = mx.nd.zeros(2)
y = t.gradient(x, op_type="sigmoid")
print(x.grad.asnumpy().sum(), flush=True)
t.registered("raises", None, lambda self, **_: 1 / 0)
try:
    t.gradient(x, op_type="raises")
except ZeroDivisionError as error:
    print("in place")
"""


class NaiveEngineTest(unittest.TestCase):
    def test_backward_raises_in_place_and_does_not_wait_for_itself(self):
        result = subprocess.run(
            [sys.executable, "-c", NAIVE],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "MXNET_ENGINE_TYPE": "NaiveEngine"},
        )
        self.assertEqual((result.stdout, result.returncode), ("0.5\nin place\n", 0), result.stderr)


if __name__ == "__main__":
    case_runner.main()
