"""Loops of functions on symbols, and in hybridized Blocks. The figures are those of MXNet 1.9.1."""

import numpy as np

import gluond as mx
from gluond import gluon, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

contrib = mx.sym.contrib
DATA = mx.sym.Variable("d", shape=(3, 2))
STATE = mx.sym.Variable("s")


class ForeachTest(ArrayCase):
    def test_a_loop_of_known_length_is_unrolled(self):
        calls = []

        def body(x, states):
            calls.append(x)
            return x * mx.sym.Variable("w") + states[0], [states[0] * 2 + x]

        outputs, states = contrib.foreach(body, DATA, [STATE])
        self.assertEqual(len(calls), 1)
        graph = mx.sym.Group([outputs, *states])
        self.assertEqual(sorted(graph.list_arguments()), ["d", "s", "w"])
        values = {"d": nd.arange(6).reshape((3, 2)), "s": nd.ones(2), "w": nd.ones(2) * 3}
        executor = graph.simple_bind(mx.cpu(), d=(3, 2), s=(2,), w=(2,))
        outputs, state = executor.forward(is_train=True, **values)
        self.assert_equal(outputs, [[1, 4], [8, 12], [18, 24]])
        self.assert_equal(state, [16, 23])
        executor.backward([nd.ones((3, 2)), nd.ones(2)])
        self.assert_equal(executor.grad_dict["d"], [[10, 10], [6, 6], [4, 4]])
        self.assert_equal(executor.grad_dict["s"], [15, 15])
        self.assert_equal(executor.grad_dict["w"], [6, 9])

    def test_data_outputs_and_states_are_nested(self):
        (pair, (last,)), states = contrib.foreach(
            lambda xs, s: ([xs[0] + xs[1], [xs[0]]], [s[0], [s[1][0] + 1]]), [DATA, DATA * 2], [STATE, [mx.sym.Variable("t")]]
        )
        self.assertEqual(len(states[1]), 1)
        found = mx.sym.Group([pair, last, states[1][0]]).eval(d=nd.arange(6).reshape((3, 2)), t=nd.zeros(1))
        self.assert_equal(found[0], [[0, 3], [6, 9], [12, 15]])
        self.assert_equal(found[1], [[0, 1], [2, 3], [4, 5]])
        self.assert_equal(found[2], [3])

    def test_parameters_that_the_body_makes_are_shared(self):
        outputs, _ = contrib.foreach(
            lambda x, s: (mx.sym.FullyConnected(x, num_hidden=4, name="fc"), s), mx.sym.Variable("d", shape=(3, 2, 5)), []
        )
        self.assertEqual(outputs.list_arguments(), ["d", "fc_weight", "fc_bias"])
        self.assertEqual(outputs.infer_shape(d=(3, 2, 5))[1], [(3, 2, 4)])

    def test_mistakes_are_errors(self):
        x = mx.sym.Variable("x")
        for error, message, call in (
            (AssertionError, "but there are none", lambda: contrib.foreach(lambda a, s: (s, s), [], STATE)),
            (AssertionError, "data should be a Symbol", lambda: contrib.foreach(lambda a, s: (a, s), nd.ones(3), STATE)),
            (AssertionError, "state arrays have to be used", lambda: contrib.foreach(lambda a, s: (a, [a]), x, [STATE])),
            (AssertionError, "data arrays have to be used", lambda: contrib.foreach(lambda a, s: (s, s), DATA, STATE)),
            (AssertionError, "output should be a Symbol", lambda: contrib.foreach(lambda a, s: (3, s), DATA, STATE)),
            (AssertionError, "loop_vars have different format", lambda: contrib.foreach(lambda a, s: (a, [s, s]), DATA, STATE)),
            (ValueError, "max_iterations", lambda: contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [x])),
            (ValueError, "at least one", lambda: contrib.while_loop(lambda: x, lambda: (x, []), [], 3)),
            (ValueError, "number of loop_vars", lambda: contrib.while_loop(lambda i: i < 3, lambda i: (i, [i, i]), x, 3)),
            (ValueError, "Return of cond", lambda: contrib.while_loop(lambda i: True, lambda i: (i, i), x, 3)),
            (ValueError, "single output", lambda: contrib.cond(mx.sym.Group([x, x]), lambda: x, lambda: x)),
            (ValueError, "Number of outputs differs", lambda: contrib.cond(x, lambda: x, lambda: [x, x])),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


