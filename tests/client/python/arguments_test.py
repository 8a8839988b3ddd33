"""Arguments that are accepted do something, or a warning names them once."""

import unittest
import warnings
from unittest import mock

import gluond as mx
import numpy as np
from gluond import _attributes, autograd, gluon, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def embedded(optimizer, sparse_grad, steps=((0, 1), (1, 1), (2, 0)), **parameters):
    """The weights of an Embedding after steps on these indices."""
    net = gluon.nn.Embedding(4, 2, sparse_grad=sparse_grad)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, "wd": 0.5, **parameters})
    for indices in steps:
        with autograd.record():
            loss = (net(nd.array(indices)) * nd.array([[1, 2], [3, 4]])).sum()
        loss.backward()
        trainer.step(1)
    return net.weight.data()


class SparseGradTest(ArrayCase):
    def test_rows_that_no_batch_names_stay_as_in_mxnet(self):
        for optimizer, parameters, expected in (
            ("sgd", {}, [[0.5075, 0.3125], [0.2175, -0.0775], [0.85, 0.75], [1, 1]]),
            ("sgd", {"momentum": 0.9}, [[0.3725, 0.0875], [-0.0975, -0.4825], [0.85, 0.75], [1, 1]]),
            ("adam", {}, [[0.81848, 0.81613], [0.80009, 0.80063], [0.93612, 0.93612], [1, 1]]),
            ("lars", {"momentum": 0.9}, [[0.99974, 0.99962], [0.99958, 0.99944], [0.99994, 0.9999], [1, 1]]),
        ):
            with self.subTest(optimizer, **parameters):
                self.assert_close(embedded(optimizer, True, **parameters), expected, 2e-5)

    def test_without_lazy_update_and_for_other_optimizers_all_rows_are_updated(self):
        for optimizer, parameters in (
            ("sgd", {"momentum": 0.9, "lazy_update": False}),
            ("adam", {"lazy_update": False}),
            ("nag", {"momentum": 0.9}),
            ("rmsprop", {}),
            ("adagrad", {}),
            ("signum", {}),
        ):
            with self.subTest(optimizer, **parameters):
                dense = embedded(optimizer, False, **parameters)
                self.assert_equal(embedded(optimizer, True, **parameters), dense.asnumpy())
                self.assertLess(dense[3, 0].asscalar(), 1)

    def test_half_precision_has_its_rows_left_alone_too(self):
        net = gluon.nn.Embedding(3, 2, sparse_grad=True)
        net.initialize(mx.init.One())
        net.cast("float16")
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "wd": 0.5, "multi_precision": True})
        with autograd.record():
            loss = net(nd.array([1])).sum()
        loss.backward()
        trainer.step(1)
        self.assert_equal(net.weight.data(), [[1, 1], [0.25, 0.25], [1, 1]])


class WarningTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(_attributes, "_given", set())
        patch.start()
        self.addCleanup(patch.stop)

    def test_an_argument_that_changes_nothing_is_named_once_where_it_is_given(self):
        x = mx.sym.var("x")
        for name, call in (
            ("sparse_grad=True", lambda: nd.Embedding(nd.zeros(1), nd.zeros((2, 2)), input_dim=2, output_dim=2, sparse_grad=True)),
            ("sparse_grad=True", lambda: mx.sym.Embedding(x, input_dim=2, output_dim=2, sparse_grad=True)),
            ("dtype=int32", lambda: nd.ones_like(nd.zeros(2), dtype="int32")),
            ("axis=1", lambda: nd.zeros(2).relu(axis=1)),
            ("axis=1", lambda: mx.sym.relu(x, axis=1)),
            ("stype='row_sparse'", lambda: nd.zeros((2, 2), stype="row_sparse")),
            ("stype='csr'", lambda: nd.empty((2, 2), stype="csr")),
            ("group2ctx", lambda: x.bind(mx.cpu(), [nd.zeros(1)], group2ctx={"a": mx.cpu()})),
            ("group2ctx", lambda: x.simple_bind(mx.cpu(), x=(1,), group2ctx={"a": mx.cpu()})),
            ("group2ctxs", lambda: mx.mod.Module(x, ["x"], None, group2ctxs={"a": mx.cpu()})),
            ("ctx=cpu", lambda: mx.random.seed(1, ctx=mx.cpu())),
        ):
            with self.subTest(name):
                _attributes._given.clear()
                with self.assertWarnsRegex(UserWarning, name) as caught:
                    call()
                self.assertEqual(caught.filename, __file__)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    call()

    def test_the_default_is_no_reason_to_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nd.Embedding(nd.zeros(1), nd.zeros((2, 2)), input_dim=2, output_dim=2, sparse_grad=False)
            nd.zeros((2, 2), stype="default")
            mx.random.seed(1)

    def test_unknown_arguments_are_refused(self):
        for call in (
            lambda: nd.zeros(2, shap=3),
            lambda: nd.ones(2, dtyp="int32"),
            lambda: nd.eye(2, n=3),
            lambda: nd.random.uniform(0, 1, shp=(2,)),
            lambda: mx.random.normal(scal=2),
            lambda: nd.random.shuffle(nd.ones(2), x=1),
        ):
            with self.assertRaises(TypeError):
                call()
        self.assertEqual(nd.zeros(2, name="zeros").shape, (2,))


if __name__ == "__main__":
    case_runner.main()
