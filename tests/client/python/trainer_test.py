"""Trainer: steps, stale gradients, several contexts, states."""

import gc
import os
import tempfile
import unittest
import warnings
from unittest import mock

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._wire import optimizers
from gluond.gluon import nn
from gluond.optimizer._on_server import ServerSteps
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def dense(**kwargs):
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One(), **kwargs)
    return net


def step(net, trainer, x, batch_size=1, **kwargs):
    with autograd.record():
        y = net(nd.array(x)).sum()
    y.backward()
    trainer.step(batch_size, **kwargs)


class StepTest(ArrayCase):
    def test_there_is_no_kvstore_to_start(self):
        self.assertTrue(gluon.Trainer(gluon.ParameterDict(), "sgd")._kv_initialized)
        for contexts, kvstore, kind, update in (
            (1, "device", type(None), None),
            (2, None, type(None), None),
            (2, "local", mx.kv.KVStore, False),
            (1, mx.kv.create(), mx.kv.KVStore, False),
        ):
            parameter = gluon.Parameter("x", shape=(2,))
            parameter.initialize(ctx=[mx.cpu(place) for place in range(contexts)])
            trainer = gluon.Trainer([parameter], "sgd", kvstore=kvstore)
            self.assertIsInstance(trainer._kvstore, kind)
            self.assertIs(trainer._update_on_kvstore, update)

    def test_a_step_divides_by_the_batch(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        step(net, trainer, [[1, 2], [3, 4]], 2)
        self.assert_equal(net.weight.data(), [[0, -0.5]])

    def test_rescale_grad_stays_a_factor(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "rescale_grad": 0.1})
        step(net, trainer, [[10, 20]])
        self.assert_close(net.weight.data(), [[0.5, 0]])

    def test_momentum_is_kept_on_the_server(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1, "momentum": 0.5})
        for expected in (0, -1.5, -3.25):
            step(net, trainer, [[1, 1]])
            self.assert_equal(net.weight.data(), [[expected] * 2])

    def test_multipliers_of_parameters(self):
        net = dense()
        net.weight.lr_mult = 2.0
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.25})
        step(net, trainer, [[1, 2]])
        self.assert_equal(net.weight.data(), [[0.5, 0]])

    def test_the_learning_rate_is_read_and_set(self):
        trainer = gluon.Trainer(dense().collect_params(), "sgd", {"learning_rate": 0.25})
        trainer.set_learning_rate(0.5)
        self.assertEqual(trainer.learning_rate, 0.5)

    def test_gradients_are_accumulated_over_batches(self):
        net = dense()
        net.collect_params().setattr("grad_req", "add")
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
        for _ in range(2):
            with autograd.record():
                net(nd.array([[1, 2]])).backward()
        trainer.step(2)
        self.assert_equal(net.weight.data(), [[0, -1]])
        net.collect_params().zero_grad()
        self.assert_equal(net.weight.grad(), [[0, 0]])

    def test_something_happens_between_sum_and_update(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
        with autograd.record():
            net(nd.array([[30, 40]])).backward()
        trainer.allreduce_grads()
        norm = gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 5.0)
        trainer.update(1)
        self.assertAlmostEqual(norm, 50, places=4)
        self.assert_close(net.weight.data(), [[-2, -3]])

    def test_devices_share_the_sum_of_gradients(self):
        contexts = [mx.cpu(0), mx.cpu(1)]
        net = dense(ctx=contexts)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
        for expected in ([[0, -0.5]], [[-1.9, -3.35]]):
            parts = gluon.utils.split_and_load(np.array([[1, 2], [3, 4]]), contexts)
            with autograd.record():
                results = [net(part) for part in parts]
            for result in results:
                result.backward()
            trainer.step(2)
            for weight in net.weight.list_data():
                self.assert_close(weight, expected)


