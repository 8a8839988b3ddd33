"""The names of MXNet 1.9.1's modules: each is here, or its error says what to use; what `nd` has, `sym` has."""

import importlib
import pickle
import sys
import unittest
import warnings

import gluond as mx
import numpy as np
from gluond import _attributes, autograd, gluon, nd
from gluond._composed.shapes import NoGraph
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.mxnet_names import NAMES, OF_LIBRARIES


def module(path):
    return importlib.import_module(
        f"gluond.{path.replace('sym', 'symbol', 1) if path.startswith('sym') else path.replace('nd', 'ndarray', 1)}"
    )


class NamesTest(ArrayCase):
    def test_each_name_of_mxnet_is_here_or_its_error_says_what_to_use(self):
        for path, names in NAMES.items():
            for name in names:
                with self.subTest(f"{path}.{name}"):
                    try:
                        getattr(module(path), name)
                    except AttributeError as error:
                        self.assertRegex(str(error), f"has no attribute '{name}': it is not part of gluond; .{{10}}")

    def test_what_nd_has_sym_has(self):
        for path in ("nd", "nd.contrib", "nd.image", "nd.linalg", "nd.random"):
            other = "sym" + path[2:]
            lacking = [name for name in NAMES[other] if hasattr(module(path), name) and not hasattr(module(other), name)]
            self.assertEqual(lacking, [], path)

    def test_a_misspelt_name_gets_the_closest_ones(self):
        with self.assertRaisesRegex(AttributeError, "did you mean 'BatchNorm'"):
            nd.BatchNrm
        for wrong, close in (
            (lambda: mx.optimizer.Adm, "Adam"),
            (lambda: gluon.nn.Dens, "Dense"),
            (lambda: mx.metric.Acuracy, "Accuracy"),
            (lambda: mx.image.imresiz, "imresize"),
            (lambda: gluon.data.vision.MNIS, "MNIST"),
            (lambda: mx.gluo, "gluon"),
            (lambda: mx.lr_scheduler.FactorSchedulr, "FactorScheduler"),
            (lambda: gluon.loss.L1los, "L1Loss"),
            (lambda: mx.callback.Speedmeter, "Speedometer"),
            (lambda: mx.kv.KVStor, "KVStore"),
        ):
            with self.assertRaisesRegex(AttributeError, f"did you mean '{close}'"):
                wrong()

    def test_classes_of_other_modules_that_are_not_here_say_what_to_use(self):
        for absent in (
            lambda: mx.optimizer.LBSGD,
            lambda: mx.io.MXDataIter,
            lambda: mx.profiler,
            lambda: mx.contrib.hawkesll,
            lambda: mx.contrib.onnx,
            lambda: mx.contrib.quantization,
            lambda: mx.contrib.tensorboard,
            lambda: mx.np,
            lambda: gluon.contrib.estimator,
            lambda: mx.nd.sparse,
            lambda: gluon.data.batchify,
            lambda: mx.kvstore.KVStoreServer,
            lambda: gluon.contrib.data.WikiText2,
        ):
            with self.assertRaisesRegex(AttributeError, "it is not part of gluond; .{10}"):
                absent()

    def test_an_import_of_a_name_that_is_not_here_says_it_as_well(self):
        for module, name in (
            ("ndarray.contrib", "Proposal"),
            ("symbol", "IdentityAttachKLSparseReg"),
            ("ndarray.linalg", "syevd"),
            ("base", "_LIB"),
            ("model", "FeedForward"),
            ("optimizer", "LBSGD"),
            ("contrib", "onnx"),
        ):
            with self.assertRaisesRegex(
                ImportError, f"cannot import name '{name}' from 'gluond.{module}': it is not part of gluond; .{{10}}"
            ):
                exec(f"from gluond.{module} import {name}", {})
            self.assertFalse(hasattr(importlib.import_module(f"gluond.{module}"), name))
        with self.assertRaisesRegex(ImportError, "did you mean 'FactorScheduler'"):
            exec("from gluond.lr_scheduler import FactorSchedulr", {})

    def test_each_name_that_libraries_import_is_where_mxnet_has_it(self):
        for path, names in OF_LIBRARIES.items():
            for name in names.split():
                with self.subTest(f"{path}.{name}"):
                    exec(f"from {module(path).__name__} import {name}", {})

    def test_a_private_name_that_is_not_here_says_so_in_each_module(self):
        paths = [path for path in sys.modules if path.partition(".")[0] == "gluond" and "._" not in path]
        self.assertGreater(len(paths), 70)
        for path in paths:
            with self.subTest(path):
                with self.assertRaisesRegex(AttributeError, "has no attribute '_of_mxnet': it is not part of gluond; .{10}"):
                    sys.modules[path]._of_mxnet
                with self.assertRaisesRegex(
                    ImportError, "cannot import name '_of_mxnet' from 'gluond.*': it is not part of gluond; .{10}"
                ):
                    exec(f"from {path} import _of_mxnet", {})

    def test_special_private_names_say_what_to_use(self):
        for path, name, says in (
            ("gluon.data.dataloader", "_worker_fn", "num_workers"),
            ("gluon.data.dataloader", "worker_loop", "num_workers"),
            ("base", "ctypes2buffer", "the server computes"),
            ("initializer", "_INITIALIZER_REGISTRY", "mx.init.register"),
        ):
            with self.assertRaisesRegex(AttributeError, f"it is not part of gluond; .*{says}"):
                getattr(module(path), name)

    def test_a_file_of_mxnet_s_that_is_not_here_says_what_to_use(self):
        for path in (
            "executor_manager",
            "nd.register",
            "contrib.amp.loss_scaler",
            "storage",
            "error",
            "_ctypes.ndarray",
            "sym.gen_op",
            "gluon.contrib.data.text",
        ):
            with self.assertRaisesRegex(ImportError, "No module named 'gluond.*: it is not part of gluond; .{10}"):
                module(path)

    def test_a_name_of_another_module_says_which(self):
        for wrong, right in (
            (lambda: mx.Trainer, "gluond.gluon.Trainer"),
            (lambda: nd.cpu, "gluond.cpu"),
            (lambda: gluon.nn.L2Loss, "gluond.gluon.loss.L2Loss"),
            (lambda: mx.sym.random.numeric_types, "gluond.base.numeric_types"),
            (lambda: mx.LSTM, "gluond.gluon.rnn.LSTM"),
        ):
            with self.assertRaisesRegex(AttributeError, f": use {right}$"):
                wrong()

    def test_what_a_module_lacks_python_asks_for_without_a_sentence(self):
        for module in (mx, nd, gluon.nn, mx.lr_scheduler):
            with self.assertRaisesRegex(AttributeError, "has no attribute '__wrapped__'$"):
                module.__wrapped__


