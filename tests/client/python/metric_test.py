"""Metrics and learning rate schedules."""

import json
import math
import unittest

import numpy as np
from gluond import lr_scheduler, metric, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

RANDOM = np.random.RandomState(4)
SHARES = RANDOM.dirichlet(np.ones(4), 30)
CLASSES = RANDOM.randint(0, 4, 30)
TWO_SHARES = RANDOM.dirichlet(np.ones(2), 30)
TWO = RANDOM.randint(0, 2, 30)
Y, Z = RANDOM.randn(30, 2), RANDOM.randn(30, 2)
CHOSEN = SHARES[np.arange(30), CLASSES]


def counts():
    guess = TWO_SHARES.argmax(1)
    return [int(((TWO == a) & (guess == b)).sum()) for a, b in ((1, 1), (0, 1), (1, 0), (0, 0))]


def f1():
    tp, fp, fn, _ = counts()
    return 2 * tp / (2 * tp + fp + fn)


def mcc():
    tp, fp, fn, tn = counts()
    return (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))


# Name, arguments, labels, predictions, value.
CASES = (
    ("acc", {}, CLASSES, SHARES, (SHARES.argmax(1) == CLASSES).mean()),
    ("accuracy", {}, CLASSES, CLASSES[::-1].copy(), (CLASSES == CLASSES[::-1]).mean()),
    ("top_k_acc", {"top_k": 2}, CLASSES, SHARES, np.mean([c in np.argsort(s)[-2:] for c, s in zip(CLASSES, SHARES)])),
    ("f1", {"average": "micro"}, TWO, TWO_SHARES, f1()),
    ("f1", {}, TWO, TWO_SHARES, f1()),
    ("mcc", {"average": "micro"}, TWO, TWO_SHARES, mcc()),
    ("pcc", {}, TWO, TWO_SHARES, mcc()),
    ("perplexity", {"ignore_label": None}, CLASSES, SHARES, np.exp(-np.log(CHOSEN).mean())),
    ("perplexity", {"ignore_label": 1}, CLASSES, SHARES, np.exp(-np.log(CHOSEN[CLASSES != 1]).mean())),
    ("mae", {}, Y, Z, abs(Y - Z).mean()),
    ("mse", {}, Y, Z, ((Y - Z) ** 2).mean()),
    ("rmse", {}, Y, Z, np.sqrt(((Y - Z) ** 2).mean())),
    ("ce", {}, CLASSES, SHARES, -np.log(CHOSEN).mean()),
    ("nll_loss", {}, CLASSES, SHARES, -np.log(CHOSEN).mean()),
    ("pearsonr", {}, Y, Z, np.corrcoef(Y.ravel(), Z.ravel())[0, 1]),
    ("pearsonr", {"average": "micro"}, Y, Z, np.corrcoef(Y.ravel(), Z.ravel())[0, 1]),
    ("loss", {}, Y, Z, Z.mean()),
)


