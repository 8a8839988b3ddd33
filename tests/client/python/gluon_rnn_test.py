"""Recurrent cells and layers against numpy and against each other, operator by operator and as graphs."""

import unittest.mock

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn, rnn
from tests import case_runner
from tests.client.python.array_case import ArrayCase

RANDOM = np.random.RandomState(0)
STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 3, 5
X = RANDOM.uniform(-1, 1, (STEPS, BATCH, INPUTS))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(i, h, states):
    out = np.tanh(i + h)
    return [out]


def lstm_step(i, h, states):
    gate_in, forget, new, gate_out = np.split(i + h, 4, 1)
    c = sigmoid(forget) * states[1] + sigmoid(gate_in) * np.tanh(new)
    return [sigmoid(gate_out) * np.tanh(c), c]


def gru_step(i, h, states):
    (ir, iz, i_new), (hr, hz, h_new) = np.split(i, 3, 1), np.split(h, 3, 1)
    z = sigmoid(iz + hz)
    return [(1 - z) * np.tanh(i_new + sigmoid(ir + hr) * h_new) + z * states[0]]


# Cell, layer, formula.
KINDS = {
    "RNN": (rnn.RNNCell, lambda *args, **kwargs: rnn.RNN(*args, activation="tanh", **kwargs), rnn_step),
    "LSTM": (rnn.LSTMCell, rnn.LSTM, lstm_step),
    "GRU": (rnn.GRUCell, rnn.GRU, gru_step),
}


def by_numpy(step, x, states, weights):
    """(outputs, last states) of a layer with these weights: i2h, h2h, their biases."""
    i2h, h2h, i_bias, h_bias = weights
    outputs = []
    for part in x:
        states = step(part @ i2h.T + i_bias, states[0] @ h2h.T + h_bias, states)
        outputs.append(states[0])
    return np.stack(outputs), states