class LoopTest(ArrayCase):
    """Loops whose length only values tell."""

    def gradients(self, graph, heads, **values):
        """The outputs and the gradients of all arguments."""
        arrays = {name: nd.array(value) for name, value in values.items()}
        executor = graph.bind(mx.cpu(), arrays, {name: nd.zeros_like(value) for name, value in arrays.items()})
        outputs = executor.forward(is_train=True)
        executor.backward([nd.array(head) for head in heads])
        return outputs, executor.grad_dict

    def test_foreach_over_data_of_any_length(self):
        w = mx.sym.Variable("w") * 2
        outputs, states = contrib.foreach(lambda x, s: (x * w + s[0], [s[0] * 2 + x]), mx.sym.Variable("d"), [STATE])
        graph = mx.sym.Group([outputs, *states])
        self.assertEqual(sorted(graph.list_arguments()), ["d", "s", "w"])
        self.assertEqual(graph.infer_shape(d=(3, 2)), ([(3, 2), (2,), (2,)], [(3, 2), (2,)], []))
        for loaded in (graph, mx.sym.load_json(graph.tojson())):
            (rows, state), grads = self.gradients(
                loaded, [np.ones((3, 2)), np.ones(2)], d=np.arange(6).reshape(3, 2), s=[1, 1], w=[1.5, 1.5]
            )
            self.assert_equal(rows, [[1, 4], [8, 12], [18, 24]])
            self.assert_equal(state, [16, 23])
            self.assert_equal(grads["d"], [[10, 10], [6, 6], [4, 4]])
            self.assert_equal(grads["s"], [15, 15])
            self.assert_equal(grads["w"], [12, 18])
        self.assertEqual(mx.sym.load_json(graph.tojson()).tojson(), graph.tojson())

    def test_parameters_of_a_body_are_arguments(self):
        cell = mx.rnn.LSTMCell(4, prefix="")
        outputs, states = contrib.foreach(cell, mx.sym.Variable("d"), [mx.sym.Variable("h"), mx.sym.Variable("c")])
        shapes, results, _ = mx.sym.Group([outputs, *states]).infer_shape(d=(2, 3, 5), h=(3, 4))
        found = dict(zip(outputs.list_arguments(), shapes))
        self.assertEqual(found["i2h_weight"], (16, 5))
        self.assertEqual(found["c"], (3, 4))
        self.assertEqual(results, [(2, 3, 4), (3, 4), (3, 4)])

    def test_an_unknown_size_stays_unknown(self):
        outputs, _ = contrib.foreach(lambda x, s: (x + s, s), mx.sym.Variable("d", shape=(0, 3)), STATE)
        self.assertEqual(outputs.infer_shape_partial()[1], [(0, 3)])

    def test_a_state_has_the_shape_that_it_has_after_a_step(self):
        _, state = contrib.foreach(
            lambda x, s: (x, mx.sym.broadcast_mul(x, mx.sym.sum(s, keepdims=True))),
            mx.sym.Variable("d"),
            mx.sym.Variable("s", shape=(0, 2)),
        )
        self.assertEqual(state.infer_shape(d=(4, 3, 2)), ([(4, 3, 2), (3, 2)], [(3, 2)], []))

    def test_statistics_in_a_body_are_auxiliary_states(self):
        outputs, _ = contrib.foreach(lambda x, s: (mx.sym.BatchNorm(x, name="bn", momentum=0.5), s), mx.sym.Variable("d"), [])
        self.assertEqual(outputs.list_auxiliary_states(), ["bn_moving_mean", "bn_moving_var"])
        executor = outputs.simple_bind(mx.cpu(), d=(2, 3, 1))
        executor.forward(is_train=True, d=np.array([[[4], [4], [4]], [[8], [8], [8]]]))
        for _ in range(2):  # The second way back computes the loop again.
            executor.backward(nd.ones((2, 3, 1)))
            self.assert_equal(executor.aux_dict["bn_moving_mean"], [5])

    def test_while_loop(self):
        i, x, step = mx.sym.Variable("i"), mx.sym.Variable("x"), mx.sym.Variable("step") + 0
        outputs, (_, last) = contrib.while_loop(lambda i, v: i < 3, lambda i, v: (v * step, [i + 1, v * 2]), [i, x], 5)
        graph = mx.sym.Group([outputs, last])
        self.assertEqual(graph.infer_shape(i=(1,), x=(2,))[1], [(5, 2), (2,)])
        (rows, last), grads = self.gradients(graph, [np.ones((5, 2)), np.ones(2)], i=[1], x=[1, 2], step=[3, 3])
        self.assert_equal(rows, [[3, 6], [6, 12], [0, 0], [0, 0], [0, 0]])
        self.assert_equal(last, [4, 8])
        self.assert_equal(grads["x"], [3 + 6 + 4] * 2)
        self.assert_equal(grads["step"], [3, 6])
        (rows, last), grads = self.gradients(graph, [np.ones((5, 2)), np.ones(2)], i=[7], x=[1, 2], step=[3, 3])
        self.assert_equal(rows, np.zeros((5, 2)))
        self.assert_equal(grads["x"], [1, 1])

    def test_while_loop_in_a_loop(self):
        def grown(x, s):
            _, (_, result) = contrib.while_loop(lambda i, v: i < 3, lambda i, v: (None, [i + 1, v * s]), [x * 0, x], 5)
            return result, s

        outputs, _ = contrib.foreach(grown, mx.sym.Variable("d"), STATE)
        (rows,), grads = self.gradients(outputs, [[[1], [1]]], d=[[1], [2]], s=[2])
        self.assert_equal(rows, [[8], [16]])
        self.assert_equal(grads["d"], [[8], [8]])
        self.assert_equal(grads["s"], [36])

    def test_cond_computes_one_branch(self):
        x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
        (chosen,) = contrib.cond(x.sum() < 2, lambda: [x * y], lambda: [x - y])
        self.assertEqual(chosen.infer_shape(x=(2,))[1], [(2,)])
        for x, result, of_y in (([1, 0], [3, 0], [1, 0]), ([1, 2], [-2, -2], [-1, -1])):
            (found,), grads = self.gradients(chosen, [[1, 1]], x=x, y=[3, 4])
            self.assert_equal(found, result)
            self.assert_equal(grads["y"], of_y)