class StaleTest(ArrayCase):
    def setUp(self):
        self.used, self.unused = dense(), dense()
        params = self.used.collect_params()
        params.update(self.unused.collect_params())
        self.trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1, "wd": 0.5, "momentum": 0.9})

    def test_a_stale_gradient_is_an_error(self):
        with self.assertRaisesRegex(Exception, "has not been updated by backward since( the)? last"):
            step(self.used, self.trainer, [[1, 1]])
            nd.waitall()

    def test_it_keeps_all_weights_from_being_updated(self):
        with self.assertRaises(Exception):
            step(self.used, self.trainer, [[1, 1]])
            nd.waitall()
        self.assert_equal(self.used.weight.data(), [[1, 1]])
        self.assert_equal(self.unused.weight.data(), [[1, 1]])

    def test_a_second_step_without_backward_is_one(self):
        trainer = gluon.Trainer(self.used.collect_params(), "sgd")
        step(self.used, trainer, [[1, 1]])
        nd.waitall()
        with self.assertRaisesRegex(Exception, "has not been updated by backward since( the)? last"):
            trainer.step(1)
            nd.waitall()

    def test_stale_parameters_can_be_left_alone(self):
        step(self.used, self.trainer, [[1, 1]], ignore_stale_grad=True)
        self.assert_equal(self.used.weight.data(), [[-0.5, -0.5]])
        self.assert_equal(self.unused.weight.data(), [[1, 1]])

    def test_nor_does_an_optimizer_touch_them_that_computes_with_numpy(self):
        class Constant(mx.optimizer.Optimizer):
            def create_state(self, index, weight):
                return None

            def update(self, index, weight, grad, state):
                weight[:] = value

        for value in (np.full((1, 2), 7, np.float32), 7):
            for net in (self.used, self.unused):
                net.weight.set_data(nd.ones((1, 2)))
            trainer = gluon.Trainer([self.used.weight, self.unused.weight], Constant())
            step(self.used, trainer, [[1, 1]], ignore_stale_grad=True)
            self.assert_equal(self.used.weight.data(), [[7, 7]])
            self.assert_equal(self.unused.weight.data(), [[1, 1]])


def values(state):
    """The bytes of a state's arrays."""
    if isinstance(state, (list, tuple)):
        return [each for part in state for each in values(part)]
    return [] if state is None else [state.asnumpy().tobytes()]


