"""Models of the server from Python: made of Blocks, described, asked, trained, stored, and called exactly once."""

import os
import time
from unittest import mock

import gluond as mx
import grpc
import numpy as np
from gluond import autograd, gluon, nd
from gluond._proto import error_details_pb2, status_pb2, training_pb2
from gluond._remote import calls
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.server.running_server import RunningServer

SERVER = os.environ.get("GLUOND_SERVER", "server/gluond-server")
LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(3))
    return net


def convnet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.MaxPool2D(2, 2), nn.BatchNorm(), nn.Flatten(), nn.Dense(3))
    return net


def points(count=96, *shape):
    """Random inputs, and a class that follows from them."""
    values = np.random.RandomState(7).randn(count, *(shape or (4,))).astype("float32")
    return values, np.abs(values.reshape(count, -1)[:, :3]).argmax(1)


def defined(name="m", net=None, inputs=(-1, 4), **options):
    options = {"loss": LOSS, "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}, "metrics": "accuracy", **options}
    return mx.remote.Model.define(name, mlp() if net is None else net, inputs, replace=True, **options)


class Refusal(grpc.RpcError):
    """A broken connection."""

    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return "the connection broke"

    def trailing_metadata(self):
        return ()


class Busy(Refusal):
    """The server asks for another attempt after so many seconds."""

    def __init__(self, seconds):
        super().__init__()
        self._status = status_pb2.Status()
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds, retry.retry_delay.nanos = int(seconds), int(seconds % 1 * 1e9)
        detail = self._status.details.add()
        detail.type_url, detail.value = "type.googleapis.com/google.rpc.RetryInfo", retry.SerializeToString()

    def code(self):
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def trailing_metadata(self):
        return (("grpc-status-details-bin", self._status.SerializeToString()),)


class Breaking:
    """A channel: `after` sending a call of `method`, or before it, raises an error instead of giving the answer, so often."""

    def __init__(self, channel, method, error, times=1, after=True):
        self._channel, self._method, self._error, self._times, self._after = channel, method, error, times, after
        self.subscribe, self.unsubscribe = channel.subscribe, channel.unsubscribe

    def unary_unary(self, path, *codecs):
        call = self._channel.unary_unary(path, *codecs)

        def send(request, timeout):
            if not path.endswith(self._method) or self._times == 0:
                return call(request, timeout=timeout)
            self._times -= 1
            if self._after:
                call(request, timeout=timeout)
            raise self._error

        return send


def breaking(method, error, **options):
    caller = calls.current()
    return mock.patch.object(caller, "_channel", Breaking(caller._channel, method, error, **options))


class DescribeTest(ArrayCase):

    def test_a_model_tells_its_parts(self):
        model = defined(net=convnet(), inputs=(-1, 1, 8, 8), seed=3)
        about = model.describe()
        self.assertEqual((about.name, about.device, about.step, about.version), ("m", "cpu", 0, 1))
        self.assertEqual([(each.name, each.shape) for each in about.inputs], [("data", (-1, 1, 8, 8))])
        self.assertEqual([(each.name, each.shape) for each in about.outputs], [("output", (-1, 3))])
        kinds = {each.name.partition("_")[2]: each.kind for each in about.parameters if "batchnorm" in each.name}
        self.assertEqual(kinds, {"gamma": "parameter", "beta": "parameter", "running_mean": "auxiliary",
                                 "running_var": "auxiliary"})
        self.assertTrue(all(each.initialized for each in about.parameters))
        self.assertIn("sgd(", about.trainer.optimizer)

    def test_explain_is_a_table(self):
        text = defined().explain()
        self.assertRegex(text, r"(?m)^Model 'm' on cpu, made ")
        self.assertRegex(text, r"(?m)^  data +\(\?, 4\) +float32$")
        self.assertRegex(text, r"(?m)^  dense\d+_weight +\(16, 4\) +float32$")
        self.assertRegex(text, r"(?m)^  optimizer +sgd\(.*momentum=0\.9")
        mx.remote.Model.define("bare", mlp(), (-1, 4), replace=True)
        self.assertIn("No trainer: create_trainer() makes one", mx.remote.Model("bare").explain())

    def test_models_are_listed_and_deleted(self):
        defined("first"), defined("second")
        self.assertLessEqual({"first", "second"}, {model.name for model in mx.remote.models()})
        self.assertIn("<Model 'first' on cpu: 131 trained numbers, 0 steps>", map(repr, mx.remote.models()))
        mx.remote.Model("second").delete()
        self.assertNotIn("second", [model.name for model in mx.remote.models()])
        with self.assertRaisesRegex(mx.MXNetError, "there is no model 'firts'; did you mean 'first'"):
            mx.remote.Model("firts").describe()

    def test_inputs_have_the_shapes_of_the_first_run(self):
        net = mlp()
        net.initialize()
        net.hybridize()
        net(nd.ones((5, 4)))
        model = mx.remote.Model.define("seen", net, replace=True)
        self.assertEqual(model.describe().inputs[0].shape, (-1, 4))


class DefineTest(ArrayCase):

    def test_a_blocks_values_go_with_it(self):
        net = convnet()
        net.initialize(mx.init.Xavier())
        x, _ = points(5, 1, 8, 8)
        self.assert_close(net(nd.array(x)), defined(net=net, inputs=(-1, 1, 8, 8)).predict(x))

    def test_other_values_are_drawn_by_the_parameters_initializers(self):
        net = nn.Dense(2, in_units=3, weight_initializer=mx.init.Constant(2.0), bias_initializer="ones")
        values = defined(net=net, inputs=(-1, 3)).predict(np.ones((1, 3)))
        np.testing.assert_array_equal(values, [[7, 7]])
        net = nn.Dense(2, in_units=3)
        values = defined(net=net, inputs=(-1, 3), initializer=mx.init.One()).predict(np.ones((1, 3)))
        np.testing.assert_array_equal(values, [[3, 3]])

    def test_a_gluon_trainers_optimizer_is_taken(self):
        net = mlp()
        net.initialize()
        net(nd.ones((1, 4)))
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.25})
        about = defined(net=net, trainer=trainer, optimizer_params=None).describe()
        self.assertRegex(about.trainer.optimizer, "^adam")
        self.assertEqual(about.trainer.learning_rate, 0.25)

    def test_fixed_parameters_stay(self):
        net = mlp()
        net.initialize()
        net(nd.ones((1, 4)))
        net[0].collect_params().setattr("grad_req", "null")
        model = defined(net=net)
        x, y = points()
        model.fit(x, y, progress=False)
        block = model.block()
        for before, after in zip(net.collect_params().values(), block.collect_params().values()):
            self.assertEqual(np.array_equal(before.data().asnumpy(), after.data().asnumpy()), before.grad_req == "null")
            self.assertEqual(before.grad_req, after.grad_req)

    def test_what_cannot_be_a_model(self):
        with self.assertRaisesRegex(mx.MXNetError, "Sequential is no HybridBlock.*derive it from gluon.HybridBlock"):
            defined(net=nn.Sequential())
        with self.assertRaisesRegex(mx.MXNetError, "cannot be traced with 1 input"):
            defined(net=TwoInputs(), inputs=(-1, 2))
        with self.assertRaisesRegex(mx.MXNetError, "a shape of 'date', which is no input; there are data"):
            defined(inputs={"date": (-1, 4)})
        with self.assertRaisesRegex(TypeError, "'data' is a shape.*not 7"):
            defined(inputs=7)