class Scan(gluon.HybridBlock):
    """Steps of a cell, by a loop."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cell = gluon.rnn.GRUCell(3)

    def hybrid_forward(self, F, x, state):
        return F.contrib.foreach(self.cell, x, [state])


class Twice(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        _, (_, doubled) = F.contrib.while_loop(lambda i, v: i < 3, lambda i, v: (v, [i + 1, v * 2]), [F.zeros((1,)), x], 5)
        return F.contrib.cond(doubled.sum() > 8, lambda: doubled, lambda: doubled * 0)


class BlockTest(ArrayCase):
    def test_a_hybridized_block_runs_loops_of_any_length(self):
        block = Scan()
        block.initialize(mx.init.One())
        block.hybridize()
        for length in (2, 3):
            x = nd.arange(length * 6).reshape((length, 2, 3)) / 10
            outputs, states = block(x, nd.zeros((2, 3)))
            self.assertEqual(outputs.shape, (length, 2, 3))
            self.assert_close(outputs[0], [[0.12397, 0.12397, 0.12397], [0.19297, 0.19297, 0.19297]])
            self.assert_equal(states[0], outputs[-1].asnumpy())

    def test_a_block_around_one_with_loops_trains(self):
        net = gluon.nn.HybridSequential()
        net.add(Twice())
        net.hybridize()
        x = nd.array([1, 2])
        x.attach_grad()
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        self.assert_equal(x.grad, [8, 8])
        self.assert_equal(net(nd.array([0.1, 0.1])), [0, 0])


if __name__ == "__main__":
    case_runner.main()
