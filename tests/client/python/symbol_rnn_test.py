"""Recurrent cells that make symbols. Graphs and figures are those of MXNet 1.9.1."""

import hashlib
import json
import os
import random
import tempfile
import unittest
import warnings

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

R = mx.rnn


def row(*cells):
    stack = R.SequentialRNNCell()
    for cell in cells:
        stack.add(cell)
    return stack


def both(left, right):
    return R.BidirectionalCell(left, right, output_prefix="o_")


# A cell for inputs of 3 numbers, and the digest of its graphs, as MXNet makes them.
CELLS = {
    "rnn": (lambda: R.RNNCell(4), "f34e4a17"),
    "function": (lambda: R.RNNCell(4, activation=mx.sym.sigmoid, prefix="q_"), "8bedb335"),
    "lstm": (lambda: R.LSTMCell(4, params=R.RNNParams("p_")), "152524a8"),
    "gru": (lambda: R.GRUCell(4), "60a20724"),
    "row": (lambda: row(R.LSTMCell(4, prefix="a_"), R.DropoutCell(0.3), R.GRUCell(5, prefix="b_")), "e36501f0"),
    "both ways": (lambda: both(R.LSTMCell(4, prefix="l_"), R.GRUCell(4, prefix="r_")), "1ce1fb4e"),
    "fused one way": (lambda: both(R.FusedRNNCell(4, prefix="l_"), R.GRUCell(4, prefix="r_")), "0534fefd"),
    "fused both ways": (lambda: both(R.FusedRNNCell(4, prefix="l_"), R.FusedRNNCell(4, mode="gru", prefix="r_")), "71a227df"),
    "zoneout": (lambda: R.ZoneoutCell(R.LSTMCell(4), 0.3, 0.2), "cb6b632c"),
    "residual": (lambda: R.ResidualCell(R.ZoneoutCell(R.RNNCell(3), 0.5)), "3d9faa46"),
    "residual fused": (lambda: R.ResidualCell(R.FusedRNNCell(3, mode="rnn_tanh")), "d52af985"),
    "fused": (lambda: R.FusedRNNCell(4, 2, "lstm", True, 0.1, True, forget_bias=2.0, prefix="x_"), "2c98d2a9"),
    "convolution": (lambda: R.ConvRNNCell((2, 3, 6, 8), 4, prefix="c_", activation="relu"), "a3250516"),
    "convolution lstm": (lambda: R.ConvLSTMCell((2, 3, 6, 8), 4, (5, 3), i2h_stride=(2, 1), i2h_dilate=(1, 2)), "b01613ea"),
    "convolution gru": (lambda: R.ConvGRUCell((2, 3, 6, 8), 4, h2h_dilate=(2, 1), i2h_bias_initializer="ones"), "c52d3ca5"),
    "unfused": (lambda: R.FusedRNNCell(4, 2, "gru", True, dropout=0.5).unfuse(), "cfe9b333"),
}


def flat(value):
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, (list, tuple)) else [value]


