"""The training of the server's models from Python: it learns, step for step as a loop does, exactly once, from checkpoints."""

import os
import tempfile
import time
import warnings
from unittest import mock
from xml.etree import ElementTree

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._proto import training_pb2
from gluond._remote import calls, datasets, training
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.remote_case import LOSS, Busy, Refusal, breaking, convnet, defined, mlp, points
from tests.server.running_server import RunningServer

SERVER = os.environ.get("GLUOND_SERVER", "server/gluond-server")


class TrainTest(ArrayCase):
    def test_it_learns(self):
        x, y = points(256)
        model = defined(initializer=mx.init.Xavier())
        history = model.fit(x, y, epochs=6, batch_size=32, validation=(x, y), progress=False)
        self.assertEqual(set(history), {"loss", "accuracy", "learning_rate", "seconds", "validation_loss", "validation_accuracy"})
        self.assertEqual({len(numbers) for numbers in history.values()}, {6})
        self.assertLess(history["loss"][-1], history["loss"][0])
        measured = model.evaluate(nd.array(x), y)
        self.assertAlmostEqual(measured["loss"], history["validation_loss"][-1], places=5)
        self.assertEqual(measured["accuracy"], (model.predict(x).argmax(1) == y).mean())
        self.assertEqual(model.describe().step, 48)
        self.assertEqual(mx.remote.datasets(), [])

    def test_steps_that_change_nothing_are_told_once(self):
        x, y = points(32)
        x[3] = np.nan
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            history = defined().fit(x, y, epochs=3, batch_size=8, progress=False)
        # Short epochs may be told of together: then the first of them has all that were skipped.
        self.assertEqual(np.nansum(history["skipped"]), 3)
        self.assertEqual(len(told), 1)
        self.assertRegex(
            str(told[0].message), r"fit: \d of 4 steps of epoch 0 changed nothing, as their loss or a gradient was NaN"
        )
        self.assertEqual(told[0].filename, __file__)

    def test_a_label_that_is_no_class_is_named_with_the_number_of_classes(self):
        x, y = points(32)
        with self.assertRaisesRegex(mx.MXNetError, r"label \d+ is 7, expected a class from 0 to"):
            defined().fit(x, np.full_like(y, 7), batch_size=8, progress=False)

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

    def test_the_line_of_an_epoch_ends_with_its_validation(self):
        x, y = points(100)
        with mock.patch("sys.stderr") as terminal:
            terminal.isatty.return_value = False
            defined().fit(x, y, batch_size=10, epochs=2, validation=(x, y))
        written = "".join(call.args[0] for call in terminal.write.call_args_list)
        self.assertRegex(
            written,
            r"epoch 1 of 2  .* validation_loss [\d.]+  validation_accuracy [\d.]+\n"
            r"epoch 2 of 2  .* validation_loss [\d.]+  validation_accuracy [\d.]+\n$",
        )

    def test_callbacks_hear_of_each_epoch_and_may_end_it(self):
        x, y = points(64)
        told = []
        model = defined()
        history = model.fit(
            x,
            y,
            epochs=9,
            batch_size=16,
            first_epoch=2,
            progress=False,
            validation=(x, y),
            callbacks=[lambda epoch, numbers: told.append((epoch, numbers)), lambda epoch, numbers: epoch == 4],
        )
        self.assertEqual([epoch for epoch, _ in told], [2, 3, 4])
        self.assertEqual([numbers["validation_loss"] for _, numbers in told], history["validation_loss"])
        self.assertEqual(model.describe().step, 12)
        same = defined()
        same.fit(x, y, epochs=3, batch_size=16, first_epoch=2, progress=False)
        np.testing.assert_array_equal(model.predict(x), same.predict(x))

    def test_it_stops_early_where_nothing_gets_better(self):
        stop = mx.remote.EarlyStopping("loss", patience=2, least=0.1)
        ends = [stop(epoch, {"loss": loss}) for epoch, loss in enumerate((1.0, 0.8, 0.75, 0.9, 0.79))]
        self.assertEqual((ends, stop.best_epoch), ([False, False, False, False, True], 1))
        rising = mx.remote.EarlyStopping("validation_accuracy", patience=0)
        self.assertEqual(
            [rising(epoch, {"validation_accuracy": value}) for epoch, value in enumerate((0.5, 0.6, 0.6))], [False, False, True]
        )
        with self.assertRaisesRegex(mx.MXNetError, "fit.. has no 'validation_loss'; it has loss"):
            mx.remote.EarlyStopping()(0, {"loss": 1.0})

    def test_the_history_is_drawn(self):
        x, y = points(64)
        history = defined().fit(x, y, epochs=3, batch_size=16, progress=False)
        with tempfile.TemporaryDirectory() as folder:
            history.plot(f"{folder}/curve.svg")
            texts = [each.text for each in ElementTree.parse(f"{folder}/curve.svg").iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("loss, accuracy", texts)
        self.assertIn("3 epochs", texts)

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
                    loss = LOSS(net(nd.array(x[begin : begin + batch_size])), nd.array(y[begin : begin + batch_size]))
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
        model, client = defined("busy"), calls.current()
        self.assertEqual(model.train_step(*points(8)).step, 1)
        # As if that step had been cut short, and had not yet ended when the next call asked for the last number.
        client._sequences["busy"].in_doubt = True
        client._sequences["busy"].next -= 1
        places = [training_pb2.GetSequenceResponse(last=last) for last in (3, 4)]
        with mock.patch.object(client, "_place", side_effect=places):
            self.assertEqual(model.train_step(*points(9)).step, 2)
        client._sequences["busy"].in_doubt = True
        with self.assertRaisesRegex(mx.MXNetError, "TrainStep: .*data"):
            model.train_step(np.ones((2, 5)), [0, 1])
        self.assertEqual(model.train_step(*points(9)).step, 3)

    def test_an_interrupted_fit_leaves_its_steps_and_no_dataset(self):
        model = defined()
        x, y = points(64)
        with mock.patch.object(training.Training, "_hear", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            model.fit(x, y, epochs=1_000_000, batch_size=16, progress=False)
        self.assertEqual(mx.remote.datasets(), [])
        model.fit(x, y, batch_size=16, progress=False)  # It waits for the steps that were under way.
        steps = model.describe().step
        self.assertGreater(steps, 4)
        model.fit(x, y, batch_size=16, progress=False)
        self.assertEqual(model.describe().step, steps + 4)

    def test_an_error_before_the_first_step_leaves_no_dataset_and_is_the_one_that_is_raised(self):
        model = defined()
        x, y = points(64)
        with mock.patch.object(datasets._Upload, "run", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            model.fit(x, y, progress=False)
        with breaking("DeleteDataset", Refusal(), times=-1), self.assertRaisesRegex(mx.MXNetError, "make no batch of 100"):
            model.fit(x, y, batch_size=100, drop_last=True, progress=False)

    def test_a_wait_for_the_server_is_told_once(self):
        model = defined()
        model.train_step(*points(8))
        with (
            mock.patch.multiple(calls, RETRY_SECONDS=1.0, _SILENT_SECONDS=0.3),
            mock.patch("sys.stderr") as terminal,
            breaking("", Refusal(), times=-1, after=False),
            self.assertRaisesRegex(mx.MXNetError, "^TrainStep: no answer"),
        ):
            model.train_step(*points(8))
        (line,) = {call.args[0] for call in terminal.write.call_args_list}
        self.assertRegex(line, r"^gluond: no answer from \S+; waiting for it for up to 1 s more\n$")

    def test_a_refused_call_uses_no_number_up(self):
        model = defined()
        for _ in range(2):
            with self.assertRaises(mx.MXNetError):
                model.train_step(np.ones((2, 5)), [0, 1])
        self.assertEqual(model.train_step(*points(8)).step, 1)

    def test_a_server_that_has_forgotten_is_told_of(self):
        model = defined("forgotten")
        model.train_step(*points(8))
        calls.current()._sequences["forgotten"].next = 9
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