class TwoInputs(gluon.HybridBlock):

    def hybrid_forward(self, F, a, b):
        return F.broadcast_add(a, b), F.broadcast_mul(a, b)


class PredictTest(ArrayCase):

    def test_arrays_come_back_as_they_were_given(self):
        model = defined()
        x, _ = points(4)
        values = model.predict(x)
        self.assertIsInstance(values, np.ndarray)
        np.testing.assert_array_equal(model.predict(x.tolist()), values)
        np.testing.assert_array_equal(model.predict(x.astype("float64")), values)
        self.assert_equal(model.predict(nd.array(x)), values)
        np.testing.assert_array_equal(model.predict({"data": x}), values)

    def test_rows_may_go_in_several_calls(self):
        model = defined()
        x, _ = points(7)
        np.testing.assert_allclose(model.predict(x, batch_size=3), model.predict(x), rtol=1e-5, atol=1e-7)
        caller = calls.current()
        limits = caller.limits
        small = mock.Mock(max_message_bytes=(1 << 16) + 32)  # Two rows.
        with mock.patch.object(caller, "_limits", small), breaking("Predict", Refusal(), times=0):
            np.testing.assert_array_equal(model.predict(x), model.predict(x, batch_size=2))
        self.assertIs(caller.limits, limits)

    def test_several_inputs_and_outputs(self):
        model = mx.remote.Model.define("two", TwoInputs(), [(-1, 2), (-1, 2)], replace=True)
        a, b = np.array([[1, 2]], "float32"), np.array([[3, 4]], "float32")
        for given in ([a, b], {"data1": b, "data0": a}):
            total, product = model.predict(given)
            np.testing.assert_array_equal(total, a + b)
            np.testing.assert_array_equal(product, a * b)
        with self.assertRaisesRegex(TypeError, "model 'two' takes 'data0', 'data1', got 1 array"):
            model.predict(a)
        with self.assertRaisesRegex(TypeError, "model 'two' takes 'data0', 'data1', got 'data0', 'b'"):
            model.predict({"data0": a, "b": b})

    def test_a_model_may_become_another(self):
        model = defined(inputs=(-1, 4))
        model.predict(np.ones((1, 4)))
        other = mx.remote.Model.define("m", TwoInputs(), [(-1, 2), (-1, 2)], replace=True)
        with self.assertRaises(mx.MXNetError):
            model.predict(np.ones((1, 4)))
        self.assertEqual(len(other.predict([np.ones((1, 2))] * 2)), 2)
        self.assertEqual(len(model.predict([np.ones((1, 2))] * 2)), 2)

    def test_integers_must_fit(self):
        class Look(gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                return F.cast(x, dtype="float32") + 1

        model = mx.remote.Model.define("look", Look(), np.zeros((1, 2), "int32"), replace=True)
        np.testing.assert_array_equal(model.predict(np.array([[1.0, 2.0]])), [[2, 3]])
        with self.assertRaisesRegex(mx.MXNetError, "input 'data': the values are of dtype float64, and the model wants int32"):
            model.predict(np.array([[0.5, 2.0]]))


class TrainTest(ArrayCase):

    def test_it_learns(self):
        x, y = points(256)
        model = defined(initializer=mx.init.Xavier())
        history = model.fit(x, y, epochs=6, batch_size=32, validation=(x, y), progress=False)
        self.assertEqual(set(history), {"loss", "accuracy", "learning_rate", "seconds", "validation_loss",
                                        "validation_accuracy"})
        self.assertEqual({len(numbers) for numbers in history.values()}, {6})
        self.assertLess(history["loss"][-1], history["loss"][0])
        measured = model.evaluate(nd.array(x), y)
        self.assertAlmostEqual(measured["loss"], history["validation_loss"][-1], places=5)
        self.assertEqual(measured["accuracy"], (model.predict(x).argmax(1) == y).mean())
        self.assertEqual(model.describe().step, 48)
        self.assertEqual(mx.remote.datasets(), [])

    def test_a_step_reports(self):
        x, y = points(32)
        step = defined().train_step(nd.array(x), nd.array(y))
        self.assertEqual((step.step, step.learning_rate, step.nonfinite), (1, 0.1, False))
        self.assertGreater(step.loss, 0)
        self.assertIn("accuracy", step.metrics)

    def test_a_dataset_is_trained_on_by_its_name(self):
        x, y = points(50)
        dataset = mx.remote.Dataset("fifty", data=x, label=y, progress=False)
        self.addCleanup(dataset.delete)
        model = defined()
        model.fit("fifty", batch_size=16, drop_last=True, progress=False)
        self.assertEqual(model.describe().step, 3)
        model.fit(dataset, batch_size=16, progress=False)
        self.assertEqual(model.describe().step, 7)
        self.assertEqual(set(model.evaluate("fifty", batch_size=10)), {"loss", "accuracy"})
        with self.assertRaisesRegex(mx.MXNetError, "the 50 rows of dataset 'fifty' make no batch of 64"):
            model.fit(dataset, drop_last=True, progress=False)
        with self.assertRaisesRegex(mx.MXNetError, "there is no dataset 'fitfy'; there are: 'fifty'"):
            model.fit("fitfy")

    def test_an_order_follows_from_the_seed_and_the_epochs_number(self):
        x, y = points(64)
        net, results = mlp(), []
        for seed, parts in ((1, [3]), (1, [1, 2]), (2, [3])):
            model = defined(net=net, seed=5)
            done = 0
            for epochs in parts:
                model.fit(x, y, epochs=epochs, batch_size=16, seed=seed, first_epoch=done, progress=False)
                done += epochs
            results.append(model.predict(x))
        np.testing.assert_array_equal(results[0], results[1])
        self.assertFalse(np.array_equal(results[0], results[2]))

    def test_the_line_counts_steps(self):
        x, y = points(100)
        with mock.patch("sys.stderr") as terminal:
            terminal.isatty.return_value = False
            defined().fit(x, y, batch_size=10)
        written = "".join(call.args[0] for call in terminal.write.call_args_list)
        self.assertRegex(written, r"epoch 1 of 1  \[#{24}\] 10/10 .* loss \d")

    def test_a_schedule_decides_the_rate(self):
        schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.4)
        model = defined(optimizer_params={"lr_scheduler": schedule})
        x, y = points(16)
        self.assertEqual([model.train_step(x, y).learning_rate for _ in range(5)], [0.4, 0.4, 0.2, 0.2, 0.1])
        with self.assertRaisesRegex(mx.MXNetError, "SetLearningRate"):
            model.set_learning_rate(0.1)

    def test_mistakes_are_told(self):
        x, y = points(16)
        with self.assertRaisesRegex(mx.MXNetError, "has no trainer"):
            mx.remote.Model.define("bare", mlp(), (-1, 4), replace=True).train_step(x, y)
        with self.assertRaisesRegex(mx.MXNetError, "ALREADY|has a trainer already"):
            defined().create_trainer("L2Loss")
        with self.assertRaisesRegex(mx.MXNetError, "a trainer wants a loss, or the name of an output"):
            defined().create_trainer(None)
        with self.assertRaisesRegex(ValueError, "as many rows each"):
            defined().fit(x, y[:3])


