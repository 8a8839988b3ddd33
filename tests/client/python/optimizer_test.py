"""Optimizers against their formulas, in numpy."""

import unittest
import unittest.mock

import gluond as mx
import numpy as np
from gluond import nd, optimizer
from tests import case_runner
from tests.client.python.array_case import ArrayCase

STEPS = 5


def clip(x, limit):
    return x if limit is None else np.clip(x, -limit, limit)


# Each: f(w, g, t, state, lr, wd, limit) -> new weight; g is rescaled already. State: a dict that begins empty.


def sgd(momentum):
    def step(w, g, t, s, lr, wd, limit):
        s["m"] = momentum * s.get("m", 0) - lr * (clip(g, limit) + wd * w)
        return w + s["m"]

    return step


def nag(w, g, t, s, lr, wd, limit):
    u = clip(g, limit) + wd * w
    before = 0.9 * s.get("m", 0)
    s["m"] = before - lr * u
    return w - before + 1.9 * s["m"]


def moments(w, g, s, wd, limit, beta1=0.9, beta2=0.999):
    g = clip(g + wd * w, limit)
    s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0) + (1 - beta2) * g * g
    return g, s["m"], s["v"]


def adam(w, g, t, s, lr, wd, limit):
    _, m, v = moments(w, g, s, wd, limit)
    return w - lr * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)


def adamax(w, g, t, s, lr, wd, limit):
    g = clip(g + wd * w, limit)
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0), abs(g))
    return w - lr / (1 - 0.9**t) * s["m"] / s["u"]


def nadam(w, g, t, s, lr, wd, limit):
    g, m, v = moments(w, g, s, wd, limit)
    now, then = (0.9 * (1 - 0.5 * 0.96 ** (k * 0.004)) for k in (t, t + 1))
    s["p"] = s.get("p", 1) * now
    mean = (1 - now) * g / (1 - s["p"]) + then * m / (1 - s["p"] * then)
    return w - lr * mean / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def adagrad(w, g, t, s, lr, wd, limit):
    g = clip(g, limit)
    s["h"] = s.get("h", 0) + g * g
    return w - lr * (g / np.sqrt(s["h"] + 1e-7) + wd * w)


def rmsprop(w, g, t, s, lr, wd, limit):
    g = clip(g + wd * w, limit)
    s["n"] = 0.1 * g * g + 0.9 * s.get("n", 0)
    return w - lr * g / np.sqrt(s["n"] + 1e-8)


def rmsprop_centered(w, g, t, s, lr, wd, limit):
    g = clip(g + wd * w, limit)
    s["n"] = 0.1 * g * g + 0.9 * s.get("n", 0)
    s["a"] = 0.1 * g + 0.9 * s.get("a", 0)
    s["d"] = 0.9 * s.get("d", 0) - lr * g / np.sqrt(s["n"] - s["a"] ** 2 + 1e-8)
    return w + s["d"]


def adadelta(w, g, t, s, lr, wd, limit):
    g = clip(g, limit)
    s["n"] = 0.9 * s.get("n", 0) + 0.1 * g * g
    d = np.sqrt(s.get("s", 0) + 1e-5) / np.sqrt(s["n"] + 1e-5) * g
    s["s"] = 0.9 * s.get("s", 0) + 0.1 * d * d
    return w - d - wd * w


def ftrl(w, g, t, s, lr, wd, limit):
    g = clip(g, limit)
    n = s.get("n", 0)
    s["z"] = s.get("z", 0) + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / lr
    s["n"] = n + g * g
    shrunk = np.sign(s["z"]) * 0.01 - s["z"]
    return np.where(abs(s["z"]) > 0.01, shrunk / ((1 + np.sqrt(s["n"])) / lr + wd), 0)


def signum(w, g, t, s, lr, wd, limit):
    s["m"] = 0.9 * s.get("m", 0) - 0.1 * (clip(g, limit) + wd * w)
    return w + lr * np.sign(s["m"])


def signsgd(w, g, t, s, lr, wd, limit):
    return w - lr * (np.sign(clip(g, limit)) + wd * w)


def ftml(w, g, t, s, lr, wd, limit):
    g = clip(g + wd * w, limit)
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    d = (1 - 0.6**t) / lr * (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8)
    s["z"] = 0.6 * s.get("z", 0) + 0.4 * g - (d - 0.6 * s.get("d", 0)) * w
    s["d"] = d
    return -s["z"] / d


def lamb(w, g, t, s, lr, wd, limit):
    g = clip(g, limit)
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    u = s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-6) + wd * w
    return w - lr * np.linalg.norm(w) / np.linalg.norm(u) * u


