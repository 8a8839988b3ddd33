"""Hybridized Blocks: the same values as graphs; shapes that wait for data; what graphs are given and give."""

import unittest.mock

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._wire import pipeline
from gluond._wire.batches import Batches
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class Scale(gluon.HybridBlock):
    """x w + b, with w of the data's size."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.w = self.params.get("w", shape=(1, 0), init="ones", allow_deferred_init=True)
            self.b = self.params.get("b", shape=(3,), init=mx.init.Constant([1, 2, 3]), differentiable=False)

    def hybrid_forward(self, F, x, w, b):
        return F.broadcast_add(F.FullyConnected(x, w, no_bias=True, num_hidden=1), b)


def trained(net, steps, x, y):
    """The parameters after some steps."""
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.5})
    loss = gluon.loss.L2Loss()
    for _ in range(steps):
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(len(x))
    return [p.data().asnumpy() for p in net.collect_params().values()]


def lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(
            nn.Conv2D(4, 3, activation="relu"),
            nn.BatchNorm(),
            nn.MaxPool2D(),
            nn.Flatten(),
            nn.Dense(5, activation="tanh"),
            nn.Dense(1),
        )
    return net


class HybridTest(ArrayCase):
    def test_training_is_the_same_operator_by_operator_and_as_a_graph(self):
        random = np.random.RandomState(0)
        x, y = nd.array(random.randn(6, 2, 8, 8)), nd.array(random.randn(6, 1))
        results = []
        for hybrid in (False, True):
            mx.random.seed(7)
            net = lenet()
            net.initialize(mx.init.Xavier())
            if hybrid:
                net.hybridize(static_alloc=True, static_shape=True)
            results.append(trained(net, 4, x, y))
        for one, other in zip(*results):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

    def test_recorded_calls_wait_for_backward_in_any_order(self):
        def gradients(hybrid, sizes, order):
            mx.random.seed(7)
            net = nn.HybridSequential()
            net.add(nn.Dense(4, activation="tanh", in_units=3), nn.Dense(2, in_units=4))
            net.initialize(mx.init.Xavier())
            net.collect_params().setattr("grad_req", "add")
            if hybrid:
                net.hybridize()
            random = np.random.RandomState(0)
            inputs = [nd.array(random.randn(size, 3)) for size in sizes]
            with autograd.record():
                outputs = [net(x) for x in inputs]
            net(inputs[0])
            found = []
            for i in order:
                outputs[i].backward(retain_graph=True)
                found.append([p.grad().asnumpy() for p in net.collect_params().values()])
                outputs[i].backward()
                with self.assertRaisesRegex(mx.MXNetError, "retain_graph"):
                    outputs[i].backward()
            return found + [[p.grad().asnumpy() for p in net.collect_params().values()]]

        for sizes in ((5, 5), (5, 2)):
            for order in ((0, 1), (1, 0)):
                with self.subTest(sizes=sizes, order=order):
                    for one, other in zip(gradients(False, sizes, order), gradients(True, sizes, order)):
                        for a, b in zip(one, other):
                            np.testing.assert_array_equal(a, b)

    def test_the_graph_is_made_once(self):
        calls = []

        class Counted(gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                calls.append(F)
                return x + 1

        net = Counted()
        net.hybridize()
        for size in (1, 2, 3):
            self.assert_equal(net(nd.ones(size)), np.full(size, 2))
        self.assertEqual(calls, [mx.sym])
        net.hybridize(False)
        net(nd.ones(1))
        self.assertEqual(calls, [mx.sym, mx.nd])

    def test_a_graph_is_made_anew_where_something_inside_has_changed(self):
        def layer(units, value):
            made = nn.Dense(units, use_bias=False)
            made.initialize(mx.init.Constant(value))
            return made

        for name, change, expected in (
            ("added", lambda row: row.add(layer(3, 1)), 36),
            ("replaced", lambda row: row.register_child(layer(3, 2), "0"), 24),
        ):
            for depth in (1, 3):
                with self.subTest(name, depth=depth):
                    inner = nn.HybridSequential()
                    inner.add(layer(3, 1))
                    net = inner
                    for _ in range(depth):
                        outer = nn.HybridSequential()
                        outer.add(net)
                        net = outer
                    net.add(layer(2, 1))
                    net.hybridize()
                    self.assert_equal(net(nd.ones((1, 2))).sum(), [12])
                    change(inner)
                    self.assert_equal(net(nd.ones((1, 2))).sum(), [expected])

    def test_a_graph_follows_the_dtypes_of_parameters_inside(self):
        net = nn.HybridSequential()
        net.add(nn.HybridSequential())
        net[0].add(nn.Dense(2, in_units=2))
        net.initialize()
        net.hybridize()
        net(nd.ones((1, 2)))
        for cast in (net[0].cast, lambda dtype: [p.cast(dtype) for p in net.collect_params().values()]):
            for dtype in ("float64", "float32"):
                cast(dtype)
                self.assertEqual(np.dtype(net(nd.ones((1, 2), dtype=dtype)).dtype), dtype)

    def test_nothing_is_exported_of_a_graph_that_has_changed(self):
        net = nn.HybridSequential()
        net.add(nn.HybridSequential())
        net[0].add(nn.Dense(2))
        net.initialize()
        net.hybridize()
        net(nd.ones((1, 2)))
        net[0].add(nn.Dense(3))
        with self.assertRaisesRegex(RuntimeError, "run forward with this block at least once"):
            net.export("never")

    def test_inputs_and_outputs_may_be_nested(self):
        class Nested(gluon.HybridBlock):
            def hybrid_forward(self, F, pair, y=None):
                a, (b,) = pair
                total = a + b if y is None else a + b + y
                return total, [a * 2, (b,)]

        net = Nested()
        for _ in range(2):
            total, (double, (b,)) = net([nd.array([1]), (nd.array([2]),)])
            self.assertEqual([x.asscalar() for x in (total, double, b)], [3, 2, 2])
            self.assert_equal(net([nd.array([1]), [nd.array([2])]], nd.array([10]))[0], [13])
            self.assert_equal(net([nd.array([1]), [nd.array([2])]], None)[0], [3])
            net.hybridize()

    def test_a_symbol_gives_a_symbol(self):
        net = nn.Dense(3, in_units=2, prefix="fc_")
        out = net(mx.sym.var("data"))
        self.assertEqual(out.list_arguments(), ["data", "fc_weight", "fc_bias"])
        self.assertEqual(out.list_outputs(), ["fc_fwd_output"])

    def test_auxiliary_states_are_updated_by_the_graph(self):
        x = np.random.RandomState(0).randn(8, 3)
        for hybrid in (False, True):
            net = nn.BatchNorm(in_channels=3, momentum=0.5)
            net.initialize()
            if hybrid:
                net.hybridize()
            with autograd.record():
                net(nd.array(x)).sum().backward()
            self.assert_close(net.running_mean.data(), x.mean(0) / 2)
            net(nd.array(x))
            self.assert_close(net.running_mean.data(), x.mean(0) / 2)

    def test_an_op_hook_sees_every_output(self):
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(2, in_units=2, activation="relu"))
        net.initialize(mx.init.One())
        seen = {}
        net.register_op_hook(lambda name, op, array: seen.update({name: array.asnumpy()}))
        net.hybridize()
        self.assert_equal(net(nd.array([[1, 2]])), [[3, 3]])
        self.assertEqual(list(seen), ["net_dense0_fwd_output", "net_dense0_relu_fwd_output"])
        np.testing.assert_array_equal(seen["net_dense0_fwd_output"], [[3, 3]])

    def test_an_op_hook_sees_inputs_by_the_names_that_mxnets_operators_have_for_them(self):
        class Net(gluon.HybridBlock):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                with self.name_scope():
                    self.fc = nn.Dense(2, in_units=2, prefix="fc_")

            def hybrid_forward(self, F, x):
                halves = F.split(F.relu(self.fc(x), name="positive"), num_outputs=2, name="half")
                return F.broadcast_add(halves[0], halves[1], name="sum")

        net = Net(prefix="n_")
        net.initialize(mx.init.One())
        net.hybridize()
        seen = []
        net.register_op_hook(lambda name, op, array: seen.append((name, op, array.asnumpy().ravel().tolist())), monitor_all=True)
        net(nd.array([[1, 2]]))
        self.assertEqual(
            seen,
            [
                ("n_fc_fwd_data", "FullyConnected", [1, 2]),
                ("n_fc_fwd_weight", "FullyConnected", [1, 1, 1, 1]),
                ("n_fc_fwd_bias", "FullyConnected", [0, 0]),
                ("n_fc_fwd_output", "FullyConnected", [3, 3]),
                ("n_positive_input0", "relu", [3, 3]),
                ("n_positive_output", "relu", [3, 3]),
                ("n_half_data", "SliceChannel", [3, 3]),
                ("n_half_output0", "SliceChannel", [3]),
                ("n_half_output1", "SliceChannel", [3]),
                ("n_sum_lhs", "broadcast_add", [3]),
                ("n_sum_rhs", "broadcast_add", [3]),
                ("n_sum_output", "broadcast_add", [6]),
            ],
        )

    def test_an_unused_input_is_warned_about(self):
        class First(gluon.HybridBlock):
            def hybrid_forward(self, F, x, y):
                return x * 1

        net = First()
        net.hybridize()
        with self.assertWarnsRegex(UserWarning, "The 1-th input to HybridBlock is not used by any computation"):
            net(nd.ones(1), nd.ones(1))

    def test_inputs_on_two_contexts(self):
        class Add(gluon.HybridBlock):
            def hybrid_forward(self, F, x, y):
                return x + y

        net = Add()
        net.hybridize()
        with self.assertRaisesRegex(ValueError, "multiple contexts in the input"):
            net(nd.ones(1), nd.ones(1, ctx=mx.cpu(1)))


class SharedCallTest(ArrayCase):
    """Gradients whose call the forward pass makes, too."""

    def test_they_are_the_gradients_of_the_network_that_is_no_graph(self):
        networks = [lambda F, x: F.square(x) + F.zeros_like(x) * x, lambda F, x: F.make_loss(x) * F.ones_like(x)]
        for function in networks:
            x = nd.array([1, 2, 3])
            x.attach_grad()
            net = gluon.nn.HybridLambda(function)
            with autograd.record():
                y = net(x)
            y.backward()
            wanted = x.grad.asnumpy()
            net.hybridize()
            for retain in (False, True):
                for _ in range(2):
                    with autograd.record():
                        y = net(x)
                    for again in range(1 + retain):
                        y.backward(retain_graph=retain and not again)
                        np.testing.assert_array_equal(x.grad.asnumpy(), wanted)


class DeferredTest(ArrayCase):
    def test_shapes_come_with_the_first_data(self):
        for hybrid in (False, True):
            net = Scale()
            self.assertEqual(net.w.shape, (1, 0))
            net.initialize()
            if hybrid:
                net.hybridize()
            self.assert_equal(net(nd.array([[1, 2, 3, 4]])), [[11, 12, 13]])
            self.assertEqual(net.w.shape, (1, 4))

    def test_a_parameter_that_is_not_differentiable_stays(self):
        net = Scale()
        net.initialize()
        net.hybridize()
        self.assertEqual(net.b.grad_req, "null")
        before = net.b.data().asnumpy()
        w, b = trained(net, 2, nd.ones((2, 4)), nd.zeros((2, 3)))
        np.testing.assert_array_equal(b, before)
        self.assertFalse((w == 1).any())

    def test_a_shape_that_cannot_be_inferred_names_the_parameter(self):
        class Unknown(gluon.HybridBlock):
            def __init__(self):
                super().__init__(prefix="unknown_")
                self.w = self.params.get("w", shape=(0, 3), allow_deferred_init=True)

            def hybrid_forward(self, F, x, w):
                return F.dot(x, F.reshape(w, shape=(-1,)))

        for hybrid in (False, True):
            net = Unknown()
            net.initialize()
            if hybrid:
                net.hybridize()
            with self.assertRaisesRegex(ValueError, r"Deferred initialization failed .*\n\tunknown_w: \(0, 3\)"):
                net(nd.ones((1, 3)))

    def test_a_deferred_parameter_that_no_output_uses_is_named(self):
        class Unused(gluon.HybridBlock):
            def __init__(self):
                super().__init__(prefix="unused_")
                self.w = self.params.get("w", shape=(0,), allow_deferred_init=True)

            def hybrid_forward(self, F, x, w):
                return x * 2

        net = Unused()
        net.initialize()
        with self.assertRaisesRegex(ValueError, "unused_w: .*no output of the network uses it"):
            net(nd.ones(1))
        net.hybridize()
        with self.assertWarnsRegex(UserWarning, "Parameter unused_w is not used by any computation"):
            self.assert_equal(net(nd.ones(1)), [2])

    def test_a_graph_waits_for_the_question_for_its_result_where_that_has_come_soon(self):
        net = nn.Dense(2)
        net.initialize()
        net.hybridize()
        x = nd.ones((1, 3))
        expected = net(x).asnumpy()
        for seconds, messages in ((1e9, 1), (0, 2)):
            with self.subTest(seconds=seconds), unittest.mock.patch.object(pipeline, "SOON_SECONDS", seconds):
                for _ in range(2):  # The first question tells how soon it comes.
                    x.asnumpy()
                    with unittest.mock.patch.object(Batches, "note_sent", autospec=True, side_effect=Batches.note_sent) as sent:
                        np.testing.assert_array_equal(net(x).asnumpy(), expected)
                self.assertLessEqual(sent.call_count, messages)  # The question may come before the first one leaves.

    def test_a_call_has_the_same_bits_whatever_other_networks_do_with_its_arrays(self):
        class Times(gluon.HybridBlock):
            """x w, where w is data, and a layer behind it, which has parameters."""

            def __init__(self):
                super().__init__()
                with self.name_scope():
                    self.layer = nn.Dense(3, in_units=256)

            def hybrid_forward(self, F, x, w):
                return self.layer(F.FullyConnected(x, w, no_bias=True, num_hidden=256))

        random = np.random.RandomState(0)
        for rows in (5, 6, 8):
            with self.subTest(rows=rows):
                x = nd.array(random.randn(rows, 512))
                owner, reader = nn.Dense(256, in_units=512, use_bias=False), Times()
                for net in (owner, reader):
                    net.initialize()
                    net.hybridize()
                w = owner.weight.data()
                before = reader(x, w).asnumpy()
                for _ in range(3):
                    owner(x).asnumpy()
                np.testing.assert_array_equal(reader(x, w).asnumpy(), before)

    def test_layers_whose_product_is_too_large_for_the_type_are_not_folded(self):
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=4, use_bias=False), nn.BatchNorm(in_channels=4, epsilon=0))
        net.initialize()
        net[0].weight.set_data(nd.array(np.eye(4) * 1e30))
        net[1].gamma.set_data(nd.full(4, 1e10))
        net.hybridize()
        for value in (0, 1e-12):
            x = nd.full((2, 4), value)
            for _ in range(3):
                np.testing.assert_allclose(net(x).asnumpy(), np.full((2, 4), value * 1e40), rtol=1e-5)

    def test_the_second_batch_must_fit(self):
        net = nn.Dense(2)
        net.initialize()
        net(nd.ones((1, 3)))
        with self.assertRaisesRegex(mx.base.MXNetError, r"FullyConnected.*Shape inconsistent"):
            net(nd.ones((1, 4))).asnumpy()


if __name__ == "__main__":
    case_runner.main()