class SameBitsTest(ArrayCase):
    """fit() takes the steps of the loop with autograd.record(), backward() and step(), bit for bit."""

    def check(self, net, x, y, batch_size=16, epochs=3):
        net.initialize(mx.init.Xavier())
        net.hybridize()
        net(nd.array(x[:1]))
        optimizer = {"learning_rate": 0.05, "momentum": 0.9, "wd": 1e-3}
        model = defined(net=net, inputs=x, optimizer_params=optimizer)
        trainer = gluon.Trainer(net.collect_params(), "sgd", optimizer)
        for _ in range(epochs):
            for begin in range(0, len(x), batch_size):
                with autograd.record():
                    loss = LOSS(net(nd.array(x[begin:begin + batch_size])), nd.array(y[begin:begin + batch_size]))
                loss.backward()
                trainer.step(len(loss))
        model.fit(x, y, epochs=epochs, batch_size=batch_size, shuffle=False, progress=False)
        served = model.block().collect_params()
        for name, own in net.collect_params().items():
            self.assert_equal(served[name].data(), own.data().asnumpy())

    def test_of_a_small_mlp(self):
        self.check(mlp(), *points(90))  # The last batch of each epoch is smaller.

    def test_of_a_small_convolutional_network(self):
        self.check(convnet(), *points(48, 1, 8, 8))