class ServerStepsTest(ArrayCase):
    """A trainer's step is one command to the server's optimizer, where it has the trainer's. Its bits are those of `update`."""

    CASES = [
        ("sgd", {}),
        ("sgd", {"momentum": 0.9}),
        ("ccsgd", {"momentum": 0.9, "clip_gradient": 0.3}),
        ("nag", {"momentum": 0.9}),
        ("signum", {"wd_lh": 0.01}),
        ("signum", {"momentum": 0.0}),
        ("lars", {"momentum": 0.9}),
        ("lars", {"momentum": 0.9, "momentum_correction": False}),
        ("dcasgd", {"momentum": 0.9}),
        ("dcasgd", {}),
        ("adam", {}),
        ("adam", {"beta1": 0.5, "epsilon": 1e-4, "clip_gradient": 0.3}),
        ("adamax", {}),
        ("nadam", {"schedule_decay": 0.1}),
        ("ftml", {"learning_rate": 0.01}),
        ("lamb", {"lower_bound": 0.1, "upper_bound": 2.0}),
        ("lamb", {"bias_correction": False}),
        ("adagrad", {}),
        ("rmsprop", {}),
        ("rmsprop", {"centered": True, "clip_weights": 0.5}),
        ("adadelta", {}),
        ("ftrl", {"lamda1": 0.001}),
    ]

    def setUp(self):
        self.steps = 0
        define, step = optimizers.SessionOptimizer.define, optimizers.SessionOptimizer.step

        def counted(optimizer, *arguments):
            self.steps += 1
            return step(optimizer, *arguments)

        patch = mock.patch.multiple(optimizers.SessionOptimizer, step=counted, define=define)
        patch.start()
        self.addCleanup(patch.stop)

    def train(self, name, arguments, dtype, steps=4, change=None):
        """The bytes of weights and states after some steps."""
        mx.random.seed(3)
        np.random.seed(3)
        params = [gluon.Parameter(each, shape=shape, dtype=dtype) for each, shape in (("a_weight", (3, 4)), ("b_bias", (5,)))]
        for param in params:
            param.initialize(mx.init.Uniform(1))
        params[0].lr_mult, params[1].wd_mult = 0.5, 0.25
        schedule = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
        trainer = gluon.Trainer(params, mx.optimizer.create(name, wd=0.01, lr_scheduler=schedule, **arguments))
        for number in range(steps):
            with autograd.record():
                loss = sum((param.data() ** 2 * (number + 1)).sum() for param in params)
            loss.backward()
            if change is not None and number == steps // 2:
                change(trainer, params)
            trainer.step(2)
        states = trainer._updaters[0].get_states(dump_optimizer=True)
        return [param.data().asnumpy().tobytes() for param in params], states

    def check(self, *arguments, served=True, **more):
        before = self.steps
        ours = self.train(*arguments, **more)
        self.assertEqual(self.steps > before, served, "the server's optimizer steps")
        with mock.patch.object(ServerSteps, "take_over", lambda *_: False):
            self.assertEqual(ours, self.train(*arguments, **more))

    def test_each_optimizer_has_the_bits_of_its_update(self):
        for name, arguments in self.CASES:
            with self.subTest(name, **arguments):
                self.check(name, arguments, "float32")

    def test_each_optimizer_does_so_in_float16_with_a_float32_copy(self):
        for name, arguments in self.CASES:
            with self.subTest(name, **arguments):
                self.check(name, {"multi_precision": True, **arguments}, "float16")

    def test_one_operator_does_so_in_float16(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check("adam", {"epsilon": 1e-3}, "float16")
            self.check("adagrad", {}, "float16", served=False)  # The server would compute in float32.

    def test_the_server_has_each_optimizer_but_those_of_another_noise(self):
        library = mx.optimizer.Optimizer.__module__.partition(".")[0]
        others = {
            name
            for name, kind in mx.optimizer.Optimizer.opt_registry.items()
            if kind.__module__.partition(".")[0] == library and (kind._on_server is None or not kind._on_server.steps)
        }
        self.assertEqual(others, {"sgld", "test"})
        self.assertEqual(
            {name for name, _ in self.CASES} | {"groupadagrad"} | others,
            {name for name, kind in mx.optimizer.Optimizer.opt_registry.items() if kind.__module__.partition(".")[0] == library},
        )

    def test_matrices_of_embeddings(self):
        results = []
        for served in (True, False):
            with mock.patch.object(ServerSteps, "take_over", ServerSteps.take_over if served else lambda *_: False):
                param = gluon.Parameter("a", shape=(3, 2))
                param.initialize(mx.init.Constant(0.5))
                trainer = gluon.Trainer([param], "groupadagrad", {"learning_rate": 0.1})
                for _ in range(3):
                    with autograd.record():
                        loss = (param.data() ** 2).sum()
                    loss.backward()
                    trainer.step(1)
                results.append((param.data().asnumpy().tobytes(), trainer._updaters[0].get_states()))
        self.assertEqual(*results)
        self.assertEqual(self.steps, 3)

    def test_a_change_counts_from_the_next_step_on(self):
        def rates(trainer, params):
            trainer.optimizer.wd = 0.5
            trainer.optimizer.beta1 = 0.25
            params[1].lr_mult = 3.0

        def weight(trainer, params):
            params[0].set_data(nd.ones((3, 4)))

        def momentum(trainer, params):
            trainer.optimizer.momentum = 0.5

        self.check("adam", {}, "float32", change=rates)
        self.check("adam", {}, "float32", change=weight)
        self.check("sgd", {"momentum": 0.9}, "float32", change=momentum)
        self.check("sgd", {}, "float32", change=momentum)  # Without a state for it: `update` goes on without momentum.

    def test_states_that_are_loaded_go_on(self):
        def load(trainer, params):
            with tempfile.TemporaryDirectory() as folder:
                trainer.save_states(os.path.join(folder, "states"))
                trainer.load_states(os.path.join(folder, "states"))

        for name, arguments in (("adam", {}), ("nadam", {}), ("lars", {"momentum": 0.9})):
            self.check(name, arguments, "float32", change=load)

    def test_random_numbers_of_the_program_stay_what_they_were(self):
        results = []
        for served in (True, False):
            with mock.patch.object(ServerSteps, "take_over", ServerSteps.take_over if served else lambda *_: False):
                mx.random.seed(5)
                net = nn.HybridSequential()
                net.add(nn.Dense(4, in_units=3), nn.Dropout(0.5), nn.Dense(2, in_units=4))
                net.initialize(mx.init.One())
                net.hybridize()
                trainer = gluon.Trainer(net.collect_params(), "nadam")
                for _ in range(4):
                    step(net, trainer, [[1, 2, 3], [4, 5, 6]], 2)
                results.append([param.data().asnumpy().tobytes() for param in net.collect_params().values()])
        self.assertEqual(*results)

    def test_numbers_by_index_are_the_programs_to_set(self):
        def halve(trainer, params):
            for table in (vars(trainer.optimizer).get("m_schedule"), vars(trainer.optimizer).get("last_lr")):
                for index in table or ():
                    table[index] /= 2

        self.check("nadam", {}, "float32", change=halve)
        self.check("lars", {"momentum": 0.9}, "float32", change=halve)

    def test_a_class_of_the_program_takes_its_own_steps(self):
        class Renamed(mx.optimizer.Adam):
            def __init__(self, **kwargs):
                super().__init__(beta1=0.8, **kwargs)

        class Slower(mx.optimizer.Adam):
            def _get_lr(self, index):
                return super()._get_lr(index) / 2

        class Watched(mx.optimizer.SGD):
            def update(self, index, weight, grad, state):
                super().update(index, weight, grad, state)
                weight += 1

        mx.optimizer.register(Renamed), mx.optimizer.register(Slower), mx.optimizer.register(Watched)
        self.check("renamed", {}, "float32")
        self.check("slower", {}, "float32", served=False)
        self.check("watched", {}, "float32", served=False)

    def test_attributes_that_the_server_refuses(self):
        self.check("sgd", {"momentum": -0.5}, "float32", served=False)
        self.check("adagrad", {"clip_gradient": 0}, "float32", served=False)

    def test_a_wrong_call_is_an_error_of_the_line(self):
        param = gluon.Parameter("a", shape=(3,))
        param.initialize(mx.init.One())
        trainer = gluon.Trainer([param], "adam")
        with autograd.record():
            loss = param.data().sum()
            loss.backward()
            with self.assertRaisesRegex(mx.base.MXNetError, "computational graph"):
                trainer.step(1)

    def test_a_server_without_optimizers_is_sent_operators(self):
        session = nd.ones(1)._session
        with mock.patch.object(type(session), "features", ()):
            self.check("adam", {}, "float32", served=False)

    def test_what_nobody_has_is_freed(self):
        param = gluon.Parameter("a", shape=(3,))
        param.initialize(mx.init.One())
        trainer = gluon.Trainer([param], "adam")
        with autograd.record():
            loss = param.data().sum()
        loss.backward()
        trainer.step(1)
        session, freed = param.data()._session, []
        with mock.patch.object(session, "dead_optimizers", freed):
            del trainer
            gc.collect()
        self.assertEqual(len(freed), 1)


class EveryOptimizerTest(ArrayCase):
    """What an update that is not made leaves as it is, with each optimizer that has a name."""

    # Arguments with which an optimizer has more states.
    MORE = {name: {"momentum": 0.9} for name in ("sgd", "ccsgd", "nag", "lars", "dcasgd")}
    MORE["rmsprop"] = {"centered": True}

    def check_each(self, check):
        library = mx.optimizer.Optimizer.__module__.partition(".")[0]
        for name, kind in sorted(mx.optimizer.Optimizer.opt_registry.items()):
            if kind.__module__.partition(".")[0] != library:  # Another test's.
                continue
            for dtype in ("float32", "float16"):
                for arguments in ({}, self.MORE[name]) if name in self.MORE else ({},):
                    with self.subTest(name, dtype=dtype, **arguments):
                        self.begin(name, dtype, {"multi_precision": True, **arguments})
                        check()

    def begin(self, name, dtype, arguments):
        """Makes three parameters and their trainer, and trains them all for a step."""
        self.params = [gluon.Parameter(each, shape=(2, 3), dtype=dtype) for each in "abc"]
        for param in self.params:
            param.initialize(mx.init.Uniform(1))
        self.trainer = gluon.Trainer(self.params, name, arguments)
        self.backward(self.params)
        self.trainer.step(1)

    def backward(self, params):
        with autograd.record():
            loss = sum((param.data() ** 2).sum() for param in params)
        loss.backward()

    def now(self):
        """The bytes of each parameter's weight and states."""
        states = self.trainer._updaters[0].states
        return [[param.data().asnumpy().tobytes(), *values(states[place])] for place, param in enumerate(self.params)]

    def test_a_parameter_that_is_left_out_keeps_weight_and_states(self):
        def check():
            a, b, c = self.now()
            counts = dict(self.trainer._optimizer._index_update_count)
            self.backward(self.params[::2])
            self.trainer.step(1, ignore_stale_grad=True)
            after = self.now()
            self.assertEqual(after[1], b)
            counted = {place: count + (place != 1) for place, count in counts.items()}
            self.assertEqual(self.trainer._optimizer._index_update_count, counted)
            for before, used in ((a, after[0]), (c, after[2])):
                self.assertNotEqual(before, used)
            self.backward(self.params)
            self.trainer.step(1)
            self.assertNotEqual(self.now()[1], b)

        self.check_each(check)

    def test_a_step_that_is_refused_changes_nothing(self):
        def check():
            before = self.now()
            self.backward(self.params[:2])
            with self.assertRaisesRegex(UserWarning, "`c`.*has not been updated by backward"):
                self.trainer.step(1)
                nd.waitall()
            self.assertEqual(self.now(), before)
            self.backward(self.params)
            self.trainer.step(1)
            for x, y in zip(before, self.now()):
                self.assertNotEqual(x, y)

        self.check_each(check)

    def test_an_own_one_that_calls_as_mxnets(self):
        class Own(mx.optimizer.Optimizer):
            def create_state(self, index, weight):
                state = nd.zeros(weight.shape), nd.zeros(weight.shape)
                state[0][:] = 1
                return state

            def update(self, index, weight, grad, state):
                step = nd.lamb_update_phase1(weight, grad, *state, t=1, wd=0.5)
                nd.lamb_update_phase2(weight, step, weight.norm(), step.norm(), lr=0.1, out=weight)

        self.begin(Own(), "float32", None)
        self.trainer._updaters[0].states.clear()
        self.backward(self.params[:1])
        self.trainer.step(1, ignore_stale_grad=True)
        self.assertEqual(sorted(self.trainer._updaters[0].states), [0])
        with self.assertRaisesRegex(UserWarning, "`a`.*has not been updated by backward"):
            self.trainer.step(1)
            nd.waitall()
        for mean, var in list(self.trainer._updaters[0].states.values())[1:]:
            self.assertEqual([mean.asnumpy().min(), var.asnumpy().max()], [1, 0])


class StatesTest(ArrayCase):
    def test_training_goes_on_where_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "net.params")
            states = os.path.join(folder, "net.states")
            results = []
            for resumed in (False, True):
                net = dense()
                trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
                if resumed:
                    net.load_parameters(weights)
                    trainer.load_states(states)
                else:
                    for _ in range(3):
                        step(net, trainer, [[1, 2]])
                    net.save_parameters(weights)
                    trainer.set_learning_rate(0.05)
                    trainer.save_states(states)
                self.assertEqual(trainer.learning_rate, 0.05)
                for _ in range(3):
                    step(net, trainer, [[2, -1]])
                results.append(net.weight.data().asnumpy())
            np.testing.assert_array_equal(*results)