def lars(w, g, t, s, lr, wd, limit):
    norm = np.linalg.norm(w)
    ratio = 0.001 * norm / (np.linalg.norm(g) + wd * norm)
    s["m"] = 0.9 * s.get("m", 0) - lr * ratio * (clip(g, limit) + wd * w)
    return w + s["m"]


def dcasgd(w, g, t, s, lr, wd, limit):
    g = clip(g, limit)
    before, s["w"] = s.get("w", w), w
    return w - lr * (g + wd * w + 0.04 * g * g * (w - before))


def add(w, g, t, s, lr, wd, limit):
    return w + g


FORMULAS = {
    "sgd": (sgd(0), {}),
    "sgd with momentum": (sgd(0.9), {"momentum": 0.9}),
    "nag": (nag, {"momentum": 0.9}),
    "adam": (adam, {}),
    "adamax": (adamax, {}),
    "nadam": (nadam, {}),
    "adagrad": (adagrad, {}),
    "rmsprop": (rmsprop, {}),
    "rmsprop centered": (rmsprop_centered, {"centered": True}),
    "adadelta": (adadelta, {}),
    "ftrl": (ftrl, {}),
    "signum": (signum, {}),
    "signum without momentum": (signsgd, {"momentum": 0}),
    "ftml": (ftml, {}),
    "lamb": (lamb, {}),
    "lars": (lars, {"momentum": 0.9}),
    "dcasgd": (dcasgd, {}),
    "test": (add, {}),
}