class BlockTest(ArrayCase):

    def test_a_block_computes_as_the_model(self):
        model = defined(net=convnet(), inputs=(-1, 1, 8, 8))
        x, y = points(32, 1, 8, 8)
        model.fit(x, y, batch_size=8, progress=False)
        block = model.block()
        self.assert_equal(block(nd.array(x)), model.predict(x))

    def test_what_a_block_learns_goes_back(self):
        model = defined()
        x, y = points(32)
        block = model.block()
        trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        with autograd.record():
            loss = LOSS(block(nd.array(x)), nd.array(y))
        loss.backward()
        trainer.step(32)
        model.store(block)
        self.assert_equal(block(nd.array(x)), model.predict(x))
        model.store(block)

    def test_a_step_in_between_is_not_overwritten(self):
        model = defined()
        block = model.block()
        model.train_step(*points(8))
        after = model.predict(points(8)[0])
        with self.assertRaisesRegex(mx.MXNetError, r"model 'm' has version \d+ by now, expected \d+"):
            model.store(block)
        np.testing.assert_array_equal(model.predict(points(8)[0]), after)
        model.store(block, force=True)
        self.assertFalse(np.array_equal(model.predict(points(8)[0]), after))

    def test_another_network_is_told_apart(self):
        with self.assertRaisesRegex(mx.MXNetError, "is neither of this model's block.. nor saved as model 'm'; store it with"):
            defined().store(mlp())
        with self.assertRaisesRegex(mx.MXNetError, "no parameter of the same name"):
            defined().store(nn.Dense(1, prefix="another_"), force=True)