class MetricTest(ArrayCase):
    def test_a_metric_is_made_of_its_settings_and_of_them_as_json(self):
        both = metric.create(metric.CompositeEvalMetric(["acc", metric.MAE(name="mine")]).get_config())
        self.assertEqual([(type(each), each.name) for each in both.metrics], [(metric.Accuracy, "accuracy"), (metric.MAE, "mine")])
        made = metric.create(json.dumps(metric.TopKAccuracy(3).get_config()))
        self.assertEqual((type(made), made.top_k), (metric.TopKAccuracy, 3))

    def test_values(self):
        for name, arguments, labels, preds, expected in CASES:
            with self.subTest(name, **arguments):
                m = metric.create(name, **arguments)
                self.assertTrue(math.isnan(m.get()[1]))
                m.update([nd.array(labels)], [nd.array(preds)])
                self.assertAlmostEqual(m.get()[1], expected, places=4)

    def test_sums_run_over_batches(self):
        for name, arguments, labels, preds, expected in CASES:
            if name in ("f1", "rmse", "pearsonr") and arguments.get("average") != "micro" or name in ("mae", "mse"):
                continue  # Means of batches.
            with self.subTest(name, **arguments):
                m = metric.create(name, **arguments)
                for part in (slice(0, 11), slice(11, 30)):
                    m.update(nd.array(labels[part]), nd.array(preds[part]))
                self.assertAlmostEqual(m.get()[1], expected, places=4)

    def test_a_mean_of_batches(self):
        m = metric.MSE()
        m.update(nd.array([1, 2]), nd.array([1, 4]))
        m.update(nd.array([0]), nd.array([1]))
        self.assertEqual(m.get(), ("mse", 1.5))

    def test_local_and_global(self):
        m = metric.Accuracy()
        m.update(nd.array([0, 1]), nd.array([0, 1]))
        m.reset_local()
        m.update(nd.array([0, 1]), nd.array([1, 0]))
        self.assertEqual(m.get(), ("accuracy", 0.0))
        self.assertEqual(m.get_global(), ("accuracy", 0.5))
        m.reset()
        self.assertTrue(math.isnan(m.get_global()[1]))

    def test_several_as_one(self):
        m = metric.create(["acc", "ce"])
        m.update([nd.array(CLASSES)], [nd.array(SHARES)])
        self.assertEqual(m.get()[0], ["accuracy", "cross-entropy"])
        self.assertAlmostEqual(m.get()[1][1], CASES[12][4], places=4)
        self.assertEqual([name for name, _ in m.get_name_value()], ["accuracy", "cross-entropy"])

    def test_own_metrics(self):
        def distance(label, pred):
            return abs(label - pred).sum(), label.size

        m = metric.np(distance)
        m.update(nd.array(Y), nd.array(Z))
        self.assertEqual(m.get()[0], "distance")
        self.assertAlmostEqual(m.get()[1], abs(Y - Z).mean(), places=4)
        self.assertEqual(metric.create(lambda label, pred: 2).name, "custom(<lambda>)")

    def test_names_choose_from_dicts(self):
        m = metric.Accuracy(output_names=["out"], label_names=["label"])
        m.update_dict({"label": nd.array([1]), "other": nd.array([2])}, {"out": nd.array([1]), "more": nd.array([3])})
        self.assertEqual(m.get()[1], 1.0)

    def test_mistakes(self):
        with self.assertRaisesRegex(ValueError, "Shape of labels 1 does not match shape of predictions 2"):
            metric.Accuracy().update([nd.array([1])], [nd.array([1]), nd.array([1])])
        with self.assertRaisesRegex(ValueError, "only supports binary classification"):
            metric.F1().update(nd.array([0, 1, 2]), nd.array(SHARES[:3]))
        with self.assertRaisesRegex(ValueError, "Cannot find metric acuracy. Did you mean accuracy"):
            metric.create("acuracy")


class Own(metric.EvalMetric):
    """As programs write them: the sums are arrays."""

    def __init__(self, count):
        self._count = count
        super().__init__("own")

    def update(self, labels, preds):
        for label, pred in zip(labels, preds):
            self.sum_metric += (label - pred).abs().sum()
            self.num_inst += self._count(label)