class DevicesTest(ArrayCase):
    def test_an_update_on_several_devices_is_one_step_of_the_schedule_and_of_adam(self):
        alone, both = (self.trained(contexts) for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]))
        self.assertEqual(both[0], alone[0])
        self.assert_close(both[1], alone[1].asnumpy())

    def trained(self, contexts):
        """The rates of three steps, and the weight after them. Each device has its part of the same gradient."""
        weight = gluon.Parameter("weight", shape=(2,))
        weight.initialize(mx.init.One(), ctx=contexts)
        schedule = mx.lr_scheduler.FactorScheduler(1, factor=0.5, base_lr=0.1)
        trainer = gluon.Trainer([weight], "adam", {"lr_scheduler": schedule})
        rates = []
        for _ in range(3):
            with autograd.record():
                losses = [(each * each).sum() / len(contexts) for each in weight.list_data()]
            for loss in losses:
                loss.backward()
            trainer.step(1)
            rates.append(trainer.learning_rate)
        return rates, weight.data(contexts[-1])


class MistakesTest(ArrayCase):
    def test_what_is_no_parameter(self):
        with self.assertRaisesRegex(ValueError, "First argument must be a list or dict of Parameters, got list of"):
            gluon.Trainer([1], "sgd")
        with self.assertRaisesRegex(ValueError, "First argument must be a list or dict of Parameters, got <class 'int'>"):
            gluon.Trainer(1, "sgd")

    def test_parameters_without_values(self):
        with self.assertRaisesRegex(RuntimeError, "has not been initialized"):
            gluon.Trainer(nn.Dense(2).collect_params(), "sgd")

    def test_optimizers(self):
        params = dense().collect_params()
        with self.assertRaisesRegex(AssertionError, "optimizer_params must be None if optimizer is an instance"):
            gluon.Trainer(params, mx.optimizer.SGD(), {"learning_rate": 1})
        with self.assertRaisesRegex(ValueError, "Cannot find optimizer"):
            gluon.Trainer(params, "sdg")
        with self.assertRaisesRegex(TypeError, "lerning_rate"):
            gluon.Trainer(params, "sgd", {"lerning_rate": 1})
        with self.assertRaisesRegex(ValueError, "there is no kvstore 'dist_sync'"):
            gluon.Trainer(params, "sgd", kvstore="dist_sync")

    def test_parameters_on_different_contexts(self):
        params = dense().collect_params()
        params.update(dense(ctx=mx.cpu(1)).collect_params())
        with self.assertRaisesRegex(AssertionError, "must be initialized on the same set of contexts"):
            gluon.Trainer(params, "sgd")


if __name__ == "__main__":
    case_runner.main()