class ExactlyOnceTest(ArrayCase):

    def test_an_answer_that_is_lost_is_asked_for_again(self):
        model = defined()
        for after in (True, False):
            with self.subTest(after=after), breaking("TrainStep", Refusal(), times=3, after=after):
                step = model.train_step(*points(8)).step
                self.assertEqual(model.describe().step, step)
        self.assertEqual(model.train_step(*points(8)).step, 3)

    def test_an_error_tells_when_to_come_back(self):
        model = defined()
        begun = time.monotonic()
        with breaking("TrainStep", Busy(0.3), after=False):
            self.assertEqual(model.train_step(*points(8)).step, 1)
        self.assertGreaterEqual(time.monotonic() - begun, 0.3)
        with breaking("TrainStep", Busy(3600), after=False), self.assertRaises(mx.MXNetError) as busy:
            model.train_step(*points(8))
        self.assertLess(time.monotonic() - begun, 8, "it takes longer than the client's patience")
        self.assertEqual(busy.exception.retry_after, 3600)
        self.assertEqual(model.train_step(*points(8)).step, 2)

    def test_a_dataset_whose_deletion_had_no_answer_is_deleted(self):
        for after in (True, False):
            rows = mx.remote.Dataset("rows", data=points(8)[0], progress=False)
            with breaking("DeleteDataset", Refusal(), after=after):
                rows.delete()
            self.assertEqual(mx.remote.datasets(), [])
        with self.assertRaisesRegex(mx.MXNetError, "no dataset 'rows'"):
            rows.delete()

    def test_an_interrupt_leaves_no_doubt(self):
        model = defined()
        for after, expected in ((True, 2), (False, 3)):
            with breaking("TrainStep", KeyboardInterrupt(), after=after), self.assertRaises(KeyboardInterrupt):
                model.train_step(*points(8))
            self.assertEqual(model.train_step(*points(8)).step, expected)

    def test_a_call_that_goes_on_after_an_interrupt_uses_its_number(self):
        model, caller = defined("busy"), calls.current()
        self.assertEqual(model.train_step(*points(8)).step, 1)
        # As if that step had been cut short, and had not yet ended when the next call asked for the last number.
        caller._lines["busy"].in_doubt = True
        caller._lines["busy"].next -= 1
        places = [training_pb2.GetSequenceResponse(last=last) for last in (3, 4)]
        with mock.patch.object(caller, "_place", side_effect=places):
            self.assertEqual(model.train_step(*points(9)).step, 2)
        caller._lines["busy"].in_doubt = True
        with self.assertRaisesRegex(mx.MXNetError, "TrainStep: .*data"):
            model.train_step(np.ones((2, 5)), [0, 1])
        self.assertEqual(model.train_step(*points(9)).step, 3)

    def test_an_interrupted_fit_leaves_its_steps_and_no_dataset(self):
        model = defined()
        x, y = points(64)
        with breaking("TrainStep", KeyboardInterrupt()), self.assertRaises(KeyboardInterrupt):
            model.fit(x, y, batch_size=16, progress=False)
        self.assertEqual(mx.remote.datasets(), [])
        self.assertEqual(model.describe().step, 1)
        model.fit(x, y, batch_size=16, progress=False)
        self.assertEqual(model.describe().step, 5)

    def test_a_refused_call_uses_no_number_up(self):
        model = defined()
        for _ in range(2):
            with self.assertRaises(mx.MXNetError):
                model.train_step(np.ones((2, 5)), [0, 1])
        self.assertEqual(model.train_step(*points(8)).step, 1)

    def test_a_server_that_has_forgotten_is_told_of(self):
        model = defined("forgotten")
        model.train_step(*points(8))
        calls.current()._lines["forgotten"].next = 9
        with self.assertRaisesRegex(mx.MXNetError, "knows of 4 calls by this client, expected 8"):
            model.train_step(*points(8))
        self.assertEqual(model.train_step(*points(8)).step, 2)

    def test_a_server_that_is_gone_is_told_of(self):
        with mock.patch.object(calls, "RETRY_SECONDS", 0.2), breaking("GetModel", Refusal(), times=-1):
            with self.assertRaisesRegex(mx.MXNetError, "GetModel: no answer from .*the connection broke. Is the server"):
                mx.remote.Model("m").describe()


class CheckpointTest(ArrayCase):

    def test_training_goes_on_from_a_checkpoint(self):
        x, y = points(32)
        with RunningServer(binary=SERVER) as server:
            mx.connect(server.address)
            try:
                model = defined("kept")
                model.fit(x, y, batch_size=8, progress=False)
                saved = model.save_checkpoint()
                self.assertEqual((saved.name, saved.step, saved.has_trainer), ("kept", 4, True))
                with self.assertRaisesRegex(mx.MXNetError, "overwrite"):
                    model.save_checkpoint()
                model.save_checkpoint(overwrite=True)
                model.fit(x, y, batch_size=8, progress=False)
                further = model.predict(x)
                self.assertEqual(model.load_checkpoint().step, 4)
                model.fit(x, y, batch_size=8, progress=False)
                np.testing.assert_array_equal(model.predict(x), further)
                other = mx.remote.Model("copy")
                self.assertIsNone(other.load_checkpoint("kept", parameters_only=True).trainer)
            finally:
                mx.connect()


if __name__ == "__main__":
    case_runner.main()