class HybridTest(ArrayCase):
    """A Block gives the same whether it is hybridized or not."""

    def check(self, forward, *inputs):
        class Net(gluon.HybridBlock):
            def hybrid_forward(self, F, *args):
                return forward(F, *args)

        net = Net()
        plain = net(*inputs)
        net.hybridize()
        self.assert_close(net(*inputs), plain.asnumpy())
        return net

    def test_operators_on_images(self):
        for image in (nd.array(np.arange(60).reshape(5, 4, 3), dtype="uint8"), nd.array(np.arange(120).reshape(2, 5, 4, 3))):
            net = self.check(lambda F, x: F.image.normalize(F.image.to_tensor(x), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)), image)
            self.assertTrue(net._active)
            self.check(lambda F, x: F.image.normalize(F.image.to_tensor(x), mean=0.5, std=0.5), image)
            for change in (
                lambda F, x: F.image.crop(x, 1, 2, 3, 2),
                lambda F, x: F.image.flip_left_right(x),
                lambda F, x: F.image.flip_top_bottom(x),
                lambda F, x: F.image.random_flip_left_right(x, p=1.0),
                lambda F, x: F.image.random_flip_top_bottom(x, p=0.0),
            ):
                self.check(change, image)

    def test_what_no_graph_computes_runs_operator_by_operator(self):
        net = self.check(
            lambda F, x, mask: F.contrib.boolean_mask(x * 2, mask).sum(), nd.arange(6).reshape((3, 2)), nd.array([1, 0, 1])
        )
        self.assertFalse(net._active)
        for refused in (mx.sym._internal._sample_unique_zipfian, mx.sym.contrib.adamw_update):
            with self.assertRaisesRegex(NoGraph, "runs on arrays"):
                refused(mx.sym.var("x"), 1, 2)

    def test_attention_of_interleaved_projections(self):
        queries = nd.array(np.arange(48).reshape(2, 3, 8) / 10)
        keys_values = nd.array(np.arange(192).reshape(4, 3, 16) / 50)
        scores = nd.contrib.interleaved_matmul_encdec_qk(queries, keys_values, heads=2)
        self.assertEqual(scores.shape, (6, 2, 4))
        self.assert_close(scores[0, 0], [0.014, 0.302, 0.59, 0.878])  # As MXNet has them.
        values = nd.contrib.interleaved_matmul_encdec_valatt(keys_values, scores, heads=2)
        self.assertEqual(values.shape, (2, 3, 8))
        self.assert_close(values[0, 0, :4], [4.09408, 4.12976, 4.16544, 4.20112])
        self.check(
            lambda F, q, kv: F.contrib.interleaved_matmul_encdec_valatt(
                kv, F.softmax(F.contrib.interleaved_matmul_encdec_qk(q, kv, heads=2)), heads=2
            ),
            queries,
            keys_values,
        )

    def test_closeness(self):
        x = nd.array([1, np.nan, np.inf])
        for other, how, expected in (
            (x, {}, 1),
            (x, {"equal_nan": False}, 0),
            (nd.array([1.1, np.nan, np.inf]), {}, 0),
            (nd.array([1.1, np.nan, np.inf]), {"rtol": 0.2}, 1),
        ):
            self.assert_equal(nd.contrib.allclose(x, other, **how), [expected])
        self.check(lambda F, a, b: F.contrib.allclose(a, b), x, x)

    def test_storage_is_dense(self):
        x = nd.array([1, 2])
        self.assert_equal(nd.cast_storage(x, "default"), [1, 2])
        copied = x.tostype("default")
        copied[:] = 5
        self.assert_equal(x, [1, 2])
        self.check(lambda F, a: F.cast_storage(a, stype="default"), x)

    def test_another_storage_than_the_dense_one_is_named_by_a_warning(self):
        x = nd.array([1, 2])
        for ask, what in (
            (lambda: nd.cast_storage(x, "csr"), "cast_storage"),
            (lambda: x.tostype("row_sparse"), "tostype"),
            (lambda: x.attach_grad(stype="row_sparse"), "attach_grad"),
            (lambda: mx.sym.var("w", stype="row_sparse"), "Variable 'w'"),
            (lambda: gluon.Parameter("w", shape=(2,), stype="csr"), "Parameter 'w'"),
            (lambda: mx.test_utils.rand_ndarray((2, 2), "csr"), "rand_ndarray"),
        ):
            _attributes._given.clear()
            with self.assertWarnsRegex(UserWarning, f"{what}: the array is dense, though stype=") as caught:
                ask()
            self.assertEqual(caught.filename, __file__)
        rows = gluon.Parameter("w", shape=(3, 1), stype="row_sparse", init="ones")
        rows.initialize()
        self.assert_equal(rows.row_sparse_data(nd.array([1])), [[1], [1], [1]])

    def test_batches_are_normalized_on_one_device(self):
        x, ones, zeros = nd.array([[1, 2], [3, 4]]), nd.ones(2), nd.zeros(2)
        self.assert_close(nd.contrib.SyncBatchNorm(x, ones, zeros, zeros, ones, key="a", eps=1e-3), x.asnumpy() / np.sqrt(1.001))
        out = mx.sym.contrib.SyncBatchNorm(mx.sym.var("x"), key="a", ndev=1, name="bn")
        self.assertEqual(out.list_arguments(), ["x", "bn_gamma", "bn_beta"])
        with self.assertRaisesRegex(mx.MXNetError, "ndev is 2"):
            nd.contrib.SyncBatchNorm(x, ones, zeros, zeros, ones, key="a", ndev=2)