class OwnMetricTest(ArrayCase):
    def test_sums_and_counts_may_be_arrays(self):
        for count in (lambda x: x.size, lambda x: nd.array([x.size]), lambda x: nd.ones_like(x).sum(), lambda x: np.int64(x.size)):
            own = Own(count)
            self.assertTrue(math.isnan(own.get()[1]))
            for each in range(2):
                own.update([nd.array(Y)], [nd.array(Z)])
            name, value = own.get()
            self.assertEqual(name, "own")
            self.assertAlmostEqual(float(value), abs(Y - Z).mean(), 5)
            self.assertAlmostEqual(float(own.get_global()[1]), abs(Y - Z).mean(), 5)
            self.assertEqual(own.get_name_value()[0][0], "own")
            own.reset()
            self.assertTrue(math.isnan(own.get_global()[1]))

    def test_one_among_others_is_given_arrays(self):
        both = metric.CompositeEvalMetric([Own(lambda x: x.size), "mae"])
        both.update([nd.array(Y)], [nd.array(Z)])
        self.assertEqual(both.get()[0], ["own", "mae"])
        for value in both.get()[1]:
            self.assertAlmostEqual(float(value), abs(Y - Z).mean(), 5)

    def test_resets_that_call_each_other(self):
        class Resets(metric.EvalMetric):
            def reset_local(self):
                self.reset()

        self.assertTrue(math.isnan(Resets("resets").get()[1]))
        Resets("resets").reset_local()

    def test_global_sums_are_those_that_a_metric_keeps(self):
        class Keeps(Own):
            def __init__(self):
                metric.EvalMetric.__init__(self, "keeps", has_global_stats=True)

            def update(self, labels, preds):
                self.sum_metric, self.num_inst = self.sum_metric + 1, self.num_inst + 1
                self.global_sum_metric, self.global_num_inst = self.global_sum_metric + 3, self.global_num_inst + 1

        keeps = Keeps()
        keeps.update(None, None)
        keeps.reset_local()
        self.assertTrue(math.isnan(keeps.get()[1]))
        self.assertEqual(keeps.get_global(), ("keeps", 3))
        self.assertNotIn("has_global_stats", keeps.get_config())

    def test_a_function_may_give_arrays(self):
        for gives in (
            lambda label, pred: np.float32(2),
            lambda label, pred: nd.array([2]),
            lambda label, pred: np.array([2.0]),
            lambda label, pred: (nd.array([4]), nd.array([2])),
            lambda label, pred: (np.array([4]), 2),
        ):
            own = metric.create(gives)
            own.update([nd.array(Y)], [nd.array(Z)])
            self.assertEqual(float(own.get()[1]), 2)
        each = metric.np(lambda label, pred: np.abs(label - pred).mean(axis=0))
        each.update([nd.array(Y)], [nd.array(Z)])
        np.testing.assert_allclose(each.get()[1], abs(Y - Z).mean(axis=0), rtol=1e-5)


class ScheduleTest(unittest.TestCase):
    def rates(self, schedule, updates):
        return [round(schedule(update), 6) for update in updates]

    def test_factor(self):
        self.assertEqual(
            self.rates(lr_scheduler.FactorScheduler(2, 0.5, stop_factor_lr=0.2, base_lr=1.0), range(1, 9)),
            [1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2],
        )

    def test_several_factors(self):
        self.assertEqual(
            self.rates(lr_scheduler.MultiFactorScheduler([2, 5], 0.1, base_lr=1.0), range(1, 8)), [1, 1, 0.1, 0.1, 0.1, 0.01, 0.01]
        )

    def test_polynomial_and_cosine(self):
        self.assertEqual(self.rates(lr_scheduler.PolyScheduler(4, 1.0, 2, 0.2), range(6)), [1, 0.65, 0.4, 0.25, 0.2, 0.2])
        self.assertEqual(self.rates(lr_scheduler.CosineScheduler(4, 1.0), range(6)), [1, 0.853553, 0.5, 0.146447, 0, 0])

    def test_warming_up(self):
        warm = {"base_lr": 1.0, "warmup_steps": 4, "warmup_begin_lr": 0.2}
        self.assertEqual(self.rates(lr_scheduler.FactorScheduler(100, **warm), range(6)), [0.2, 0.4, 0.6, 0.8, 1, 1])
        self.assertEqual(
            self.rates(lr_scheduler.CosineScheduler(8, warmup_mode="constant", **warm), range(5)), [0.2, 0.2, 0.2, 0.2, 1]
        )

    def test_mistakes(self):
        for make, text in (
            (lambda: lr_scheduler.FactorScheduler(0), "greater or equal than 1"),
            (lambda: lr_scheduler.FactorScheduler(1, 2), "no more than 1"),
            (lambda: lr_scheduler.MultiFactorScheduler([3, 2]), "increasing"),
            (lambda: lr_scheduler.PolyScheduler(0), "strictly positive"),
            (lambda: lr_scheduler.LRScheduler(warmup_mode="square"), "linear and constant"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                make()


if __name__ == "__main__":
    case_runner.main()