def weights_of(block, prefix=""):
    return [getattr(block, prefix + name).data() for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")]


def ready(block):
    block.initialize(mx.init.Uniform(0.7))
    for name, p in block.collect_params().items():
        if name.endswith("bias"):
            p.initialize(mx.init.Uniform(0.7), force_reinit=True)
    return block


def cell_of(layer, kind, prefix):
    """A cell with the weights of one layer and direction."""
    cell = kind(HIDDEN)
    cell.initialize()
    for own, other in zip(("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"), weights_of(layer, prefix)):
        getattr(cell, own).set_data(other)
    return cell


class CellTest(ArrayCase):
    def test_cells_compute_their_formulas(self):
        for name, (kind, _, step) in KINDS.items():
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    cell = kind(HIDDEN)
                    ready(cell)
                    cell.hybridize(hybrid)
                    states = [nd.array(RANDOM.randn(BATCH, HIDDEN)) for _ in cell.state_info()]
                    start = [s.asnumpy() for s in states]
                    outputs = []
                    for part in X:
                        out, states = cell(nd.array(part), states)
                        outputs.append(out.asnumpy())
                    expected, last = by_numpy(step, X, start, [w.asnumpy() for w in weights_of(cell)])
                    np.testing.assert_allclose(outputs, expected, atol=1e-5)
                    for state, other in zip(states, last):
                        self.assert_close(state, other)

    def test_unroll_takes_and_gives_tensors_or_lists(self):
        cell = rnn.GRUCell(HIDDEN)
        ready(cell)
        whole, states = cell.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True)
        self.assertEqual(whole.shape, (STEPS, BATCH, HIDDEN))
        batch_first, _ = cell.unroll(STEPS, nd.array(X.swapaxes(0, 1)), merge_outputs=True)
        self.assert_close(batch_first, whole.asnumpy().swapaxes(0, 1))
        parts, last = cell.unroll(STEPS, [nd.array(part) for part in X], layout="TNC")
        self.assertEqual(len(parts), STEPS)
        self.assert_close(parts[-1], whole[-1].asnumpy())
        self.assert_close(last[0], states[0].asnumpy())
        with self.assertRaisesRegex(AssertionError, "have 4 steps on axis 0 of layout TNC, not 3"):
            cell.unroll(3, nd.array(X), layout="TNC")

    def test_what_lies_beyond_the_valid_length_is_zero(self):
        cell = rnn.LSTMCell(HIDDEN)
        ready(cell)
        out, states = cell.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True, valid_length=nd.array([2, 4]))
        short, early = cell.unroll(2, nd.array(X[:2]), layout="TNC", merge_outputs=True)
        self.assert_close(out[:2, 0], short[:, 0].asnumpy())
        self.assert_equal(out[2:, 0], np.zeros((2, HIDDEN)))
        self.assert_close(states[1][0], early[1][0].asnumpy())

    def test_a_symbol_is_unrolled(self):
        cell = rnn.LSTMCell(HIDDEN, prefix="cell_")
        out, states = cell.unroll(STEPS, mx.sym.var("x"), layout="TNC", merge_outputs=True)
        _, shapes, _ = mx.sym.Group([out] + states).infer_shape(x=X.shape)
        self.assertEqual(shapes, [(STEPS, BATCH, HIDDEN), (BATCH, HIDDEN), (BATCH, HIDDEN)])

    def test_rows_of_cells(self):
        for kind in (rnn.SequentialRNNCell, rnn.HybridSequentialRNNCell):
            row = kind()
            with row.name_scope():
                row.add(rnn.LSTMCell(HIDDEN))
                row.add(rnn.DropoutCell(0.5))
                row.add(rnn.ResidualCell(rnn.GRUCell(HIDDEN)))
            ready(row)
            self.assertEqual(len(row), 3)
            self.assertEqual(len(row.state_info()), 3)
            unrolled, states = row.unroll(STEPS, nd.array(X), layout="TNC")
            row.reset()
            stepped = row.begin_state(batch_size=BATCH)
            for part, expected in zip(X, unrolled):
                out, stepped = row(nd.array(part), stepped)
                self.assert_close(out, expected.asnumpy())
            self.assert_close(stepped[2], states[2].asnumpy())

    def test_residual_cells_add_their_input(self):
        base = rnn.RNNCell(INPUTS)
        cell = rnn.ResidualCell(base)
        ready(cell)
        out, _ = cell.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True, valid_length=nd.array([4, 1]))
        base._modified = False
        plain, _ = base.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True, valid_length=nd.array([4, 1]))
        inputs = X.copy()
        inputs[1:, 1] = 0
        self.assert_close(out, plain.asnumpy() + inputs)

    def test_zoneout_keeps_states_in_training_only(self):
        base = rnn.RNNCell(HIDDEN)
        cell = rnn.ZoneoutCell(base, zoneout_outputs=0.5, zoneout_states=0.5)
        ready(cell)
        self.assertEqual(cell.name, base.name + "_zoneout")
        start = [nd.full((BATCH, HIDDEN), 7.0)]
        out, states = cell(nd.array(X[0]), start)
        self.assert_close(out, states[0].asnumpy())
        cell.reset()
        with autograd.record():
            out, states = cell(nd.array(X[0]), start)
        self.assertTrue((states[0].asnumpy() == 7).any())
        self.assertTrue((out.asnumpy() == 0).any())
        with self.assertRaisesRegex(AssertionError, "the base cell cannot be called directly"):
            base.begin_state(BATCH)

    def test_one_mask_for_all_steps(self):
        cell = gluon.contrib.rnn.VariationalDropoutCell(rnn.RNNCell(HIDDEN), drop_outputs=0.5)
        ready(cell)
        with autograd.record():
            out, _ = cell.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True)
        dropped = out.asnumpy() == 0
        self.assertTrue((dropped == dropped[:1]).all())
        self.assertTrue(dropped.any())

    def test_a_bidirectional_cell_cannot_be_stepped(self):
        cell = rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))
        with self.assertRaisesRegex(NotImplementedError, "Please use unroll"):
            cell(nd.ones((1, 2)), [])

    def test_an_own_step_activates_as_the_cell_does(self):
        class Cell(gluon.rnn.RNNCell):
            def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
                size = self._hidden_size
                sums = F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=size) + F.FullyConnected(
                    states[0], h2h_weight, h2h_bias, num_hidden=size
                )
                out = self._get_activation(F, sums, self._activation, name="out")
                return out, [out]

        for activation in ("relu", gluon.nn.LeakyReLU(0.1)):
            cells = [kind(2, activation, input_size=3, prefix="cell_") for kind in (gluon.rnn.RNNCell, Cell)]
            outs = []
            for cell in cells:
                cell.initialize(mx.init.Constant(-0.1))
                outs.append(cell(nd.ones((1, 3)), cell.begin_state(1))[0].asnumpy())
            np.testing.assert_array_equal(*outs)


