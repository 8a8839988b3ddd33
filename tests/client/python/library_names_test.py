"""What libraries and examples import by the paths of MXNet's own files: loggers, helpers of recurrent cells, a loader for Modules."""

import importlib
import logging
import tempfile

import gluond as mx
import numpy as np
from gluond import gluon, nd
from gluond.gluon import rnn
from gluond.gluon.rnn import rnn_cell
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)  # Two sequences of three steps.


class LibraryNamesTest(ArrayCase):
    def test_files_have_the_names_of_their_packages(self):
        for path, names in (
            ("io.io", ("DataDesc", "DataBatch", "DataIter", "NDArrayIter")),
            ("image.image", ("Augmenter", "imresize", "CreateAugmenter", "ImageIter")),
        ):
            package = importlib.import_module(f"gluond.{path.split('.')[0]}")
            for name in names:
                self.assertIs(getattr(importlib.import_module(f"gluond.{path}"), name), getattr(package, name))

    def test_a_sequence_is_arranged(self):
        steps, axis, F, batch_size = rnn_cell._format_sequence(3, nd.array(X), "NTC", False)
        self.assertEqual((len(steps), axis, F, batch_size), (3, 1, mx.nd, 2))
        self.assert_close(steps[1], X[:, 1])
        whole, axis, _, batch_size = rnn_cell._format_sequence(None, steps, "TNC", True)
        self.assertEqual((axis, batch_size), (0, 2))
        self.assert_close(whole, X.transpose(1, 0, 2))
        turned, axis, _, _ = rnn_cell._format_sequence(3, nd.array(X), "TNC", None, in_layout="NTC")
        self.assertEqual(axis, 0)
        self.assert_close(turned, X.transpose(1, 0, 2))
        parts, _, F, batch_size = rnn_cell._format_sequence(3, mx.sym.Variable("x"), "NTC", False)
        self.assertEqual((len(parts), F, batch_size), (3, mx.sym, 0))
        with self.assertRaisesRegex(AssertionError, "3 inputs are given for a length of 2"):
            rnn_cell._format_sequence(2, steps, "NTC", None)

    def test_steps_beyond_the_valid_length_are_zeros(self):
        expected = X.copy()
        expected[0, 1:] = 0
        lengths = nd.array([1, 3])
        self.assert_close(rnn_cell._mask_sequence_variable_length(mx.nd, nd.array(X), 3, lengths, 1, True), expected)
        steps = rnn_cell._mask_sequence_variable_length(mx.nd, [nd.array(X[:, t]) for t in range(3)], 3, lengths, 1, False)
        for t, step in enumerate(steps):
            self.assert_close(step, expected[:, t])

    def test_states_begin_at_zero_unless_they_are_given(self):
        cells = [rnn.LSTMCell(5, input_size=4), rnn.GRUCell(6, input_size=5)]
        self.assertEqual([info["shape"] for info in rnn_cell._cells_state_info(cells, 2)], [(2, 5), (2, 5), (2, 6)])
        self.assertEqual([state.shape for state in rnn_cell._cells_begin_state(cells, batch_size=2)], [(2, 5), (2, 5), (2, 6)])
        first = rnn_cell._get_begin_state(cells[1], mx.nd, None, nd.array(X), 2)
        self.assert_close(first[0], np.zeros((2, 6)))
        self.assertIs(rnn_cell._get_begin_state(cells[1], mx.nd, first, nd.array(X), 2), first)

    def test_nested_arrays_are_one_list_and_back(self):
        x, y, z = nd.ones(1), nd.ones(2), nd.ones(3)
        flat, form = gluon.block._flatten([x, (y, None)], "input")
        value, rest = gluon.block._regroup(flat + [z], form)
        self.assertEqual([value, rest], [[x, (y, None)], [z]])
        self.assertEqual(gluon.block._regroup([x, y], gluon.block._flatten(x, "input")[1]), (x, [y]))

    def test_a_convolution_of_a_library_s_own_asks_for_its_weight_s_shape(self):
        shapes = gluon.nn.conv_layers._infer_weight_shape(
            "Convolution", (1, 3, 8, 8), {"kernel": (3, 3), "num_filter": 4, "num_group": 1}
        )
        self.assertEqual(shapes, [(1, 3, 8, 8), (4, 3, 3, 3), (4,)])
        self.assertTrue(issubclass(gluon.nn.Conv2D, gluon.nn.conv_layers._Conv))
        self.assertTrue(issubclass(gluon.nn.MaxPool2D, gluon.nn.conv_layers._Pooling))
        self.assertTrue(issubclass(rnn.LSTM, rnn.rnn_layer._RNNLayer))

    def test_an_iterator_of_a_library_s_own_names_its_arrays(self):
        named = mx.io._init_data({"b": np.ones(2), "a": nd.zeros(2)}, allow_empty=False, default_name="data")
        self.assertEqual([name for name, _ in named], ["a", "b"])
        self.assertEqual([name for name, _ in mx.io.utils._init_data([X, X], False, "data")], ["_0_data", "_1_data"])
        self.assertEqual(mx.io.utils._init_data(None, allow_empty=True, default_name="label"), [])
        self.assertTrue(mx.io.utils._has_instance(named, nd.NDArray))
        self.assert_close(mx.io.utils._getdata_by_idx([("x", nd.arange(3))], [2, 0])[0][1], [2, 0])

    def test_records_and_types_have_mxnet_s_numbers(self):
        self.assertEqual((mx.recordio._IR_FORMAT, mx.recordio._IR_SIZE), ("IfQQ", 24))
        flags = nd.ndarray._DTYPE_NP_TO_MX
        self.assertEqual(
            [flags[kind] for kind in (None, np.float32, np.float64, np.float16, np.uint8, np.int32, np.int8, np.int64, np.bool_)],
            [-1, *range(8)],
        )
        self.assertIs(nd.ndarray._DTYPE_MX_TO_NP[6], np.int64)
        self.assertEqual(nd.ndarray._STORAGE_TYPE_STR_TO_ID["csr"], 2)

    def test_a_property_of_a_class(self):
        class Shape:
            sides = 4
            corners = mx.base.classproperty(lambda shape: shape.sides)

        self.assertEqual(Shape.corners, 4)

    def test_a_module_of_a_program_s_own_trains_on_several_devices(self):
        devices, names = (mx.cpu(0), mx.cpu(1)), ["w", "fixed"]
        for on_store in (True, False):
            weights = [[nd.ones(2, ctx=ctx) for ctx in devices] for _ in names]
            grads = [[nd.ones(2, ctx=ctx) * (number + 1) for number, ctx in enumerate(devices)], [None, None]]
            first = {"w": nd.array([2, 4]), "fixed": nd.ones(2)}
            store, updates = mx.model._create_kvstore("device", 2, first)
            self.assertTrue(updates)
            mx.model._initialize_kvstore(store, weights, first, names, on_store)
            sgd = mx.optimizer.SGD(learning_rate=0.5)
            if on_store:
                store.set_optimizer(sgd)
                mx.model._update_params_on_kvstore(weights, grads, store, names)
            else:
                mx.model._update_params(weights, grads, mx.optimizer.get_updater(sgd), 2, store, names)
            for weight in weights[0]:
                self.assert_close(weight, [0.5, 2.5] if on_store else [-0.5, -0.5])
        self.assertEqual(mx.model._create_kvstore("local", 1, first), (None, False))
        self.assertEqual(mx.model._create_kvstore(store, 1, first), (store, True))
        with self.assertRaisesRegex(TypeError, "kvstore must be"):
            mx.model._create_kvstore(3, 1, first)

    def test_a_module_takes_a_loader(self):
        loader = gluon.data.DataLoader(gluon.data.ArrayDataset(np.ones((10, 3)), np.arange(10)), 4)
        batches = mx.contrib.io.DataLoaderIter(loader)
        self.assertEqual((batches.provide_data[0].shape, batches.provide_label[0].name), ((4, 3), "softmax_label"))
        for _ in range(2):
            found = list(batches)
            self.assertEqual([batch.pad for batch in found], [0, 0, 2])
            self.assertEqual(found[0].data[0].dtype, np.float32)
            self.assert_close(found[2].label[0], [8, 9, 0, 0])
            self.assert_close(found[2].data[0], [[1, 1, 1]] * 2 + [[0, 0, 0]] * 2)
            batches.reset()

    def test_a_logger_writes_once(self):
        with tempfile.NamedTemporaryFile("r") as file:
            logger = mx.log.get_logger("library names", file.name, level=mx.log.INFO)
            self.assertIs(mx.log.get_logger("library names", file.name), logger)
            logger.info("begins")
            logger.debug("unseen")
            self.assertEqual(file.read(), "begins\n")
        self.assertIs(mx.log.get_logger(), logging.getLogger())
        with self.assertWarns(DeprecationWarning):
            coloured = mx.log.getLogger("library names, coloured")
        with self.assertLogs(coloured) as logged:
            coloured.error("fails")
        line = mx.log.get_logger("library names, again").handlers[0].format(logged.records[0])
        self.assertRegex(line, r"^\x1b\[31mE\d{4} \d\d:\d\d:\d\d \d+ .*library_names_test\.py:\w+:\d+\]\x1b\[0m fails$")


if __name__ == "__main__":
    case_runner.main()
