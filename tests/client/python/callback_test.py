"""Callbacks of training loops: what they log is what MXNet logs."""

import os
import tempfile
import unittest
from unittest import mock

import gluond as mx
from gluond import callback, nd
from tests import case_runner


def param(nbatch, metric=None, epoch=1):
    return mx.model.BatchEndParam(epoch, nbatch, metric, None)


def accuracy(right, count):
    metric = mx.metric.Accuracy()
    metric.update([nd.ones(count)], [nd.array([1] * right + [0] * (count - right))])
    return metric


class LoggingTest(unittest.TestCase):
    def logged(self, work):
        with self.assertLogs(level="INFO") as logs:
            work()
        return [record.getMessage() for record in logs.records]

    def test_the_speed_of_batches(self):
        def epoch(metric, auto_reset):
            meter = callback.Speedometer(10, 2, auto_reset)
            for nbatch in (0, 1, 2, 3, 4, 0, 1, 2):
                meter(param(nbatch, metric))

        with mock.patch("gluond.callback.time", **{"time.side_effect": range(1000)}):
            self.assertEqual(
                self.logged(lambda: epoch(None, True)),
                [
                    "Iter[1] Batch [2]\tSpeed: 20.00 samples/sec",
                    "Iter[1] Batch [4]\tSpeed: 20.00 samples/sec",
                    "Iter[1] Batch [2]\tSpeed: 20.00 samples/sec",
                ],
            )
            self.assertEqual(
                self.logged(lambda: epoch(accuracy(1, 2), False)),
                [f"Epoch[1] Batch [0-{count}]\tSpeed: 20.00 samples/sec\taccuracy=0.500000" for count in (2, 4, 2)],
            )
            metric = accuracy(1, 2)
            self.assertEqual(
                self.logged(lambda: epoch(metric, True))[0], "Epoch[1] Batch [0-2]\tSpeed: 20.00 samples/sec\taccuracy=0.500000"
            )
            self.assertEqual(str(metric.get()[1]), "nan")
        with mock.patch("gluond.callback.time", **{"time.return_value": 1}):
            self.assertEqual(self.logged(lambda: epoch(None, True))[0], "Iter[1] Batch [2]\tSpeed: inf samples/sec")

    def test_metrics(self):
        metric = accuracy(3, 4)
        log = callback.log_train_metric(2, auto_reset=True)
        self.assertEqual(self.logged(lambda: [log(param(i, metric)) for i in (1, 2)]), ["Iter[1] Batch[2] Train-accuracy=0.750000"])
        self.assertEqual(str(metric.get()[1]), "nan")
        log(param(2))
        self.assertEqual(
            self.logged(lambda: callback.LogValidationMetricsCallback()(param(0, accuracy(1, 4)))),
            ["Epoch[1] Validation-accuracy=0.250000"],
        )

    def test_a_bar(self):
        self.assertEqual(self.logged(lambda: callback.ProgressBar(8, 4)(param(3))), ["[==--] 38%\r"])


class CheckpointTest(unittest.TestCase):
    def test_every_so_many_epochs(self):
        with tempfile.TemporaryDirectory() as folder:
            save = callback.do_checkpoint(os.path.join(folder, "net"), 2)
            for epoch in range(4):
                save(epoch, mx.sym.Variable("x"), {"w": nd.ones(1)}, {})
            self.assertEqual(sorted(os.listdir(folder)), ["net-0002.params", "net-0004.params", "net-symbol.json"])
        module = mock.Mock()
        for epoch in range(3):
            callback.module_checkpoint(module, "net", 2, True)(epoch)
        module.save_checkpoint.assert_called_once_with("net", 2, True)


if __name__ == "__main__":
    case_runner.main()
