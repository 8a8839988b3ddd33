"""The contents of MXNet's modules beside the server's operators, and orders of arguments."""

import importlib.util
import os
import pickle
import tempfile
import threading
import unittest

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class ContribTest(ArrayCase):
    def test_what_is_no_ordinary_number(self):
        x = nd.array([1, np.nan, np.inf, -np.inf])
        self.assert_equal(nd.contrib.isnan(x), [0, 1, 0, 0])
        self.assert_equal(nd.contrib.isinf(x), [0, 0, 1, 1])
        self.assert_equal(nd.contrib.isfinite(x), [1, 0, 0, 0])

    def test_a_mask_chooses_rows_and_lets_gradients_through(self):
        x = nd.arange(6).reshape((3, 2))
        x.attach_grad()
        with autograd.record():
            y = nd.contrib.boolean_mask(x, nd.array([1, 0, 1]))
        y.backward()
        self.assert_equal(y, [[0, 1], [4, 5]])
        self.assert_equal(x.grad, [[1, 1], [0, 0], [1, 1]])

    def test_frequent_classes_are_drawn_more_often(self):
        mx.random.seed(3)
        sampled, of_true, of_sampled = nd.contrib.rand_zipfian(nd.array([3, 0]), 20000, 5)
        self.assertEqual((sampled.dtype, of_true.dtype), (np.int64, np.float64))
        self.assert_close(of_true, np.array([0.49815515, 1.54741123]) * 5000)
        classes = sampled.asnumpy()
        np.testing.assert_allclose(np.bincount(classes), [7737, 4526, 3211, 2491, 2035], rtol=0.1)
        self.assert_close(of_sampled[:3], 20000 * np.log((classes[:3] + 2) / (classes[:3] + 1)) / np.log(6))

    def test_symbols_draw_such_classes_at_each_run(self):
        net = mx.sym.Group(mx.sym.contrib.rand_zipfian(mx.sym.var("true"), 20000, 5))
        mx.random.seed(3)
        executor = net.bind(mx.cpu(), {"true": nd.array([3, 0])})
        sampled, of_true, of_sampled = executor.forward()
        np.testing.assert_allclose(np.bincount(sampled.asnumpy()), [7737, 4526, 3211, 2491, 2035], rtol=0.1)
        self.assert_close(of_true, np.array([0.49815515, 1.54741123]) * 5000)
        self.assertFalse(np.array_equal(executor.forward()[0].asnumpy(), sampled.asnumpy()))

    def test_different_classes_are_drawn_and_their_draws_counted(self):
        mx.random.seed(3)
        classes, tries = nd._internal._sample_unique_zipfian(1000, shape=(3, 200))
        self.assertEqual((classes.shape, classes.dtype, tries.shape, tries.dtype), ((3, 200), np.int64, (3,), np.int64))
        for row, count in zip(classes.asnumpy(), tries.asnumpy()):
            self.assertEqual(len(set(row)), 200)
            self.assertTrue(0 <= row.min() and row.max() < 1000)
            self.assertTrue(300 < count < 700, count)  # MXNet has 426 on average.
            self.assertLess(np.median(row[:50]), np.median(row[-50:]))
        self.assertEqual(sorted(nd._internal._sample_unique_zipfian(4, shape=(1, 4))[0].asnumpy()[0]), [0, 1, 2, 3])
        with self.assertRaisesRegex(mx.MXNetError, "cannot exceed the number of possible classes"):
            nd._internal._sample_unique_zipfian(4, shape=(1, 5))


class RuntimeTest(unittest.TestCase):
    def test_features_have_mxnets_names(self):
        features = mx.runtime.Features()
        self.assertIs(features, mx.runtime.Features())
        self.assertEqual(list(features), [feature.name for feature in mx.runtime.feature_list()])
        self.assertEqual(len(features), 32)
        self.assertEqual(features.is_enabled("cuda"), mx.num_gpus() > 0)
        self.assertFalse(features["TENSORRT"].enabled)
        self.assertIn("✔ LAPACK, ✔ MKLDNN", str(features))
        with self.assertRaisesRegex(RuntimeError, "Feature 'TPU' is unknown"):
            features.is_enabled("TPU")