def graphs(make):
    """What `unroll` makes of three steps, for all ways to call it."""
    for layout in ("NTC", "TNC"):
        for merge in (None, True, False):
            for inputs in (mx.sym.Variable("data"), [mx.sym.Variable(f"d{i}") for i in range(3)]):
                with mx.name.NameManager(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outputs, states = make().unroll(3, inputs, layout=layout, merge_outputs=merge)
                nodes = json.loads(mx.sym.Group(flat([outputs, states])).tojson())["nodes"]
                yield [nodes, isinstance(outputs, list), [isinstance(state, list) for state in states]]


def digest(make):
    return hashlib.sha256(json.dumps(list(graphs(make)), sort_keys=True).encode()).hexdigest()[:8]


def values(symbol, **shapes):
    """Values for all arguments."""
    found, _, _ = symbol.infer_shape(**shapes)
    return {
        name: nd.array(np.sin(np.arange(int(np.prod(shape))) * 0.7 + place).reshape(shape) * 0.5)
        for place, (name, shape) in enumerate(zip(symbol.list_arguments(), found))
    }


def silently(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


class OnesOfTheFirstInputs(mx.init.Initializer):
    def _init_weight(self, name, array):
        array[:] = 1 if "l0_i2h" in name else 0


class CellTest(ArrayCase):
    def test_graphs_are_mxnets_node_by_node(self):
        for name, (make, expected) in CELLS.items():
            with self.subTest(name):
                self.assertEqual(digest(make), expected)

    def test_a_step_names_its_symbols(self):
        cell = R.LSTMCell(4)
        output, states = cell(mx.sym.Variable("x"), cell.begin_state(func=mx.sym.Variable))
        self.assertEqual(
            output.list_arguments(),
            [
                "x",
                "lstm_i2h_weight",
                "lstm_i2h_bias",
                "lstm_begin_state_0",
                "lstm_h2h_weight",
                "lstm_h2h_bias",
                "lstm_begin_state_1",
            ],
        )
        self.assertEqual(mx.sym.Group(states).list_outputs(), ["lstm_t0_out_output", "lstm_t0_state_output"])
        self.assertEqual(cell.state_shape, [(0, 4), (0, 4)])

    def test_the_batch_size_of_the_first_states_is_inferred(self):
        outputs, _ = R.GRUCell(4).unroll(3, mx.sym.Variable("data"), merge_outputs=True)
        self.assertEqual(outputs.infer_shape(data=(2, 3, 5))[1], [(2, 3, 4)])

    def test_errors_are_mxnets(self):
        row_of_own = R.SequentialRNNCell(params=R.RNNParams("p_"))
        modified = R.RNNCell(3)
        R.ResidualCell(modified)
        x = mx.sym.Variable("x")
        for error, message, call in (
            (NotImplementedError, "FusedRNNCell cannot be stepped. Please use unroll", lambda: R.FusedRNNCell(3)(x, [])),
            (NotImplementedError, "Bidirectional cannot be stepped", lambda: both(R.RNNCell(3), R.RNNCell(3))(x, [])),
            (AssertionError, "FusedRNNCell doesn't support zoneout", lambda: R.ZoneoutCell(R.FusedRNNCell(3))),
            (AssertionError, "BidirectionalCell doesn't support zoneout", lambda: R.ZoneoutCell(both(R.RNNCell(3), R.RNNCell(3)))),
            (AssertionError, "dropout probability must be a number", lambda: R.DropoutCell("x")),
            (AssertionError, r"unroll\(inputs=None\) has been deprecated", lambda: R.RNNCell(3).unroll(2, None)),
            (AssertionError, "1 inputs are given for a length of 2", lambda: R.RNNCell(3).unroll(2, [x])),
            (AssertionError, "grouped symbol", lambda: R.RNNCell(3).unroll(2, mx.sym.Group([x, x]))),
            (AssertionError, "After applying modifier cells", modified.begin_state),
            (AssertionError, "Either specify params for SequentialRNNCell", lambda: row_of_own.add(R.RNNCell(3))),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


class WeightsTest(ArrayCase):
    def test_a_fused_cell_computes_what_its_unfused_cells_do(self):
        for mode in ("lstm", "gru", "rnn_relu", "rnn_tanh"):
            for bidirectional in (False, True):
                with self.subTest(mode=mode, bidirectional=bidirectional):
                    fused = R.FusedRNNCell(4, 2, mode, bidirectional)
                    whole, _ = silently(fused.unroll, 3, mx.sym.Variable("data"), merge_outputs=True)
                    args = values(whole, data=(2, 3, 5))
                    data, name = args.pop("data"), fused._parameter.name
                    cells = fused.unfuse()
                    outputs, _ = cells.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
                    packed = cells.pack_weights(fused.unpack_weights(args))
                    expected = whole.bind(mx.cpu(), {**args, "data": data}).forward()[0].asnumpy()
                    self.assert_close(outputs.bind(mx.cpu(), {**packed, "data": data}).forward()[0], expected)
                    self.assert_equal(fused.pack_weights(cells.unpack_weights(packed))[name], args[name].asnumpy())

    def test_weights_of_gates_have_mxnets_names(self):
        cell = R.GRUCell(1)
        gates = cell.unpack_weights(
            {
                "gru_i2h_weight": nd.array([[1], [2], [3]]),
                "gru_i2h_bias": nd.zeros(3),
                "gru_h2h_weight": nd.zeros((3, 1)),
                "gru_h2h_bias": nd.zeros(3),
                "other": nd.zeros(1),
            }
        )
        self.assertEqual(sorted(gates)[:3], ["gru_h2h_o_bias", "gru_h2h_o_weight", "gru_h2h_r_bias"])
        self.assert_equal(gates["gru_i2h_z_weight"], [[2]])

    def test_an_array_of_another_size_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "Invalid parameters size for FusedRNNCell"):
            R.FusedRNNCell(4).unpack_weights({"lstm_parameters": nd.zeros(101)})

    def test_a_module_initializes_each_gate_by_its_own_name(self):
        cell = R.FusedRNNCell(4, 2, bidirectional=True, forget_bias=3.0)
        outputs, _ = silently(cell.unroll, 3, mx.sym.Variable("data"), merge_outputs=True)
        module = mx.mod.Module(outputs, label_names=[])
        module.bind([("data", (2, 3, 5))])
        module.init_params(OnesOfTheFirstInputs())
        array = module.get_params()[0]["lstm_parameters"].asnumpy()
        self.assertEqual(array.sum(), 4 * 4 * 5 + 2 * 2 * 2 * 4 * 3.0)
        self.assertEqual(array[-16:].tolist(), [0] * 4 + [3] * 4 + [0] * 8)


class SentencesTest(ArrayCase):
    def test_words_become_numbers(self):
        sentences = [["a", "b", "c"], ["b", "d"]]
        self.assertEqual(
            R.encode_sentences(sentences, start_label=1, invalid_label=0),
            ([[1, 2, 3], [2, 4]], {"\n": 0, "a": 1, "b": 2, "c": 3, "d": 4}),
        )
        self.assertEqual(R.encode_sentences(sentences, start_label=-1)[0], [[0, 1, 2], [1, 3]])  # -1 is invalid.
        known = {"a": 1, "b": 2, "u": 3}
        self.assertEqual(R.encode_sentences(sentences, known, unknown_token="u")[0], [[1, 2, 0], [2, 1]])
        with self.assertRaisesRegex(AssertionError, "Unknown token c"):
            R.encode_sentences(sentences, {"a": 1, "b": 2})

    def test_batches_are_of_one_length_and_labels_are_the_next_words(self):
        random.seed(3)
        np.random.seed(3)
        sentences = [[1, 2, 3], [4, 5], [6, 7], [8, 9, 8, 9]]
        batches = R.BucketSentenceIter(sentences, 2, buckets=[2, 3], invalid_label=0, layout="TN")
        self.assertEqual((batches.default_bucket_key, batches.buckets), (3, [2, 3]))
        self.assertEqual(batches.provide_data[0], mx.io.DataDesc("data", (3, 2), layout="TN"))
        (batch,) = batches
        self.assertEqual((batch.bucket_key, batch.data[0].shape, batch.provide_label[0].shape), (2, (2, 2), (2, 2)))
        self.assertEqual(sorted(batch.data[0].asnumpy().T.tolist()), [[4, 5], [6, 7]])
        self.assertEqual(sorted(batch.label[0].asnumpy().T.tolist()), [[5, 0], [7, 0]])
        batches.reset()
        self.assertEqual(len(list(batches)), 1)
        with self.assertRaisesRegex(ValueError, "Invalid layout T"):
            R.BucketSentenceIter([[1, 2], [1, 2]], 2, layout="T")

    def fitted(self, folder):
        """A language model of two cells, trained in buckets from fixed values for three epochs."""
        random.seed(1)
        np.random.seed(1)
        sentences = [[i % 7 + 1] * (i % 5 + 2) for i in range(40)]
        batches = R.BucketSentenceIter(sentences, 4, buckets=[4, 6], invalid_label=0)
        cells = row(R.LSTMCell(6, prefix="l0_"), R.GRUCell(5, prefix="l1_"))

        def network(length):
            embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=3, name="embed")
            cells.reset()
            outputs, _ = cells.unroll(length, inputs=embedded, merge_outputs=True)
            scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 5)), num_hidden=9, name="pred")
            label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
            return mx.sym.SoftmaxOutput(scores, label, name="softmax"), ("data",), ("softmax_label",)

        args = values(network(6)[0], data=(4, 6), softmax_label=(4, 6))
        del args["data"], args["softmax_label"]
        module = mx.mod.BucketingModule(network, default_bucket_key=batches.default_bucket_key)
        metric = mx.metric.Perplexity(0)
        module.fit(
            batches,
            eval_metric=metric,
            num_epoch=3,
            arg_params=args,
            aux_params={},
            optimizer_params={"learning_rate": 0.2, "momentum": 0.5, "wd": 1e-5},
            epoch_end_callback=R.do_rnn_checkpoint(cells, folder + "/m", 2),
        )
        return module, metric, cells

    def test_a_language_model_trains_as_in_mxnet(self):
        with tempfile.TemporaryDirectory() as folder:
            module, metric, cells = self.fitted(folder)
            self.assertAlmostEqual(metric.get()[1], 13.60476, 4)
            sums = {name: float(array.asnumpy().sum()) for name, array in module.get_params()[0].items()}
            for name, expected in (
                ("embed_weight", 0.0781),
                ("l0_i2h_bias", -1.4464),
                ("l1_h2h_weight", 1.8438),
                ("pred_weight", -0.0162),
            ):
                self.assertAlmostEqual(sums[name], expected, 3)
            self.assertEqual(sorted(os.listdir(folder)), ["m-0002.params", "m-symbol.json"])
            self.assertIn("arg:l0_h2h_f_bias", nd.load(folder + "/m-0002.params"))
            _, args, _ = R.load_rnn_checkpoint(cells, folder + "/m", 2)
            self.assertEqual(sorted(args), sorted(sums))


if __name__ == "__main__":
    case_runner.main()
