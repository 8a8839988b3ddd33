"""Loops of functions on symbols, and in hybridized Blocks. The figures are those of MXNet 1.9.1."""

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
        (pair, (last,)), states = contrib.foreach(lambda xs, s: ([xs[0] + xs[1], [xs[0]]], [s[0], [s[1][0] + 1]]),
                                                  [DATA, DATA * 2], [STATE, [mx.sym.Variable("t")]])
        self.assertEqual(len(states[1]), 1)
        found = mx.sym.Group([pair, last, states[1][0]]).eval(d=nd.arange(6).reshape((3, 2)), t=nd.zeros(1))
        self.assert_equal(found[0], [[0, 3], [6, 9], [12, 15]])
        self.assert_equal(found[1], [[0, 1], [2, 3], [4, 5]])
        self.assert_equal(found[2], [3])

    def test_parameters_that_the_body_makes_are_shared(self):
        outputs, _ = contrib.foreach(lambda x, s: (mx.sym.FullyConnected(x, num_hidden=4, name="fc"), s),
                                     mx.sym.Variable("d", shape=(3, 2, 5)), [])
        self.assertEqual(outputs.list_arguments(), ["d", "fc_weight", "fc_bias"])
        self.assertEqual(outputs.infer_shape(d=(3, 2, 5))[1], [(3, 2, 4)])

    def test_mistakes_are_errors(self):
        x = mx.sym.Variable("x")
        for error, message, call in (
                (mx.MXNetError, "length of data of shape .* is not known",
                 lambda: contrib.foreach(lambda a, s: (a, s), x, STATE)),
                (mx.MXNetError, "is not known", lambda: contrib.foreach(lambda a, s: (s, s), [], STATE)),
                (mx.MXNetError, "nd.contrib.while_loop runs on arrays",
                 lambda: contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [x], 4)),
                (mx.MXNetError, "nd.contrib.cond runs on arrays", lambda: contrib.cond(x, lambda: x, lambda: x)),
                (AssertionError, "data should be a Symbol",
                 lambda: contrib.foreach(lambda a, s: (a, s), nd.ones(3), STATE)),
                (AssertionError, "output should be a Symbol", lambda: contrib.foreach(lambda a, s: (3, s), DATA, STATE)),
                (AssertionError, "loop_vars have different format",
                 lambda: contrib.foreach(lambda a, s: (a, [s, s]), DATA, STATE))):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


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
        _, (_, doubled) = F.contrib.while_loop(lambda i, v: i < 3, lambda i, v: (v, [i + 1, v * 2]),
                                               [F.zeros((1,)), x], 5)
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