class ControlFlowTest(ArrayCase):
    def test_a_function_of_each_slice(self):
        data, start = nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([10, 20])
        data.attach_grad()
        with autograd.record():
            (sums, (doubled,)), state = nd.contrib.foreach(lambda x, s: ((x + s, [x * 2]), x + s), data, start)
        sums.backward()
        self.assert_equal(sums, [[11, 22], [14, 26], [19, 32]])
        self.assert_equal(doubled, data.asnumpy() * 2)
        self.assert_equal(state, [19, 32])
        self.assert_equal(data.grad, [[3, 3], [2, 2], [1, 1]])
        pairs, states = nd.contrib.foreach(lambda xs, s: (xs[0] - xs[1], s), [data, data], [])
        self.assert_equal(pairs, np.zeros((3, 2)))
        self.assertEqual(states, [])
        with self.assertRaisesRegex(AssertionError, "data should be an NDArray or a nested list"):
            nd.contrib.foreach(lambda x, s: (x, s), [1, 2], start)

    def test_a_loop_with_a_condition(self):
        loop = lambda most: nd.contrib.while_loop(
            lambda i, s: i <= 5,
            lambda i, s: ([i + s], [i + 1, s + i]),
            (nd.array([0], dtype="int64"), nd.array([1], dtype="int64")),
            most,
        )
        (outputs,), (i, s) = loop(8)
        self.assert_equal(outputs, [[1], [2], [4], [7], [11], [16], [0], [0]], np.int64)
        self.assertEqual((i.asscalar(), s.asscalar()), (6, 16))
        self.assert_equal(loop(2)[0][0], [[1], [2]], np.int64)
        self.assertEqual(nd.contrib.while_loop(lambda i: i < 3, lambda i: (None, i + 1), nd.zeros(1), 9)[1].asscalar(), 3)
        self.assertEqual(nd.contrib.while_loop(lambda i: i < 0, lambda i: (i, i), nd.zeros(1), 9)[0], [])
        with self.assertRaisesRegex(ValueError, "max_iterations should be specified"):
            loop(None)
        with self.assertRaisesRegex(ValueError, "length of loop_vars"):
            nd.contrib.while_loop(lambda i: i < 3, lambda i: (i, [i, i]), nd.zeros(1), 9)

    def test_a_branch(self):
        a, b = nd.array([1]), nd.array([2])
        self.assert_equal(nd.contrib.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: (a - 5) * (b - 5)), [42])
        self.assert_equal(nd.contrib.cond(a > b, lambda: a, lambda: b), [2])


class LinalgTest(ArrayCase):
    def test_products_with_factors(self):
        a, b, c = np.arange(6.0).reshape(2, 3), np.ones((3, 2)), np.eye(2)
        expected = 2 * a @ b + 3 * c
        self.assert_equal(nd.linalg.gemm(*map(nd.array, (a, b, c)), alpha=2, beta=3), expected)
        names = [mx.sym.Variable(name) for name in "abc"]
        symbol = mx.sym.linalg.gemm(*names, alpha=2, beta=3)
        self.assert_equal(symbol.eval(**dict(zip("abc", map(nd.array, (a, b, c)))))[0], expected)
        self.assert_equal(nd.linalg.syrk(nd.array(a)), a @ a.T)
        self.assert_equal(nd.linalg.syrk(nd.array(a), transpose=True, alpha=2), 2 * a.T @ a)


class ImageTest(ArrayCase):
    def setUp(self):
        self.pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        self.image = nd.array(self.pixels, dtype="uint8")

    def test_a_tensor_has_channels_first_and_numbers_to_one(self):
        tensor = nd.image.to_tensor(self.image)
        self.assert_close(tensor, self.pixels.transpose(2, 0, 1) / 255)
        self.assert_close(nd.image.to_tensor(nd.stack(self.image, self.image))[1], self.pixels.transpose(2, 0, 1) / 255)
        means, deviations = np.array([0, 1, 2.0]), np.array([3, 2, 1.0])
        self.assert_close(
            nd.image.normalize(tensor, tuple(means), tuple(deviations)),
            (tensor.asnumpy() - means[:, None, None]) / deviations[:, None, None],
        )

    def test_parts_and_mirror_images(self):
        self.assert_equal(nd.image.crop(self.image, 1, 0, 2, 1), self.pixels[:1, 1:3], np.uint8)
        self.assert_equal(nd.image.flip_left_right(self.image), self.pixels[:, ::-1])
        self.assert_equal(nd.image.flip_top_bottom(self.image), self.pixels[::-1])
        for function, mirrored in (
            (nd.image.random_flip_left_right, self.pixels[:, ::-1]),
            (nd.image.random_flip_top_bottom, self.pixels[::-1]),
        ):
            self.assert_equal(function(self.image, p=1), mirrored)
            self.assert_equal(function(self.image, p=0), self.pixels)
        with self.assertRaisesRegex(mx.base.WrongShape, "leaves the image"):
            nd.image.crop(self.image, 3, 0, 2, 1)


