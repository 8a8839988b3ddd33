"""Modules: symbols trained batch by batch. The figures are those of MXNet 1.9.1 for the same data."""

import collections
import gc
import os
import tempfile
import unittest

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._remote import calls, methods
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X = np.sin(np.arange(200, dtype=np.float32) * 1.7).reshape(50, 4)
Y = (X.sum(1) > 0).astype(np.float32)


def network():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu")
    bias = mx.sym.Variable("fc2_bias", lr_mult=2, init=mx.init.One())
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, bias=bias, num_hidden=2, name="fc2"), name="softmax")


def parameters():
    args = {
        "fc1_weight": np.cos(np.arange(24)).reshape(6, 4) / 2,
        "fc1_bias": np.zeros(6),
        "bn_gamma": np.ones(6),
        "bn_beta": np.zeros(6),
        "fc2_weight": np.sin(np.arange(12)).reshape(2, 6) / 2,
        "fc2_bias": np.zeros(2),
    }
    states = {"bn_moving_mean": np.zeros(6), "bn_moving_var": np.ones(6)}
    return tuple({name: nd.array(values) for name, values in each.items()} for each in (args, states))


def batches(count=50, size=16, **kwargs):
    return mx.io.NDArrayIter(X[:count], Y[:count], size, **kwargs)


