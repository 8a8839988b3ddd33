"""CachedOp: a symbol as a function of arrays."""

import unittest

import numpy as np

import gluond as mx
from gluond.ndarray import CachedOp
from gluond.test_utils import assert_almost_equal
from tests import case_runner
from tests.client.python.beside import in_threads


class CachedOpTest(unittest.TestCase):
    def test_inputs_come_in_the_order_of_list_inputs(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2, name="fc")
        self.assertEqual(net.list_inputs(), ["x", "fc_weight", "fc_bias"])
        op = CachedOp(net)
        y = op(mx.nd.ones((1, 3)), mx.nd.ones((2, 3)), mx.nd.array([0, 1]))
        assert_almost_equal(y, [[3, 4]])

    def test_one_output_is_an_array_and_several_are_a_list(self):
        x = mx.sym.Variable("x")
        self.assertIsInstance(CachedOp(x * 2)(mx.nd.ones((1,))), mx.nd.NDArray)
        outputs = CachedOp(mx.sym.Group([x, x * 2]))(mx.nd.ones((1,)))
        self.assertEqual([output.asscalar() for output in outputs], [1, 2])

    def test_shapes_may_change_from_call_to_call(self):
        op = CachedOp(mx.sym.sum(mx.sym.Variable("x"), axis=0))
        for rows in (1, 5, 1, 3):
            assert_almost_equal(op(mx.nd.ones((rows, 2))), [rows, rows])

    def test_a_call_is_recorded_as_a_whole(self):
        op = CachedOp(mx.sym.Variable("x") * mx.sym.Variable("y") + 1)
        x, y = mx.nd.array([2.0]), mx.nd.array([5.0])
        x.attach_grad()
        with mx.autograd.record():
            z = op(x, y) * 10
        z.backward()
        self.assertEqual((z.asscalar(), x.grad.asscalar()), (110, 50))

    def test_states_are_updated_in_training_only(self):
        net = mx.sym.BatchNorm(mx.sym.Variable("x"), momentum=0.5, name="bn")
        op = CachedOp(net)
        self.assertEqual(net.list_inputs()[3:], ["bn_moving_mean", "bn_moving_var"])
        x, ones = mx.nd.array([[1.0], [3.0]]), mx.nd.ones((1,))
        x.attach_grad()
        mean, var = mx.nd.zeros((1,)), mx.nd.ones((1,))
        op(x, ones, ones, mean, var)
        self.assertEqual(mean.asscalar(), 0)
        with mx.autograd.record():
            y = op(x, ones, ones, mean, var)
        y.backward()
        self.assertEqual(mean.asscalar(), 1)

    def test_out_gets_the_values(self):
        out = mx.nd.zeros((2,))
        result = CachedOp(mx.sym.Variable("x") * 2)(mx.nd.ones((2,)), out=out)
        self.assertIs(result, out)
        assert_almost_equal(out, [2, 2])

    def test_a_graph_without_inputs_runs(self):
        assert_almost_equal(CachedOp(mx.sym.ones((2, 3)) * 2)(), np.full((2, 3), 2))

    def test_graphs_that_are_gone_leave_the_others_alone(self):
        x = mx.nd.array([3.0])
        kept = CachedOp(mx.sym.Variable("x") + 1)
        for factor in range(20):
            self.assertEqual(CachedOp(mx.sym.Variable("x") * factor)(x).asscalar(), 3 * factor)
            self.assertEqual(kept(x).asscalar(), 4)

    def test_changed_attributes_take_effect(self):
        net = mx.sym.sum(mx.sym.Variable("x"), axis=0)
        op = CachedOp(net)
        assert_almost_equal(op(mx.nd.ones((2, 3))), [2, 2, 2])
        net._set_attr(axis="1")
        assert_almost_equal(op(mx.nd.ones((2, 3))), [3, 3])

    def test_threads_may_share_one(self):
        op = CachedOp(mx.sym.Variable("x") * 2)
        results = {}

        def work(number):
            results[number] = [op(mx.nd.array([number])).asscalar() for _ in range(20)]

        in_threads(work, 4)
        self.assertEqual(results, {number: [2 * number] * 20 for number in range(4)})

    def test_wrong_calls_are_refused(self):
        op = CachedOp(mx.sym.Variable("x") + mx.sym.Variable("y"))
        with self.assertRaisesRegex(mx.MXNetError, r"takes 2 inputs \(x, y\), got 1"):
            op(mx.nd.ones((1,)))
        with self.assertRaisesRegex(mx.MXNetError, "static_alloc must be True"):
            CachedOp(mx.sym.Variable("x"), [("static_shape", True)])

    def test_an_error_of_the_graph_surfaces_with_its_node(self):
        op = CachedOp(mx.sym.elemwise_add(mx.sym.Variable("x"), mx.sym.Variable("y"), name="mismatch"))
        z = op(mx.nd.ones((2,)), mx.nd.ones((3,)))
        with self.assertRaisesRegex(mx.MXNetError, "mismatch"):
            z.asnumpy()
        assert_almost_equal(op(mx.nd.ones((1,)), mx.nd.ones((1,))), [2])


if __name__ == "__main__":
    case_runner.main()