class OrderTest(ArrayCase):
    def test_parameters_of_an_optimizers_step_by_position(self):
        w, g, m = nd.ones(1), nd.ones(1), nd.ones(1)
        nd.sgd_mom_update(w, g, m, 0.1, 0.5, out=w)  # Learning rate, momentum.
        self.assert_close(w, [1 + 0.5 - 0.1])

    def test_pooling(self):
        for pool in (
            gluon.nn.AvgPool2D(2, 2, 0, True),
            gluon.nn.MaxPool3D(2, 2, 0, True),
            gluon.nn.MaxPool2D(2, 2, 0, "NCHW", True),
            gluon.nn.AvgPool1D(2, 2, 0, "NCW", True),
        ):
            self.assertIn("ceil_mode=True", repr(pool))

    def test_names_of_arguments(self):
        self.assert_equal(nd.power(base=nd.array([2]), exp=3), [8])
        self.assert_equal(nd.reshape_like(lhs=nd.arange(4), rhs=nd.zeros((2, 2))), [[0, 1], [2, 3]])


class ModulesTest(unittest.TestCase):
    def test_modules_that_are_not_here_say_what_to_use(self):
        for module, name, hint in (
            (mx.io, "ImageDetRecordIter", "mx.image.ImageDetIter"),
            (mx, "np", "mx.nd.NDArray"),
            (mx, "profiler", "Timing"),
            (gluon.contrib, "estimator", "Progress"),
            (nd, "sparse", "dense"),
            (nd, "np", "NDArray"),
            (nd.contrib, "np", "NDArray"),
            (mx.sym, "np", "NDArray"),
            (mx.sym.contrib, "np", "NDArray"),
            (nd.op, "np", "NDArray"),
            (nd._internal, "np", "NDArray"),
            (mx.model, "FeedForward", "mx.mod.Module"),
        ):
            with self.subTest(module=module.__name__, name=name):
                with self.assertRaisesRegex(AttributeError, f"'{name}'.*{hint}"):
                    getattr(module, name)
                self.assertFalse(hasattr(module, name))
                self.assertIsNone(getattr(module, name, None))
        for module in (mx, gluon, gluon.contrib, gluon.nn, gluon.data, nd, nd.contrib, mx.sym, mx.sym.linalg, mx.util):
            with self.assertRaisesRegex(AttributeError, "has no attribute 'nothing'$"):
                module.nothing

    def test_imports_of_modules_that_are_not_here_say_it_too(self):
        for statement, missing, hint in (
            ("import gluond.profiler", "gluond.profiler", "Timing"),
            ("import gluond.numpy", "gluond.numpy", "NDArray"),
            ("import gluond.np.random", "gluond.np", "NDArray"),
            ("import gluond.contrib.onnx", "gluond.contrib.onnx", "net.export"),
            ("from gluond.numpy.linalg import norm", "gluond.numpy", "NDArray"),
            ("from gluond.gluon.contrib.estimator import Estimator", "gluond.gluon.contrib.estimator", "Progress"),
        ):
            with self.subTest(statement):
                with self.assertRaisesRegex(ModuleNotFoundError, f"No module.*not part of gluond; .*{hint}") as caught:
                    exec(statement, {})
                self.assertEqual(caught.exception.name, missing)
        for statement, package, hint in (
            ("from gluond import profiler", "gluond", "Timing"),
            ("from gluond import np, npx", "gluond", "NDArray"),
            ("from gluond.contrib import onnx", "gluond.contrib", "net.export"),
            ("from gluond.ndarray import sparse", "gluond.ndarray", "dense"),
        ):
            with self.subTest(statement):
                with self.assertRaisesRegex(ImportError, f"cannot import name.*not part of gluond; .*{hint}") as caught:
                    exec(statement, {})
                self.assertIs(type(caught.exception), ImportError)
                self.assertEqual(caught.exception.name, package)
        with self.assertRaisesRegex(ImportError, "nothing"):
            exec("from gluond import nothing", {})
        self.assertIsNone(importlib.util.find_spec("gluond.numpy"))

    def test_names_that_libraries_take_from_modules_that_only_use_them(self):
        from gluond.gluon.block import _flatten
        from gluond.metric import ndarray

        self.assertIs(ndarray, nd)
        x, y = nd.ones(1), nd.zeros(2)
        flat, form = _flatten([x, (y, [x])], "input")
        self.assertEqual([id(each) for each in flat], [id(x), id(y), id(x)])
        self.assertTrue(form)

    def test_numpy_s_way_is_off_and_refused_where_it_is_used(self):
        self.assertFalse(mx.is_np_array() or mx.util.is_np_array())
        with mx.util.np_array(False):
            mx.util.reset_np()

        @mx.use_np
        class Net(gluon.HybridBlock):
            """A class of a library that is imported for something else."""

        @mx.util.use_np_array
        def array():
            """Likewise."""

        self.assertTrue(issubclass(Net, gluon.HybridBlock))
        self.assertEqual((array.__name__, array.__doc__), ("array", "Likewise."))
        for use in (Net, array, mx.util.set_np, mx.np_array().__enter__):
            with self.assertRaisesRegex(NotImplementedError, "write with mx.nd"):
                use()
        with self.assertRaisesRegex(TypeError, "not a int"):
            mx.use_np(3)

    def test_numpy_s_shapes(self):
        found = []

        @mx.util.use_np_shape
        class Shapes:
            """Which notes the mode that its code is in."""

            def __init__(self):
                found.append(mx.is_np_shape())

            @staticmethod
            def made():
                """An array of no elements."""
                return mx.nd.ones((0, 2))

            @property
            def on(self):
                """The mode."""
                return mx.is_np_shape()

        with mx.np_shape():
            self.assertTrue(mx.util.is_np_shape())
            with mx.np_shape(False):
                self.assertFalse(mx.is_np_shape())
            worker = threading.Thread(target=lambda: found.append(mx.is_np_shape()))
            worker.start()
            worker.join()
            one = mx.nd.ones(()) * 3
            self.assertEqual((one.shape, one.asscalar()), ((), 3))
        self.assertTrue(Shapes().on)
        self.assertEqual(Shapes.made().shape, (0, 2))
        self.assertEqual(found, [False, True])
        self.assertEqual((mx.set_np_shape(True), mx.set_np_shape(False), mx.is_np_shape()), (False, True, False))

    def test_the_scope_in_charge(self):
        with mx.name.Prefix("a_"):
            self.assertEqual(mx.name.NameManager.current.get("x", ""), "a_x")
        with mx.AttrScope(group="1"):
            self.assertEqual(mx.AttrScope.current.get(None), {"group": "1"})
        with mx.cpu(1):
            self.assertEqual(mx.Context.default_ctx, mx.cpu(1))

    def test_an_array_that_was_pickled_before_its_function_moved(self):
        values = pickle.dumps((np.ones(2, np.float32), mx.cpu()), 0)
        x = pickle.loads(b"cgluond.ndarray._transfer\nrestore\n" + values[:-1] + b"R.")
        self.assertEqual(x.asnumpy().tolist(), [1, 1])

    def test_names_that_programs_take_from_everywhere(self):
        from gluond.base import data_dir, mx_real_t, py_str

        self.assertEqual((mx_real_t, py_str(b"x"), py_str("x")), (np.float32, "x", "x"))
        with mx.test_utils.environment("MXNET_HOME", "/data"):
            self.assertEqual(data_dir(), "/data")
        with mx.test_utils.environment("MXNET_HOME", None):
            self.assertEqual(data_dir(), os.path.expanduser("~/.mxnet"))
        with tempfile.TemporaryDirectory() as folder:
            one, other = (os.path.join(folder, name) for name in "ab")
            for path in (one, other):
                with open(path, "w") as file:
                    file.write(path)
            gluon.utils.replace_file(one, other)
            self.assertEqual(os.listdir(folder), ["b"])
        self.assertIs(mx.contrib.nd, nd.contrib)

    def test_a_dtype_that_mxnet_ignores(self):
        x = nd.array([1, 2])
        for function, value in ((nd.zeros_like, 0), (nd.ones_like, 1)):
            for dtype in ("int32", None, np.float64):
                out = function(x, dtype=dtype)
                self.assertEqual((out.dtype, out.asnumpy().tolist()), (np.float32, [value] * 2))
        self.assertEqual(mx.sym.ones_like(mx.sym.var("x"), dtype="int32").eval(x=x)[0].dtype, np.float32)

    def test_other_names(self):
        self.assertIs(gluon.rnn.rnn_cell.LSTMCell, gluon.rnn.LSTMCell)
        self.assertIs(gluon.rnn.rnn_layer.GRU, gluon.rnn.GRU)
        from gluond.ndarray.ndarray import NDArray
        from gluond.optimizer.optimizer import SGD

        self.assertEqual((NDArray, SGD), (nd.NDArray, mx.optimizer.SGD))
        self.assertFalse(mx.is_np_array() or mx.is_np_shape())

    def test_mnist_from_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for part, count in (("train", 2), ("t10k", 1)):
                for name, head in (
                    ("images-idx3", [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28]),
                    ("labels-idx1", [0, 0, 8, 1, 0, 0, 0, count]),
                ):
                    with open(os.path.join(folder, f"{part}-{name}-ubyte"), "wb") as file:
                        file.write(bytes(head) + b"\xff" * count * (784 if name == "images-idx3" else 1))
            found = mx.test_utils.get_mnist(folder)
        self.assertEqual(found["train_data"].shape, (2, 1, 28, 28))
        self.assertEqual(found["train_data"].max(), 1)
        self.assertEqual(found["test_label"].tolist(), [255])


if __name__ == "__main__":
    case_runner.main()