def linear(**kwargs):
    """A bound module of y = x w, for batches of 2 rows of 3."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")
    module = mx.mod.Module(net, label_names=[])
    module.bind([("data", (2, 3))], **kwargs)
    module.init_params(mx.init.One())
    return module


def batch(values):
    return mx.io.DataBatch([nd.array(values)])


class FitTest(ArrayCase):
    def fitted(self, **kwargs):
        args, states = parameters()
        module = mx.mod.Module(network())
        with self.assertLogs(level="INFO") as logs:
            module.fit(
                batches(),
                num_epoch=3,
                arg_params=args,
                aux_params=states,
                optimizer_params={"learning_rate": 0.2, "momentum": 0.9, "wd": 0.1},
                **kwargs,
            )
        return module, [record.getMessage() for record in logs.records]

    def test_it_trains_and_logs_as_mxnet(self):
        module, lines = self.fitted(eval_data=batches(30), eval_metric=["acc", "ce"])
        expected = iter([0.75, 0.628561, 0.84375, 0.574686, 0.921875, 0.385816, 0.96875, 0.379459, 0.921875, 0.255988, 1, 0.235257])
        for epoch in range(3):
            for kind in "Train", "Time", "Validation":
                if kind == "Time":
                    self.assertRegex(lines.pop(0), rf"^Epoch\[{epoch}\] Time cost=\d+\.\d{{3}}$")
                    continue
                for name in "accuracy", "cross-entropy":
                    head, value = lines.pop(0).rsplit("=", 1)
                    self.assertEqual(head, f"Epoch[{epoch}] {kind}-{name}")
                    self.assertAlmostEqual(float(value), next(expected), delta=2e-5)
        self.assertEqual(lines, [])
        args, states = module.get_params()
        for name, values in (
            ("bn_beta", [0.13198, 0.35427, 0.65446, 0.09684]),
            ("bn_gamma", [0.25569, 0.44156, 0.71437, 0.22859]),
            ("fc1_weight", [-0.19757, 0.13852, 0.21142, -0.23117]),
            ("fc2_bias", [0.58521, -0.58521]),
        ):
            np.testing.assert_allclose(args[name].asnumpy().ravel()[:4], values, atol=1e-4)
        self.assert_close(states["bn_moving_mean"][:4], [0.02488, 0.0079, -0.00337, 0.01926], 1e-4)
        self.assert_close(states["bn_moving_var"][:4], [0.43825, 0.42289, 0.34001, 0.38621], 1e-4)

    def test_callbacks_are_told_where_the_training_is(self):
        seen = []
        note = lambda kind: lambda param: seen.append((kind, param.epoch, param.nbatch, param.eval_metric.name))
        module, _ = self.fitted(
            eval_data=batches(30),
            validation_metric="ce",
            begin_epoch=2,
            batch_end_callback=[note("batch"), note("too")],
            eval_batch_end_callback=note("eval batch"),
            eval_end_callback=note("eval"),
            epoch_end_callback=lambda epoch, symbol, args, states: seen.append((epoch, symbol, sorted(args), sorted(states))),
        )
        names = [sorted(each) for each in parameters()]
        self.assertEqual(
            seen,
            [(kind, 2, number, "accuracy") for number in range(4) for kind in ("batch", "too")]
            + [(2, module.symbol, *names)]
            + [("eval batch", 2, 0, "cross-entropy"), ("eval batch", 2, 1, "cross-entropy"), ("eval", 2, 2, "cross-entropy")],
        )

    def test_the_optimizer_knows_the_names_and_the_batch(self):
        module = mx.mod.Module(network(), fixed_param_names=["fc1_weight"])
        module.bind(batches().provide_data, batches().provide_label)
        module.init_params("xavier")
        args, states = module.get_params()
        self.assert_equal(args["fc2_bias"], np.ones(2))
        self.assert_equal(states["bn_moving_var"], np.ones(6))
        module.init_optimizer(optimizer="adam", optimizer_params=(("learning_rate", 0.1),))
        adam = module._optimizer
        self.assertEqual((type(adam), adam.rescale_grad, adam.lr_mult), (mx.optimizer.Adam, 1 / 16, {"fc2_bias": 2}))
        self.assertEqual(adam.wd_mult, {"fc1_bias": 0, "bn_beta": 0, "fc2_bias": 0})
        module.forward_backward(next(batches()))
        module.update()
        changed = {name for name, array in module.get_params()[0].items() if (array != args[name]).sum().asscalar()}
        self.assertEqual(changed | {"fc1_bias"}, set(args) - {"fc1_weight"})  # Its gradient is 0 but for rounding.
        sgd = mx.optimizer.SGD(learning_rate=1)
        with self.assertWarnsRegex(UserWarning, "rescale_grad is not normalized"):
            module.init_optimizer(optimizer=sgd, force_init=True)
        self.assertEqual(sgd.idx2name[4], "fc2_weight")

    def test_mistakes(self):
        module = mx.mod.Module(network())
        self.assertIsNone(module._label_shapes)  # Which programs give to bind().
        for mistake, error, message in (
            (lambda: mx.mod.Module(network(), data_names=["x"]), ValueError, "data_names.*'x' is not found.*data"),
            (lambda: mx.mod.Module(network(), fixed_param_names=["x"]), ValueError, "fixed_param_names"),
            (lambda: module.fit(batches()), AssertionError, "number of epochs"),
            (lambda: module.forward(next(batches())), AssertionError, r"call bind\(\) first"),
            (lambda: module.bind([("x", (16, 4))]), ValueError, "data_shapes don't match names"),
            (lambda: module.bind([("data", nd.array([16, 4]))]), TypeError, "The shape of 'data' is a tuple of sizes"),
            (lambda: module.bind([("data", (16, 4))], None, False, inputs_need_grad=True), AssertionError, "for_training"),
        ):
            with self.assertRaisesRegex(error, message):
                mistake()
        with self.assertWarnsRegex(UserWarning, "label_names.*'x' is not found"):
            mx.mod.Module(network(), label_names=["x"])
        module.bind(batches().provide_data, batches().provide_label)
        with self.assertLogs(level="WARNING") as logs:
            module.bind(batches().provide_data)
        self.assertIn("Already bound", logs.output[0])
        args, states = parameters()
        for mistake, error, message in (
            (lambda: module.forward(next(batches())), AssertionError, r"call init_params\(\) first"),
            (lambda: module.set_params({}, states), RuntimeError, "bn_beta is not presented"),
            (lambda: module.set_params({**args, "fc2_bias": nd.ones(3)}, states), mx.MXNetError, r"fc2_bias.*\(2,\).*\(3,\)"),
            (lambda: module.set_params({"x": nd.ones(1)}, {}, allow_missing=True), ValueError, '"x"'),
        ):
            with self.assertRaisesRegex(error, message):
                mistake()
        module.set_params({**args, "x": nd.ones(1)}, states)
        with self.assertWarnsRegex(UserWarning, "already initialized"):
            module.init_params()
        for mistake, error, message in (
            (module.update, AssertionError, r"call init_optimizer\(\) first"),
            (lambda: module.init_optimizer("dist_sync"), ValueError, "kvstore 'dist_sync'"),
            (lambda: module.init_optimizer(optimizer="x"), ValueError, "optimizer x"),
            (
                lambda: module.forward(mx.io.DataBatch([nd.array(X[:16])], [nd.ones((16, 1))])),
                mx.MXNetError,
                r"softmax_label of the batch has the shape \(16, 1\)",
            ),
            (lambda: module.forward(mx.io.DataBatch([nd.ones((16, 5))], [nd.ones(16)])), ValueError, "shape of fc1_weight"),
            (module.get_input_grads, AssertionError, "inputs_need_grad"),
            (lambda: module.predict([1]), ValueError, "NDArray or DataIter"),
            (lambda: mx.mod.BaseModule().install_monitor(None), NotImplementedError, ""),
        ):
            with self.assertRaisesRegex(error, message):
                mistake()


class PredictTest(ArrayCase):
    def setUp(self):
        self.module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
        self.module.bind(batches().provide_data, batches().provide_label, for_training=False)
        self.module.set_params(*parameters())
        executor = network().simple_bind(mx.cpu(), "null", data=X.shape)
        executor.copy_params_from(*parameters())
        self.expected = executor.forward(data=X)[0].asnumpy()

    def test_rows_that_pad_a_batch_are_left_out(self):
        self.assert_close(self.module.predict(batches(30)), self.expected[:30])
        self.assert_close(self.module.predict(batches(30), num_batch=1), self.expected[:16])
        self.assert_close(self.module.predict(batches(30), always_output_list=True)[0], self.expected[:30])
        self.assertEqual(
            [[each.shape for each in outputs] for outputs in self.module.predict(batches(30), merge_batches=False)],
            [[(16, 2)], [(14, 2)]],
        )
        self.assertEqual(
            [(number, outputs[0].shape, each.pad) for outputs, number, each in self.module.iter_predict(batches(30))],
            [(0, (16, 2), 0), (1, (14, 2), 2)],
        )

    def test_a_score_counts_them(self):
        right = (self.expected.argmax(1) == Y)[np.r_[0:30, 0:2]]
        ((name, value),) = self.module.score(batches(30), "acc")
        self.assertEqual((name, value), ("accuracy", right.mean()))
        self.assertEqual(self.module.score(batches(30), mx.metric.Accuracy(), num_batch=1), [("accuracy", right[:16].mean())])

    def test_a_batch_of_another_size(self):
        self.assertEqual(
            (self.module.data_names, self.module.label_names, self.module.output_names),
            (["data"], ["softmax_label"], ["softmax_output"]),
        )
        for size in (3, 16):
            self.assert_close(self.module.predict(X[:size]), self.expected[:size])
            self.assertEqual(self.module.data_shapes, [("data", (size, 4))])
            self.assertEqual(self.module.label_shapes, [("softmax_label", (size,))])
            self.assertEqual(self.module.output_shapes, [("softmax_output", (size, 2))])
        Batch = collections.namedtuple("Batch", ["data"])
        self.module.forward(Batch([nd.array(X[:2])]))
        self.assert_close(self.module.get_outputs()[0], self.expected[:2])
        self.module.forward(next(batches(size=5)))
        self.assertEqual(self.module.label_shapes, [("softmax_label", (5,))])


class GradientTest(ArrayCase):
    def test_gradients_of_inputs_and_given_ones_of_outputs(self):
        module = linear(inputs_need_grad=True)
        module.forward(batch([[1, 2, 3], [4, 5, 6]]))
        self.assert_equal(module.get_outputs()[0], [[6], [15]])
        module.get_outputs()[0][:] = 0  # The program's own.
        module.backward([nd.array([[1], [10]])])
        self.assert_equal(module.get_input_grads()[0], [[1] * 3, [10] * 3])
        self.assert_equal(module.get_input_grads(merge_multi_context=False)[0][0], [[1] * 3, [10] * 3])
        self.assert_equal(module._exec_group.grad_arrays[0][0], [[41, 52, 63]])
        module.init_optimizer(optimizer_params={"learning_rate": 1})
        module.update()
        self.assert_close(module.get_params()[0]["fc_weight"], [[1 - 20.5, 1 - 26, 1 - 31.5]])
        self.assert_close(module._exec_group.param_arrays[0][0], [[1 - 20.5, 1 - 26, 1 - 31.5]])

    def test_gradients_that_are_added_stay_when_the_batch_grows(self):
        module = linear(grad_req="add")
        for rows in (2, 1, 2):
            module.forward(batch(np.ones((rows, 3))))
            module.backward(nd.ones((rows, 1)))
        self.assert_equal(module._exec_group.grad_arrays[0][0], [[5] * 3])

    def test_for_prediction_there_are_none(self):
        module = linear(for_training=False)
        module.forward(batch(np.ones((2, 3))))
        self.assertEqual(module._exec_group.grad_arrays, [[None]])
        with self.assertRaisesRegex(AssertionError, "for_training=True"):
            module.backward()
        module.bind([("data", (1, 3))], inputs_need_grad=True, force_rebind=True)
        module.forward(batch(np.ones((1, 3))))
        self.assert_equal(module.get_outputs()[0], [[3]])

    def test_modules_that_share_their_parameters(self):
        one, other = linear(), mx.mod.Module(linear().symbol, label_names=[])
        one.init_optimizer(optimizer_params={"learning_rate": 1, "rescale_grad": 1})
        other.bind([("data", (1, 3))], shared_module=one)
        other.forward(batch([[1, 2, 3]]))
        other.backward([nd.ones((1, 1))])
        other.update()
        for module in (one, other):
            self.assert_equal(module.get_params()[0]["fc_weight"], [[0, -1, -2]])

    def test_states_from_batch_to_batch(self):
        state = mx.sym.Variable("state")
        net = mx.sym.Group([mx.sym.Variable("data") + state, mx.sym.BlockGrad(state * 2)])
        module = mx.mod.Module(net, label_names=None, state_names=["state"])
        module.bind([("data", (2, 1))])
        module.init_params()
        for states, value, expected in ((None, 3, 4), (None, 0, 1), ([[nd.ones((2, 1)) * 5]], None, 6)):
            module.set_states(states, value)
            module.forward(batch([[1], [1]]))
            self.assert_equal(module.get_outputs()[0], [[expected]] * 2)
        self.assert_equal(module.get_states()[0], [[5]] * 2)
        with self.assertRaisesRegex(AssertionError, "either states or a value"):
            module.set_states()

    def test_of_several_devices_each_has_a_part_of_the_batch(self):
        net = mx.sym.Activation(mx.sym.Variable("data") + mx.sym.Variable("state"), act_type="relu", __layout__="TN")
        module = mx.mod.Module(net, label_names=None, state_names=["state"], context=[mx.cpu(0), mx.cpu(1)])
        module.bind([mx.io.DataDesc("data", (1, 3), layout="TN")], inputs_need_grad=True)
        module.init_params()
        module.set_states([[nd.zeros((1, 3))]])
        module.forward(batch([[1, 2, 3]]))
        module.backward([nd.array([[1, 2, 3]])])
        self.assertEqual([each.shape for each in module.get_outputs()], [(1, 3)])
        ((first, second),) = module.get_outputs(merge_multi_context=False)
        self.assert_equal(first, [[1, 2]])
        self.assert_equal(second, [[3]])
        self.assert_equal(module.get_input_grads(merge_multi_context=False)[0][1], [[3]])
        metric = mx.metric.CustomMetric(lambda label, values: float((label - values).sum()), name="rest")
        module._exec_group.label_shapes.append(mx.io.DataDesc("label", (1, 3)))
        module.update_metric(metric, [[nd.array([[3, 3]])], [nd.array([[4]])]], pre_sliced=True)
        self.assertEqual(metric.get()[1], 2)
        module.init_optimizer()
        self.assertIs(module._kvstore._updater, module._updater)


def peak():
    """The most bytes of tensors that the server has held at once."""
    info = calls.current().call(methods.GET_SERVER_INFO, methods.GET_SERVER_INFO.request())
    return next(device.memory_peak_bytes for device in info.devices if device.name == "cpu")


class MemoryTest(ArrayCase):
    """What a run keeps for its gradients is large here, and everything else small."""

    ROWS, LAYERS = 1 << 14, 8
    LAYER_BYTES = ROWS * 64 * 4

    def network(self):
        net = mx.sym.Variable("data")
        for _ in range(self.LAYERS):
            net = mx.sym.tanh(mx.sym.FullyConnected(net, num_hidden=64))
        return mx.sym.LinearRegressionOutput(mx.sym.sum(net, axis=1), mx.sym.Variable("label"))

    def batches(self, count=3):
        return mx.io.NDArrayIter(nd.ones((count * self.ROWS, 2)), nd.ones(count * self.ROWS), self.ROWS, label_name="label")

    def by_gluon(self):
        net = gluon.SymbolBlock(self.network(), [mx.sym.Variable("data"), mx.sym.Variable("label")])
        net.initialize()
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd")
        for each in self.batches():
            with autograd.record():
                loss = net(*each.data, *each.label)
            loss.backward()
            trainer.step(self.ROWS)

    def by_fit(self):
        mx.mod.Module(self.network(), label_names=["label"]).fit(self.batches(), eval_metric="mse", num_epoch=2)

    def by_hand(self):
        module = mx.mod.Module(self.network(), label_names=["label"])
        module.bind(self.batches().provide_data, self.batches().provide_label)
        module.init_params()
        each = next(self.batches())
        for _ in range(4):
            module.forward(each)
            module.backward()

    def test_a_step_has_one_run_and_a_run_that_is_kept_is_copied_once(self):
        peaks = [peak()]
        for train in (self.by_gluon, self.by_fit, self.by_hand):
            train()
            nd.waitall()
            gc.collect()
            peaks.append(peak())
        run, more_by_fit, more_by_hand = np.diff(peaks)
        self.assertGreater(run, self.LAYERS * self.LAYER_BYTES / 2)
        self.assertLess(more_by_fit, run / 2)
        self.assertLess(more_by_hand, run * 1.5)

    def test_a_second_backward_says_what_keeps_the_run(self):
        module = linear()
        net = mx.mod.Module(mx.sym.MakeLoss(module.symbol), label_names=[])
        net.bind([("data", (2, 3))], inputs_need_grad=True)
        net.init_params(mx.init.One())
        net.forward_backward(batch(np.ones((2, 3))))
        with self.assertRaisesRegex(mx.MXNetError, "freed.*forward_backward.*call forward"):
            net.backward()
        self.assert_equal(net.get_outputs()[0], [[3], [3]])
        self.assert_equal(net.get_input_grads()[0], np.ones((2, 3)))
        net.forward(batch(np.ones((2, 3))))
        for _ in range(2):
            net.backward()
        self.assert_equal(net._exec_group.grad_arrays[0][0], [[2, 2, 2]])

    def test_a_backward_of_the_programs_own_may_come_twice(self):
        class Twice(mx.mod.Module):
            def backward(self, out_grads=None):
                super().backward([nd.ones((2, 1))])
                super().backward([nd.ones((2, 1)) * 10])

        module = Twice(linear().symbol, label_names=[])
        module.bind([("data", (2, 3))], grad_req="add")
        module.init_params(mx.init.One())
        module.forward_backward(batch(np.ones((2, 3))))
        self.assert_equal(module._exec_group.grad_arrays[0][0], [[22, 22, 22]])


class GroupTest(ArrayCase):
    def test_groups_share_arrays_by_their_names_and_shapes(self):
        from gluond.module.executor_group import DataParallelExecutorGroup

        def made(hidden, shared=None):
            net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="a")
            net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=hidden, name="b"), name="softmax")
            return DataParallelExecutorGroup(
                net,
                [mx.cpu(0), mx.cpu(1)],
                [1, 1],
                [("data", (2, 3))],
                [("softmax_label", (2,))],
                ["a_weight", "a_bias"],
                True,
                False,
                shared_group=shared,
            )

        one = made(3)
        other = made(4, one)
        for name in ("a_weight", "a_bias", "data", "softmax_label"):
            self.assertIs(one.execs[0].arg_dict[name], other.execs[0].arg_dict[name])
        self.assertIs(one.execs[0].grad_dict["a_bias"], other.execs[0].grad_dict["a_bias"])
        self.assertEqual(set(one.shared_data_arrays[1]), {"data", "softmax_label", "b_weight", "b_bias"})
        self.assertEqual((one.grad_req["a_bias"], one.grad_req["data"]), ("write", "null"))
        one.set_params({"a_weight": nd.ones((2, 3))}, {})
        found = {"a_weight": nd.zeros((2, 3)), "a_bias": nd.ones(2)}
        other.get_params(found, {})
        self.assert_equal(found["a_weight"], [[1] * 3] * 2)
        one.forward(mx.io.DataBatch([nd.ones((2, 3))], [nd.zeros(2)]))
        one.backward()
        self.assert_close(one.get_outputs()[0], np.full((2, 3), 1 / 3))
        self.assertEqual(one.get_outputs(False, 0, 1)[0][0].shape, (2, 3))
        metric = mx.metric.create("acc")
        one.update_metric(metric, [nd.zeros(2)])
        self.assertEqual(metric.get()[1], 1)


class FilesTest(ArrayCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = os.path.join(folder.name, "net")

    def test_a_training_goes_on_from_a_checkpoint(self):
        module = mx.mod.Module(network())
        options = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.1}}
        args, states = parameters()
        module.fit(
            batches(32),
            num_epoch=1,
            arg_params=args,
            aux_params=states,
            **options,
            epoch_end_callback=mx.callback.module_checkpoint(module, self.prefix, save_optimizer_states=True),
        )
        again = mx.mod.Module.load(self.prefix, 1, load_optimizer_states=True)
        self.assert_equal(again.get_params()[0]["fc1_weight"], module.get_params()[0]["fc1_weight"].asnumpy())
        again.bind(batches().provide_data, batches().provide_label)
        again.init_optimizer(**options)
        again._optimizer._index_update_count = dict(module._optimizer._index_update_count)
        for each in (module, again):
            each.forward_backward(next(batches()))
            each.update()
        for found, expected in zip(again.get_params(), module.get_params()):
            for name, array in expected.items():
                self.assert_equal(found[name], array.asnumpy())

    def test_parameters_alone(self):
        module = linear()
        module.save_params(self.prefix)
        other = linear()
        other.init_params(mx.init.Zero(), force_init=True)
        other.load_params(self.prefix)
        self.assert_equal(other.get_params()[0]["fc_weight"], [[1, 1, 1]])
        nd.save(self.prefix, {"fc_weight": nd.ones(1)})
        with self.assertRaisesRegex(ValueError, "Invalid param file.*'fc_weight'"):
            other.load_params(self.prefix)


def bucket(length):
    """A network of `length` inputs that are summed; its weights have the same shapes for every length."""
    data = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
    net = mx.sym.FullyConnected(data, num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="out"), ("data",), ("label",)


def bucket_batch(length):
    data, label = nd.ones((2, length)), nd.ones((2, 1)) * length
    return mx.io.DataBatch(
        [data],
        [label],
        0,
        bucket_key=length,
        provide_data=[mx.io.DataDesc("data", data.shape)],
        provide_label=[mx.io.DataDesc("label", label.shape)],
    )


class Buckets(mx.io.DataIter):
    """One batch of each of three lengths."""

    def __init__(self):
        super().__init__(2)
        self.provide_data, self.provide_label = bucket_batch(4).provide_data, bucket_batch(4).provide_label
        self.reset()

    def reset(self):
        self.rest = iter((2, 4, 1))

    def next(self):
        return bucket_batch(next(self.rest))


class BucketingTest(ArrayCase):
    def test_buckets_train_the_same_parameters(self):
        module = mx.mod.BucketingModule(bucket, default_bucket_key=4)
        module.fit(Buckets(), Buckets(), "mse", num_epoch=30, initializer=mx.init.Zero(), optimizer_params={"learning_rate": 0.05})
        self.assertLess(module.score(Buckets(), "mse")[0][1], 0.05)
        self.assertEqual(module.data_shapes, [("data", (2, 1))])
        self.assertEqual(sorted(module.get_params()[0]), ["fc_bias", "fc_weight"])
        with tempfile.TemporaryDirectory() as folder:
            module.save_checkpoint(f"{folder}/net", 1)
            self.assertEqual(nd.load(f"{folder}/net.buckets")[0].asnumpy().tolist(), [4, 2, 1])
            again = mx.mod.BucketingModule.load(f"{folder}/net", 1, bucket, 4)
        again.bind(Buckets().provide_data, Buckets().provide_label, for_training=False)
        self.assertEqual(again.score(Buckets(), "mse"), module.score(Buckets(), "mse"))
        with self.assertRaisesRegex(AssertionError, "default_bucket_key"):
            mx.mod.BucketingModule(bucket)


class SequentialTest(ArrayCase):
    def chain(self, head):
        body = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        return mx.mod.SequentialModule().add(mx.mod.Module(body, label_names=[])).add(head, take_labels=True, auto_wiring=True)

    def trained(self, module):
        module.fit(batches(), num_epoch=2, optimizer_params={"learning_rate": 0.5}, initializer=mx.init.One())
        return module.get_params()[0]["fc_weight"].asnumpy(), module.score(batches(), "acc")

    def test_a_row_of_modules_trains_as_their_one_symbol(self):
        head = mx.sym.SoftmaxOutput(mx.sym.Variable("scores"), name="softmax")
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        expected, score = self.trained(mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax")))

        def grad(scores, labels):
            return nd.softmax(scores) - nd.one_hot(labels, 2)

        for module in (mx.mod.Module(head, data_names=["scores"]), mx.mod.PythonLossModule(grad_func=grad)):
            weight, found = self.trained(self.chain(module))
            np.testing.assert_allclose(weight, expected, rtol=1e-5)
            self.assertEqual(found, score)

    def test_mistakes(self):
        with self.assertRaisesRegex(AssertionError, "a typo"):
            mx.mod.SequentialModule().add(mx.mod.PythonLossModule(), take_label=True)
        with self.assertRaisesRegex(AssertionError, "empty"):
            mx.mod.SequentialModule().bind([("data", (2, 4))])
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        twice = mx.mod.SequentialModule()
        for _ in range(2):
            twice.add(mx.mod.Module(net, label_names=[]), auto_wiring=True)
        twice.bind([("data", (2, 3))])
        with self.assertRaisesRegex(AssertionError, '"fc_weight" in layer 1 is already used in layer 0'):
            twice.init_params()


if __name__ == "__main__":
    case_runner.main()
