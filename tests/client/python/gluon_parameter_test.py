"""Parameters, Constants and ParameterDicts."""

import unittest

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def ready(name="w", shape=(2, 3), **kwargs):
    p = gluon.Parameter(name, shape=shape, **kwargs)
    p.initialize(mx.init.One())
    return p


class ParameterTest(ArrayCase):
    def test_it_prints_as_in_mxnet(self):
        self.assertEqual(repr(gluon.Parameter("w", shape=(3, 0))), "Parameter w (shape=(3, 0), dtype=<class 'numpy.float32'>)")
        self.assertEqual(repr(gluon.Constant("c", [1, 2])), "Constant c (shape=(2,), dtype=<class 'numpy.float32'>)")

    def test_it_has_a_value_and_a_gradient(self):
        p = ready()
        self.assert_equal(p.data(), np.ones((2, 3)))
        self.assert_equal(p.grad(), np.zeros((2, 3)))
        with autograd.record():
            (p.data() * 3).sum().backward()
        self.assert_equal(p.grad(), np.full((2, 3), 3))
        p.zero_grad()
        self.assert_equal(p.grad(), np.zeros((2, 3)))

    def test_grad_req_says_what_backward_does(self):
        p = ready(shape=(1,), grad_req="add")
        for _ in range(2):
            with autograd.record():
                (p.data() * 3).backward()
        self.assert_equal(p.grad(), [6])
        p.grad_req = "null"
        with self.assertRaisesRegex(RuntimeError, "Cannot get gradient array for Parameter 'w' because grad_req='null'"):
            p.grad()
        p.grad_req = "write"
        for _ in range(2):
            with autograd.record():
                (p.data() * 3).backward()
        self.assert_equal(p.grad(), [3])
        with self.assertRaisesRegex(AssertionError, "grad_req must be one of"):
            p.grad_req = "sometimes"

    def test_not_differentiable_is_null_for_good(self):
        p = ready(differentiable=False)
        p.grad_req = "write"
        self.assertEqual(p.grad_req, "null")

    def test_the_shape_fills_what_is_unknown(self):
        p = gluon.Parameter("w", shape=(2, 0))
        p.shape = (2, 5)
        self.assertEqual(p.shape, (2, 5))
        with self.assertRaisesRegex(
            AssertionError, r"Parameter 'w': Expected shape \(3, 5\) is incompatible with given " r"shape \(2, 5\)"
        ):
            p.shape = (3, 5)

    def test_values_are_set_before_and_after_initialization(self):
        p = gluon.Parameter("w", shape=(2, 0), allow_deferred_init=True)
        with self.assertRaisesRegex(AssertionError, "Parameter 'w' has not been initialized"):
            p.set_data(nd.ones((2, 2)))
        p = gluon.Parameter("w", shape=(2, 0), allow_deferred_init=True)
        p.initialize()
        p.set_data(nd.array([[1, 2], [3, 4]]))
        self.assert_equal(p.data(), [[1, 2], [3, 4]])
        values = nd.zeros((2, 2))
        p.set_data(values)
        values[:] = 7
        self.assert_equal(p.data(), np.zeros((2, 2)))

    def test_a_second_initialization_is_refused_or_forced(self):
        p = ready()
        with self.assertWarnsRegex(UserWarning, "Parameter 'w' is already initialized, ignoring. Set force_reinit=True"):
            p.initialize(mx.init.Zero())
        self.assert_equal(p.data(), np.ones((2, 3)))
        p.initialize(mx.init.Zero(), force_reinit=True)
        self.assert_equal(p.data(), np.zeros((2, 3)))

    def test_it_casts(self):
        p = ready()
        p.cast("float64")
        self.assertEqual(p.data().dtype, np.float64)
        with autograd.record():
            (p.data() * 2).sum().backward()
        self.assert_equal(p.grad(), np.full((2, 3), 2), np.float64)

    def test_it_lives_on_several_contexts(self):
        p = gluon.Parameter("w", shape=(2,))
        p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
        self.assertEqual(p.list_ctx(), [mx.cpu(0), mx.cpu(1)])
        first, second = p.list_data()
        self.assert_equal(first, second.asnumpy())
        self.assertEqual(p.data(mx.cpu(1)).context, mx.cpu(1))
        self.assertEqual(len(p.list_grad()), 2)
        p.reset_ctx(mx.cpu(1))
        self.assertEqual(p.list_ctx(), [mx.cpu(1)])
        with self.assertRaisesRegex(
            RuntimeError, r"was not initialized on context cpu\(0\). It was only initialized on " r"\[cpu\(1\)\]"
        ):
            p.data(mx.cpu(0))

    def test_use_before_initialization(self):
        p = gluon.Parameter("w", shape=(2,))
        with self.assertRaisesRegex(RuntimeError, "Parameter 'w' has not been initialized. Note that you should initialize"):
            p.data()
        with self.assertRaisesRegex(RuntimeError, "Parameter 'w' has not been initialized"):
            p.list_ctx()
        with self.assertRaisesRegex(ValueError, r"Cannot initialize Parameter 'v' because it has invalid shape: \(0,\)"):
            gluon.Parameter("v", shape=(0,)).initialize()
        p = gluon.Parameter("w", shape=(0,), allow_deferred_init=True)
        p.initialize()
        for use in (p.data, p.grad, p.list_data, p.list_grad):
            with self.assertRaisesRegex(gluon.DeferredInitializationError, "initialization was deferred"):
                use()

    def test_its_variable_carries_what_it_is(self):
        attributes = gluon.Parameter("w", shape=(2, 0), lr_mult=2.0, init="zeros").var().list_attr()
        self.assertEqual(attributes["__shape__"], "(2, 0)")
        self.assertEqual(attributes["__lr_mult__"], "2.0")
        self.assertEqual(attributes["__init__"], "zeros")

    def test_no_dtype_is_float32(self):
        for data in (ready(dtype=None).data(), ready(dtype=np.float32).data()):
            self.assert_equal(data, np.ones((2, 3)), np.float32)
        params = gluon.ParameterDict()
        self.assertIs(params.get("w", shape=(2,), dtype=None), params.get("w", shape=(2,), dtype=None))

    def test_its_fields_can_be_another_s(self):
        for p in (gluon.Parameter("w", shape=(2, 3)), gluon.Parameter("w", shape=(0, 3), allow_deferred_init=True)):
            p.initialize(mx.init.One())
            q = gluon.Parameter("q", shape=(2, 3))
            for field in ("_deferred_init", "_data", "_grad", "_ctx_list", "_ctx_map", "_trainer"):
                setattr(q, field, getattr(p, field))
            self.assertEqual(q._deferred_init, p._deferred_init)
            q._finish_deferred_init()
            self.assert_equal(q.data(), np.ones((2, 3)))