class FormulaTest(ArrayCase):
    def check(self, name, formula, arguments, wd, limit):
        random = np.random.RandomState(1)
        expected = random.randn(4, 3)
        update = optimizer.get_updater(
            optimizer.create(name.split()[0], learning_rate=0.02, wd=wd, rescale_grad=0.5, clip_gradient=limit, **arguments)
        )
        weight, state = nd.array(expected), {}
        for t in range(1, STEPS + 1):
            grad = random.randn(4, 3)
            expected = formula(expected, 0.5 * grad, t, state, 0.02, wd, limit)
            update(0, nd.array(grad), weight)
            self.assert_close(weight, expected, 3e-5)

    def test_plain(self):
        for name, (formula, arguments) in FORMULAS.items():
            with self.subTest(name):
                self.check(name, formula, arguments, 0.0, None)

    def test_with_weight_decay_and_clipping(self):
        for name, (formula, arguments) in FORMULAS.items():
            with self.subTest(name):
                self.check(name, formula, arguments, 0.1, 0.4)

    def test_half_precision_with_a_float32_copy(self):
        for name, arguments in (("sgd", {}), ("sgd", {"momentum": 0.9}), ("adam", {})):
            random = np.random.RandomState(1)
            half = optimizer.get_updater(optimizer.create(name, multi_precision=True, **arguments))
            full = optimizer.get_updater(optimizer.create(name, **arguments))
            weight = nd.array(random.randn(4, 3), dtype="float16")
            other = weight.astype("float32")
            for _ in range(STEPS):
                grad = nd.array(random.randn(4, 3), dtype="float16")
                half(0, grad, weight)
                full(0, grad.astype("float32"), other)
            np.testing.assert_array_equal(weight.asnumpy(), other.asnumpy().astype("float16"))

    def test_many_weights_together_are_as_one_by_one(self):
        kinds = [
            ((4, 3), "float32"),
            ((6,), "float32"),
            ((1,), "float64"),
            ((7, 5), "float16"),
            ((2, 3), "float64"),
            ((1,), "float32"),
        ]
        for name, (_, arguments) in FORMULAS.items():
            for more in ({}, {"multi_precision": True, "clip_gradient": 0.3, "wd": 0.1}):
                with self.subTest(name, **more):
                    random = np.random.RandomState(2)
                    weights = [nd.array(random.randn(*shape), dtype=dtype) for shape, dtype in kinds]
                    others = [weight.copy() for weight in weights]
                    together, apart = (
                        optimizer.get_updater(
                            optimizer.create(
                                name.split()[0],
                                lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.3),
                                param_idx2name={place: f"{place}_weight" for place in range(3)},
                                **{**arguments, **more},
                            )
                        )
                        for _ in range(2)
                    )
                    for updater in (together, apart):
                        updater.optimizer.set_lr_mult({"0_weight": 0.5, 4: 2.0})
                    for _ in range(3):
                        grads = [nd.array(random.randn(*shape), dtype=dtype) for shape, dtype in kinds]
                        together(list(range(len(kinds))), grads, weights)
                        for place, (grad, other) in enumerate(zip(grads, others)):
                            apart(place, grad, other)
                    for weight, other in zip(weights, others):
                        self.assertEqual(weight.asnumpy().tobytes(), other.asnumpy().tobytes())
                    self.assertEqual(together.get_states(dump_optimizer=True), apart.get_states(dump_optimizer=True))

    def test_a_weight_that_comes_twice_takes_two_steps(self):
        update = optimizer.get_updater(optimizer.SGD(learning_rate=1, momentum=0.5))
        weight, grad = nd.zeros(2), nd.ones(2)
        update([0, 1, 0], [grad, grad, grad], [weight, nd.zeros(2), weight])
        self.assert_equal(weight, [-2.5, -2.5])

    def test_an_overridden_update_is_called_for_each_weight(self):
        seen = []

        class Watched(optimizer.SGD):
            def update(self, index, weight, grad, state):
                seen.append(index)
                super().update(index, weight, grad, state)

        weights = [nd.zeros(2), nd.zeros(3)]
        optimizer.get_updater(Watched(learning_rate=1))([4, 7], [nd.ones(2), nd.ones(3)], weights)
        self.assertEqual(seen, [4, 7])
        self.assert_equal(weights[1], [-1, -1, -1])

    def test_an_own_optimizer_that_aggregates_gets_lists(self):
        seen = []

        class Listed(optimizer.SGD):
            def update(self, index, weight, grad, state):
                seen.append(index)
                for each in zip(index, weight, grad, state):
                    super().update(*each)

        listed = Listed(learning_rate=1, momentum=0.5)
        listed.aggregate_num = 2
        update = optimizer.get_updater(listed)
        weights = [nd.zeros(2), nd.zeros(3, dtype="float64"), nd.zeros(1), nd.zeros(4)]
        update([4, 5, 6, 7], [nd.ones_like(each) for each in weights], weights)
        update(4, nd.ones(2), weights[0])
        self.assertEqual(seen, [[4, 6], [7], [5], [4]])
        self.assert_equal(weights[0], [-2.5, -2.5])
        self.assert_equal(weights[1], [-1, -1, -1])

    def test_lists_of_float16_have_float32_masters(self):
        class Listed(optimizer.Optimizer):
            def create_state(self, index, weight):
                return nd.zeros_like(weight)

            def update(self, index, weight, grad, state):
                for each, slope in zip(weight, grad):
                    each -= slope * self.lr

        listed = Listed(learning_rate=2**-12, multi_precision=True)
        listed.aggregate_num = 4
        update = optimizer.get_updater(listed)
        weights = [nd.ones(2, dtype="float16"), nd.ones(3, dtype="float16"), nd.ones(1)]
        for _ in range(4):  # A step alone is too small for float16.
            update([0, 1, 2], [nd.ones_like(each) for each in weights], weights)
        for weight in weights:
            self.assert_equal(weight, [1 - 2**-10] * weight.size)

    def test_a_list_leaves_the_rows_without_a_gradient(self):
        class Listed(optimizer.SGD):
            def update(self, index, weight, grad, state):
                for each in zip(index, weight, grad, state):
                    super().update(*each)

        listed = Listed(learning_rate=1, wd=0.5, multi_precision=False)
        listed.aggregate_num = 4
        listed.leaves_rows = lambda index: index == 1
        weights = [nd.ones((2, 1)), nd.ones((2, 1))]
        grads = [nd.array([[0], [1]]), nd.array([[0], [1]])]
        optimizer.get_updater(listed)([0, 1], grads, weights)
        self.assert_equal(weights[0].reshape(-1), [0.5, -0.5])
        self.assert_equal(weights[1].reshape(-1), [1, -0.5])

    def test_an_updater_of_the_programs_own_gets_single_weights(self):
        seen = []

        class Logged(optimizer.Updater):
            def __call__(self, index, grad, weight):
                seen.append(index)
                super().__call__(index, grad, weight)

        store = mx.kv.create("local")
        store.init([3, 4], [nd.ones(2), nd.ones(2)])
        store.set_updater(Logged(optimizer.SGD(learning_rate=1)))
        store.push([3, 4], [nd.ones(2), nd.ones(2)])
        self.assertEqual(seen, [3, 4])

    def test_a_definition_that_did_not_arrive_is_sent_again(self):
        weights = [nd.ones(2), nd.ones(3)]
        grads = [nd.ones(2), nd.ones(3)]
        update = optimizer.get_updater(optimizer.SGD(learning_rate=1))
        with unittest.mock.patch.object(optimizer.SGD, "_on_server", optimizer.SGD._on_server._replace(name="no such")):
            update([0, 1], grads, weights)
        with self.assertRaisesRegex(mx.MXNetError, "no optimizer 'no such'"):
            weights[0].asnumpy()
        weights = [nd.ones(2), nd.ones(3)]
        update([0, 1], grads, weights)
        self.assert_equal(weights[1], [0, 0, 0])

    def test_half_precision_alone_is_warned_about(self):
        with self.assertWarnsRegex(UserWarning, "Accumulating with float16"):
            optimizer.SGD().create_state_multi_precision(0, nd.ones(2, dtype="float16"))

    def test_a_row_has_one_history_in_group_adagrad(self):
        update = optimizer.get_updater(optimizer.create("groupadagrad", learning_rate=0.5))
        weight, grad = nd.ones((2, 2)), np.array([[3.0, 4], [0, 1]])
        update(0, nd.array(grad), weight)
        history = (grad**2).mean(1, keepdims=True)
        self.assert_close(weight, 1 - 0.5 * grad / np.sqrt(history + 1e-5))

    def test_langevin_noise_has_the_step_s_variance(self):
        mx.random.seed(0)
        weight = nd.zeros((200, 200))
        optimizer.get_updater(optimizer.create("sgld", learning_rate=0.04))(0, nd.ones((200, 200)), weight)
        values = weight.asnumpy()
        self.assertAlmostEqual(values.mean(), -0.02, delta=0.005)
        self.assertAlmostEqual(values.std(), 0.2, delta=0.005)