class LayerTest(ArrayCase):
    def test_layers_compute_what_cells_compute(self):
        for name, (cell, layer, _) in KINDS.items():
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    net = ready(layer(HIDDEN, 2, bidirectional=True))
                    if hybrid:
                        net.hybridize()
                    out = net(nd.array(X))
                    steps = [nd.array(part) for part in X]
                    for k in range(2):
                        forth, _ = cell_of(net, cell, f"l{k}_").unroll(STEPS, steps, layout="TNC")
                        back, _ = cell_of(net, cell, f"r{k}_").unroll(STEPS, steps[::-1], layout="TNC")
                        steps = [nd.concat(a, b, dim=1) for a, b in zip(forth, back[::-1])]
                    self.assert_close(out, nd.stack(*steps).asnumpy())

    def test_states_go_in_and_out(self):
        for name, (_, layer, step) in KINDS.items():
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    net = ready(layer(HIDDEN, input_size=INPUTS))
                    if hybrid:
                        net.hybridize()
                    states = [nd.array(RANDOM.randn(*s.shape)) for s in net.begin_state(BATCH)]
                    out, after = net(nd.array(X), states)
                    expected, last = by_numpy(
                        step, X, [s[0].asnumpy() for s in states], [w.asnumpy() for w in weights_of(net, "l0_")]
                    )
                    self.assert_close(out, expected)
                    for state, other in zip(after, last):
                        self.assert_close(state[0], other)

    def test_hooks_see_what_the_caller_gets(self):
        layer = rnn.LSTM(3, input_size=2)
        layer.initialize()
        seen = []
        layer.register_forward_hook(lambda block, inputs, outputs: seen.append(outputs))
        for hybrid in (False, True):
            layer.hybridize(hybrid)
            self.assertIs(layer(nd.ones((4, 1, 2))), seen.pop())
            outputs, states = layer(nd.ones((4, 1, 2)), layer.begin_state(1))
            self.assertIs(seen[-1][0], outputs)
            self.assertEqual((len(states), len(seen.pop()[1])), (2, 2))

    def test_gradients_are_the_same_as_a_graph_and_as_cells(self):
        for name, (cell, layer, _) in KINDS.items():
            with self.subTest(name):
                net = ready(layer(HIDDEN, input_size=INPUTS))
                single = cell_of(net, cell, "l0_")
                for run in (net, lambda x: single.unroll(STEPS, x, layout="TNC", merge_outputs=True)[0]):
                    with autograd.record():
                        out = run(nd.array(X))
                    out.backward(out)
                net.hybridize()
                plain = [p.grad().asnumpy() for p in net.collect_params().values()]
                with autograd.record():
                    out = net(nd.array(X))
                out.backward(out)
                for p, before in zip(net.collect_params().values(), plain):
                    self.assert_close(p.grad(), before)
                for part in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
                    self.assert_close(getattr(net, "l0_" + part).grad(), getattr(single, part).grad().asnumpy(), 1e-4)

    def test_the_batch_may_come_first(self):
        net = ready(rnn.LSTM(HIDDEN, layout="NTC", input_size=INPUTS))
        other = rnn.LSTM(HIDDEN, params=net.params)
        self.assert_close(net(nd.array(X.swapaxes(0, 1))), other(nd.array(X)).asnumpy().swapaxes(0, 1))

    def test_a_layer_within_a_hybrid_network_takes_its_size_from_the_data(self):
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(nn.Embedding(7, INPUTS), rnn.LSTM(HIDDEN, 2, bidirectional=True, dropout=0.5), nn.Dense(3))
        ready(net)
        net.hybridize()
        with autograd.record():
            y = net(nd.array(RANDOM.randint(0, 7, (STEPS, BATCH))))
        y.backward()
        self.assertEqual(y.shape, (STEPS, 3))
        self.assertEqual(net[1].l1_i2h_weight.shape, (4 * HIDDEN, 2 * HIDDEN))
        self.assertEqual(net[1].r0_i2h_weight.shape, (4 * HIDDEN, INPUTS))

    def test_sequences_of_different_lengths(self):
        net = ready(rnn.GRU(HIDDEN, use_sequence_length=True, input_size=INPUTS))
        out, states = net(nd.array(X), net.begin_state(BATCH), nd.array([2, 4]))
        cell = cell_of(net, rnn.GRUCell, "l0_")
        expected, last = cell.unroll(STEPS, nd.array(X), layout="TNC", merge_outputs=True, valid_length=nd.array([2, 4]))
        self.assert_close(out, expected.asnumpy())
        self.assert_close(states[0][0], last[0].asnumpy())
        with self.assertRaisesRegex(ValueError, "use_sequence_length is set"):
            net(nd.array(X))

    def test_projections_are_those_of_cells(self):
        def cells(side):
            return gluon.contrib.rnn.LSTMPCell(HIDDEN, 2, prefix=f"{side}_")

        for hybrid in (False, True):
            net = rnn.LSTM(HIDDEN, 2, projection_size=2, bidirectional=True, layout="NTC", prefix="x_")
            row = rnn.HybridSequentialRNNCell(prefix="x_", params=net.params)
            with row.name_scope():
                for layer in (0, 1):
                    row.add(rnn.BidirectionalCell(cells(f"l{layer}"), cells(f"r{layer}")))
            net.initialize(mx.init.Uniform(0.5))
            if hybrid:
                net.hybridize()
            x = nd.array(X).swapaxes(0, 1)
            with autograd.record():
                out, states = net(x, net.begin_state(BATCH))
            out.backward()
            gradient = net.r0_i2h_weight.grad().copy()
            with autograd.record():
                expected, last = row.unroll(STEPS, x, merge_outputs=True)
            expected.backward()
            self.assert_close(out, expected.asnumpy())
            self.assert_close(gradient, net.r0_i2h_weight.grad().asnumpy())
            self.assertEqual([state.shape for state in states], [(4, BATCH, 2), (4, BATCH, HIDDEN)])
            for place, state in enumerate(last):
                self.assert_close(states[place % 2][place // 2], state.asnumpy())

    def test_a_layer_waits_for_no_answer(self):
        net = ready(rnn.LSTM(HIDDEN, 2, input_size=INPUTS))
        net.hybridize()
        x = nd.array(X)
        net(x).asnumpy()
        with unittest.mock.patch.object(type(x._session), "request", side_effect=AssertionError("it has asked")):
            out, states = net(x, [nd.ones((2, BATCH, HIDDEN)) for _ in range(2)])
            again, _ = net(out.slice_axis(axis=2, begin=0, end=INPUTS), states)
            own = net(x)
        self.assertEqual([each.shape for each in (again, own, *states)], [(STEPS, BATCH, HIDDEN)] * 2 + [(2, BATCH, HIDDEN)] * 2)
        with self.assertRaisesRegex(mx.MXNetError, r"(?s)RNN.*'state': Shape inconsistent.*In layer"):
            net(out.slice_axis(axis=2, begin=0, end=INPUTS), [each.slice_axis(axis=1, begin=0, end=1) for each in states])[
                0
            ].asnumpy()

    def test_an_empty_batch(self):
        net = ready(rnn.GRU(HIDDEN, 2, input_size=INPUTS))
        x = nd.array(X[:, :0])
        for _ in range(2):
            self.assertEqual(net(x).shape, (STEPS, 0, HIDDEN))
            net.hybridize()

    def test_wrong_states_are_told(self):
        net = ready(rnn.RNN(HIDDEN, input_size=INPUTS))
        with self.assertRaisesRegex(ValueError, r"Invalid recurrent state shape. Expecting \(1, 2, 5\), got \(1, 3, 5\)"):
            net(nd.array(X), nd.zeros((1, 3, HIDDEN)))
        with self.assertRaisesRegex(AssertionError, "Invalid layout"):
            rnn.RNN(2, layout="CNT")

    def test_a_row_of_cells_computes_what_its_layer_does(self):
        for layer in (
            rnn.LSTM(3, 2, bidirectional=True, input_size=2),
            rnn.GRU(3, 2, input_size=2),
            rnn.RNN(3, 1, "tanh", input_size=2),
        ):
            row = layer._unfuse()
            layer.initialize(mx.init.Uniform(0.5))
            x = nd.random.uniform(shape=(4, 2, 2))
            self.assert_close(row.unroll(4, x, layout="TNC", merge_outputs=True)[0], layer(x).asnumpy(), 1e-5)
            self.assertEqual(sorted(row.collect_params()), sorted(layer.collect_params()))


if __name__ == "__main__":
    case_runner.main()