class ConstantTest(ArrayCase):
    def test_training_leaves_it_alone(self):
        class Net(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                with self.name_scope():
                    self.c = self.params.get_constant("c", [[1, 2]])
                    self.w = self.params.get("w", shape=(1, 2), init="ones")

            def hybrid_forward(self, F, x, c, w):
                return x * c * w

        for hybrid in (False, True):
            net = Net()
            net.initialize()
            if hybrid:
                net.hybridize()
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
            with autograd.record():
                net(nd.array([[3, 4]])).sum().backward()
            trainer.step(1)
            self.assert_equal(net.c.data(), [[1, 2]])
            self.assert_equal(net.w.data(), [[-0.5, -3]])

    def test_its_grad_req_cannot_be_changed(self):
        c = gluon.Constant("c", np.array([1.5]))
        with self.assertWarnsRegex(UserWarning, 'Constant parameter "c" does not support grad_req other than "null"'):
            c.grad_req = "write"
        self.assertEqual(c.grad_req, "null")


class ParameterDictTest(ArrayCase):
    def test_get_makes_and_finds(self):
        d = gluon.ParameterDict("net_")
        w = d.get("w", shape=(2, 0))
        self.assertIs(d.get("w", shape=(0, 3), dtype="float32"), w)
        self.assertEqual(w.shape, (2, 3))
        self.assertEqual(list(d.keys()), ["net_w"])
        self.assertIn("net_w", d)
        for wrong in ({"shape": (2, 4)}, {"lr_mult": 3.0}, {"dtype": "float16"}):
            with self.assertRaisesRegex(
                AssertionError, "Cannot retrieve Parameter 'net_w' because desired attribute does " "not match"
            ):
                d.get("w", **wrong)

    def test_it_prints_as_in_mxnet(self):
        d = gluon.ParameterDict("net_")
        d.get("w", shape=(2,), dtype="float32")
        self.assertEqual(repr(d), "net_ (\n  Parameter net_w (shape=(2,), dtype=float32)\n)")

    def test_a_shared_dict_is_looked_at_first(self):
        parent = gluon.ParameterDict("net_")
        w = parent.get("w", shape=(2,))
        self.assertIs(gluon.ParameterDict("net_", shared=parent).get("w"), w)

    def test_two_parameters_of_one_name(self):
        first, second = gluon.ParameterDict("net_"), gluon.ParameterDict("net_")
        first.get("w")
        second.get("w")
        with self.assertRaisesRegex(AssertionError, "they have different Parameters with the same name 'net_w'"):
            first.update(second)

    def test_constants(self):
        d = gluon.ParameterDict("net_")
        c = d.get_constant("c", [1, 2])
        self.assertIs(d.get_constant("c"), c)
        self.assertIs(d.get_constant("c", nd.array([1, 2])), c)
        with self.assertRaisesRegex(AssertionError, "its value doesn't match new value"):
            d.get_constant("c", [1, 3])
        with self.assertRaisesRegex(KeyError, "No constant named 'net_d'"):
            d.get_constant("d")
        d.get("w", shape=(1,))
        with self.assertRaisesRegex(AssertionError, "'net_w' already exists but it is not a constant"):
            d.get_constant("w", [1])

    def test_attributes_are_set_on_all(self):
        net = nn.Dense(2, in_units=2)
        net.collect_params(".*bias").setattr("lr_mult", 2.0)
        self.assertEqual([net.weight.lr_mult, net.bias.lr_mult], [1.0, 2.0])
        net.initialize()
        net.collect_params().setattr("grad_req", "add")
        self.assertEqual(net.weight.grad_req, "add")
        net.collect_params().zero_grad()
        self.assertEqual(net.collect_params().list_ctx(), [mx.current_context()])

    def test_initial_values_follow_the_seed(self):
        drawn = []
        for _ in range(2):
            mx.random.seed(3)
            net = nn.Dense(4, in_units=5)
            net.initialize()
            drawn.append(net.weight.data().asnumpy())
        np.testing.assert_array_equal(*drawn)
        self.assertLess(np.abs(drawn[0]).max(), 0.07)
        self.assertGreater(np.abs(drawn[0]).max(), 0.01)


if __name__ == "__main__":
    case_runner.main()
