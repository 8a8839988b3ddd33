"""Errors of calls that nobody waited for: when they come, and what they say."""

import os
import subprocess
import sys
import unittest

import gluond as mx
from gluond import gluon, nd
from tests import case_runner

PROGRAM = """
import gluond as mx
from gluond import nd
x = nd.ones((2, 3))
y = nd.dot(x, x)
print("went on")
y.asnumpy()
"""


def wrong():
    return nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))  # The line of the call.


class AsynchronousErrorTest(unittest.TestCase):
    def test_it_comes_with_the_values_and_names_the_line_of_the_call(self):
        y = wrong()
        with self.assertRaises(mx.MXNetError) as caught:
            y.asnumpy()
        for text in ("dot", "[2,3]", "errors_test.py", "in wrong", "# The line of the call."):
            self.assertIn(text, str(caught.exception))

    def test_it_names_the_innermost_layer_of_the_package(self):
        net = gluon.nn.Sequential()
        net.add(gluon.nn.Dense(4, prefix="wide_"), gluon.nn.Dense(3, prefix="narrow_", in_units=5))
        net.initialize()
        with self.assertRaisesRegex(mx.MXNetError, "FullyConnected.*\n(?s:.*)In layer 'narrow'"):
            net(nd.ones((2, 6))).asnumpy()

    def test_a_call_in_the_programs_own_layer_names_its_line_alone(self):
        class Mine(gluon.Block):
            def forward(self, x):
                return nd.dot(x, x)  # The line within the layer.

        with self.assertRaises(mx.MXNetError) as caught:
            Mine()(nd.ones((2, 3))).asnumpy()
        self.assertIn("# The line within the layer.", str(caught.exception))
        self.assertNotIn("In layer", str(caught.exception))

    def test_what_depends_on_it_names_the_call_that_failed(self):
        y = wrong()
        z = y * 2 + 1
        with self.assertRaisesRegex(mx.MXNetError, "The line of the call"):
            z.asnumpy()

    def test_an_index_that_an_operator_finds_out_of_range_is_an_index_error(self):
        with self.assertRaisesRegex(IndexError, "names no part of") as caught:
            nd.gather_nd(nd.ones((2, 3)), nd.array([[0], [3]])).asnumpy()
        self.assertIsInstance(caught.exception, mx.MXNetError)

    def test_it_comes_at_every_point_of_waiting(self):
        for wait in (lambda y: y.wait_to_read(), lambda y: y.shape, repr, lambda y: y.asscalar(), float):
            with self.assertRaises(mx.MXNetError):
                wait(wrong())

    def test_waitall_tells_what_nobody_has_been_told(self):
        wrong()
        with self.assertRaisesRegex(mx.MXNetError, "The line of the call"):
            nd.waitall()
        nd.waitall()

    def test_waitall_counts_the_others(self):
        arrays = [wrong(), wrong()]
        with self.assertRaisesRegex(mx.MXNetError, "1 other call"):
            nd.waitall()
        self.assertEqual(len(arrays), 2)

    def test_other_arrays_are_unharmed(self):
        wrong()
        self.assertEqual(nd.ones(1).asscalar(), 1)
        with self.assertRaises(mx.MXNetError):
            nd.waitall()


class NaiveEngineTest(unittest.TestCase):
    def run_program(self, **environment):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), **environment},
        )
        self.assertNotEqual(result.returncode, 0)
        return result

    def test_by_default_the_program_goes_on(self):
        result = self.run_program()
        self.assertIn("went on", result.stdout)
        self.assertIn("line 7", result.stderr)

    def test_naive_engine_raises_in_place(self):
        result = self.run_program(MXNET_ENGINE_TYPE="NaiveEngine")
        self.assertNotIn("went on", result.stdout)
        self.assertIn("line 5", result.stderr)


if __name__ == "__main__":
    case_runner.main()