class AdamWTest(ArrayCase):
    def test_a_step_is_mxnet_s(self):
        weight, grad, mean, var = (nd.array([1, 2, 3]) * factor for factor in (1, 0.5, 0.1, 0.2))
        nd.contrib.adamw_update(weight, grad, mean, var, nd.array([0.5]), lr=0.1, eta=0.9, wd=0.01, clip_gradient=0.6)
        self.assert_close(weight, [0.9678487, 1.9492643, 2.9346497])
        self.assert_close(mean, [0.115, 0.23, 0.33])
        self.assert_close(var, [0.1998625, 0.39985, 0.59976])

    def test_a_scale_that_is_no_number_or_0_changes_nothing(self):
        for scale in (np.nan, np.inf, 0):
            arrays = [nd.array([1, 2]) for _ in range(4)]
            nd.contrib.adamw_update(*arrays, nd.array([scale]), lr=0.1, eta=1)
            for array in arrays:
                self.assert_equal(array, [1, 2])

    def test_several_weights_of_half_precision(self):
        weights, grads = [nd.ones(2, dtype="float16") for _ in range(2)], [nd.ones(2, dtype="float16") for _ in range(2)]
        mean, var, copies = ([make(2) for _ in range(2)] for make in (nd.zeros, nd.zeros, nd.ones))
        nd.contrib.multi_mp_adamw_update(
            weights, grads, mean, var, copies, 1.0, lrs=[0.1, 0.2], wds=[0, 0], etas=[1, 1], out=weights
        )
        self.assert_close(copies[0], 1 - 0.1 * 0.1 / np.sqrt([0.001, 0.001]), 1e-4)
        self.assertEqual(weights[1].dtype, np.float16)
        self.assert_close(weights[1], copies[1].asnumpy(), 1e-3)