class OptimizerTest(ArrayCase):
    def test_multipliers_come_from_names_and_indices(self):
        o = optimizer.create("sgd", learning_rate=0.5, wd=0.1, param_idx2name={0: "a_weight", 1: "a_bias", 2: "n_gamma"})
        o.set_lr_mult({"a_bias": 2.0, 0: 3.0})
        self.assertEqual([o._get_lr(i) for i in range(3)], [1.5, 1.0, 0.5])
        self.assertEqual([o._get_wd(i) for i in range(3)], [0.1, 0.0, 0.1])

    def test_a_scheduler_sets_the_rate(self):
        o = optimizer.SGD(learning_rate=1.0, lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0))
        update = optimizer.get_updater(o)
        weight = nd.zeros(1)
        for expected in (-1, -1.5, -1.75):
            update(0, nd.ones(1), weight)
            self.assert_equal(weight, [expected])
        self.assertEqual(o.learning_rate, 0.25)
        with self.assertRaisesRegex(UserWarning, "LRScheduler of the optimizer has already been defined"):
            o.set_learning_rate(1)

    def test_names_are_looked_up(self):
        self.assertIsInstance(optimizer.create("SGD"), optimizer.SGD)
        with self.assertRaisesRegex(ValueError, "Cannot find optimizer agam. Did you mean adam"):
            optimizer.create("agam")

    def test_an_own_optimizer(self):
        @optimizer.register
        class Halve(optimizer.Optimizer):
            def update(self, index, weight, grad, state):
                weight[:] = weight / 2

        weight = nd.array([4])
        optimizer.get_updater(optimizer.create("halve"))(0, nd.ones(1), weight)
        self.assert_equal(weight, [2])

    def test_states_go_on_where_they_were(self):
        for name, arguments in (
            ("sgd", {"momentum": 0.9}),
            ("adam", {}),
            ("nadam", {}),
            ("rmsprop", {"centered": True}),
            ("adam", {"multi_precision": True}),
            ("lars", {"momentum": 0.5}),
        ):
            with self.subTest(name):
                dtype = "float16" if arguments.get("multi_precision") else "float32"
                random = np.random.RandomState(0)
                weight = nd.array(random.randn(2, 3), dtype=dtype)
                grads = [nd.array(random.randn(2, 3), dtype=dtype) for _ in range(6)]
                update = optimizer.get_updater(optimizer.create(name, **arguments))
                for grad in grads[:3]:
                    update(0, grad, weight)
                other = weight.copy()
                resumed = optimizer.get_updater(optimizer.create(name, **arguments))
                resumed.set_states(update.get_states(dump_optimizer=True))
                for grad in grads[3:]:
                    update(0, grad, weight)
                    resumed(0, grad, other)
                np.testing.assert_array_equal(weight.asnumpy(), other.asnumpy())

    def test_states_are_no_pickle(self):
        import pickle

        update = optimizer.get_updater(optimizer.SGD(momentum=0.9))
        update(0, nd.ones(2), nd.ones(2))
        with self.assertRaises(Exception):
            pickle.loads(update.get_states())
        with self.assertRaisesRegex(ValueError, "not states that gluond saved"):
            update.set_states(pickle.dumps({0: 1}))
        with self.assertRaisesRegex(ValueError, "states are of the optimizer SGD, this one is Adam"):
            optimizer.get_updater(optimizer.Adam()).set_states(update.get_states(dump_optimizer=True))


if __name__ == "__main__":
    case_runner.main()
