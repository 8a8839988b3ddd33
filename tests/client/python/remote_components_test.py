"""Losses, optimizers, schedules, metrics and initializers of this package as the server's."""

import unittest

import gluond as mx
from gluond import gluon
from gluond._remote import components
from tests import case_runner


def attributes(component):
    return {key: components.value_of(value) for key, value in component.attributes.items()}


class ComponentTest(unittest.TestCase):
    def test_a_loss_has_its_arguments(self):
        made = components.loss(gluon.loss.HuberLoss(rho=2, weight=0.5))
        self.assertEqual(made.name, "HuberLoss")
        self.assertEqual(attributes(made), {"rho": 2, "weight": 0.5, "batch_axis": 0})
        made = components.loss(gluon.loss.SoftmaxCELoss(sparse_label=False))
        self.assertEqual(made.name, "SoftmaxCrossEntropyLoss")
        self.assertEqual(attributes(made), {"axis": -1, "sparse_label": False, "from_logits": False, "batch_axis": 0})
        self.assertEqual(attributes(components.loss(gluon.loss.L2Loss(weight=None)))["weight"], 2)
        self.assertEqual(attributes(components.loss("L1Loss")), {})

    def test_a_loss_of_the_program_is_refused(self):
        class Own(gluon.loss.L2Loss):
            pass

        with self.assertRaisesRegex(mx.MXNetError, "the loss Own is of this program, .* use a loss of gluon.loss, or make"):
            components.loss(Own())
        with self.assertRaisesRegex(mx.MXNetError, "the loss is a function; want a loss of gluon.loss"):
            components.loss(lambda x, y: x)

    def test_an_optimizer_has_its_arguments(self):
        made, schedule = components.optimizer(mx.optimizer.SGD(momentum=0.9, learning_rate=0.1, wd=1e-4, clip_gradient=2))
        self.assertIsNone(schedule)
        self.assertEqual(made.name, "sgd")
        self.assertEqual(
            attributes(made), {"momentum": 0.9, "learning_rate": 0.1, "wd": 1e-4, "clip_gradient": 2, "multi_precision": False}
        )
        by_name, _ = components.optimizer("adam", {"beta1": 0.5})
        self.assertEqual(
            attributes(by_name),
            {"learning_rate": 0.001, "beta1": 0.5, "beta2": 0.999, "epsilon": 1e-8, "wd": 0, "multi_precision": False},
        )
        self.assertEqual(attributes(components.optimizer("adamw", {"wd": 0.1})[0]), {"wd": 0.1})

    def test_an_optimizer_of_the_program_is_refused(self):
        class Own(mx.optimizer.SGD):
            pass

        with self.assertRaisesRegex(mx.MXNetError, "the optimizer Own is of this program, .* save without the trainer"):
            components.optimizer(Own())
        with self.assertRaisesRegex(mx.MXNetError, "an Optimizer has its own"):
            components.optimizer(mx.optimizer.SGD(), {"learning_rate": 1})

    def test_schedules_begin_where_they_began(self):
        for schedule, expected in (
            (mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.8), {"step": 2, "factor": 0.5, "stop_factor_lr": 1e-8}),
            (mx.lr_scheduler.MultiFactorScheduler([3, 5], 0.1, base_lr=0.8), {"step": [3, 5], "factor": 0.1}),
            (mx.lr_scheduler.PolyScheduler(10, 0.8, 3), {"max_update": 10, "pwr": 3, "final_lr": 0}),
            (mx.lr_scheduler.CosineScheduler(10, 0.8, 0.1), {"max_update": 10, "final_lr": 0.1}),
        ):
            common = {"base_lr": 0.8, "warmup_steps": 0, "warmup_begin_lr": 0, "warmup_mode": "linear"}
            for update in (0, 4, 7):
                schedule(update)
                self.assertEqual(attributes(components.scheduler(schedule, 0.01)), {**expected, **common})

    def test_an_optimizers_rate_is_its_schedules(self):
        schedule = mx.lr_scheduler.FactorScheduler(1, 0.3, base_lr=0.7)
        with self.assertWarns(UserWarning):
            optimizer = mx.optimizer.SGD(learning_rate=0.4, lr_scheduler=schedule)
        schedule(4)
        self.assertEqual(attributes(components.optimizer(optimizer)[1])["base_lr"], 0.4)
        schedule.base_lr = 0.2
        with self.assertRaisesRegex(mx.MXNetError, "has been set by the program, to 0.2 after 3 changes"):
            components.optimizer(optimizer)

    def test_schedules_that_the_server_lacks_are_refused(self):
        class Own(mx.lr_scheduler.LRScheduler):
            pass

        with self.assertRaisesRegex(mx.MXNetError, "the schedule Own is of this program"):
            components.scheduler(Own(), 0.1)

    def test_metrics(self):
        made = components.metrics(["accuracy", mx.metric.TopKAccuracy(5), mx.metric.Accuracy()])
        self.assertEqual(
            [(each.name, attributes(each)) for each in made], [("accuracy", {}), ("top_k_accuracy", {"top_k": 5}), ("accuracy", {})]
        )
        with self.assertRaisesRegex(mx.MXNetError, "the metric F1 is none of the server's; there are 'accuracy'"):
            components.metrics(mx.metric.F1())

    def test_initializers(self):
        for made, expected in (
            (mx.init.Xavier(magnitude=2), {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 2}),
            ("zeros", {}),
            (mx.init.Normal(0.5), {"sigma": 0.5}),
        ):
            self.assertEqual(attributes(components.initializer(made)), expected)

        class Own(mx.init.Initializer):
            pass

        with self.assertRaisesRegex(mx.MXNetError, "the initializer Own is of this program"):
            components.initializer(Own())

    def test_other_values_are_refused(self):
        with self.assertRaisesRegex(mx.MXNetError, r"Constant: value is \{\}; the server takes numbers"):
            components.component("Constant", {"value": {}})


if __name__ == "__main__":
    case_runner.main()