class LibrariesTest(ArrayCase):
    """What libraries import by private names."""

    def test_the_version_is_mxnet_s_and_the_package_s_own(self):
        self.assertRegex(mx.__version__, r"^1\.9\.1\+gluond\d+\.\d+\.\d+$")

    def test_own_classes_by_their_names(self):
        class Shape:
            def __init__(self, size=1):
                self.size = size

        class Circle(Shape):
            pass

        register, create = mx.registry.get_register_func(Shape, "shape"), mx.registry.get_create_func(Shape, "shape")
        register(Circle)
        mx.registry.get_alias_func(Shape, "shape")("round", "ball")(Circle)
        self.assertEqual(sorted(mx.registry.get_registry(Shape)), ["ball", "circle", "round"])
        for made in (
            create("CIRCLE", size=3),
            create("ball", 3),
            create(shape="circle", size=3),
            create({"shape": "circle", "size": 3}),
            create('["circle", {"size": 3}]'),
            create('{"shape": "circle", "size": 3}'),
            create(Circle(3)),
        ):
            self.assertEqual((type(made), made.size), (Circle, 3))
        with self.assertRaisesRegex(AssertionError, "Cannot find shape sqare"):
            create("sqare")
        with self.assertRaisesRegex(AssertionError, "Can only register subclass of Shape"):
            register(int)
        with self.assertWarnsRegex(UserWarning, "overriding existing shape") as caught:
            register(type("Circle", (Shape,), {}))
        self.assertEqual(caught.filename, __file__)

    def test_names_are_where_libraries_import_them(self):
        self.assertIs(nd.ndarray.NDArray, nd.NDArray)
        self.assertIn("resnet18_v1", gluon.model_zoo.model_store._model_sha1)
        self.assertEqual(gluon.utils._get_repo_file_url("models", "a.zip"), gluon.utils._get_repo_url() + "models/a.zip")
        loader = gluon.data.dataloader
        self.assertEqual(loader._as_in_context([nd.ones(1), 2], mx.cpu(1))[0].context, mx.cpu(1))
        self.assertEqual(pickle.loads(loader.ForkingPickler.dumps([1])), [1])
        self.assertTrue(issubclass(gluon.contrib.nn.SyncBatchNorm, nn.BatchNorm))

    def test_what_libraries_import_and_cannot_use_says_so_when_it_is_called(self):
        for call, says in (
            (mx.contrib.amp.amp.init, r"net.cast\('float16'\)"),
            (mx.contrib.amp.init_trainer, "multi_precision"),
            (gluon.data.dataloader._MultiWorkerIter, r"iter\(DataLoader"),
        ):
            with self.assertRaisesRegex(mx.MXNetError, says):
                call()

    def test_a_trainer_begins_anew_with_another_optimizer(self):
        net = nn.Dense(1, in_units=1, use_bias=False)
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 100.0})
        trainer._init_optimizer("sgd", {"learning_rate": 0.5})
        with autograd.record():
            loss = net(nd.ones((1, 1)))
        loss.backward()
        trainer.step(1)
        self.assert_equal(net.weight.data(), [[0.5]])


if __name__ == "__main__":
    case_runner.main()
