"""mx.save_session and mx.attach: what was saved comes back as it was, in any process."""

import datetime
import types

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._wire import connect
from gluond._wire.waiter import client_id
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.saved_case import SessionCase, bits, network, program, started, train, trained

CONTINUE = """
import gluond as mx
from tests.client.python import saved_case
mx.connect(%r)
work = mx.attach("run")
saved_case.train(work.net, work.trainer)
print(saved_case.bits(work.net), work.trainer.learning_rate)
"""


class OwnNet(gluon.Block):
    """A network that is no graph."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Dense(8, activation="relu", in_units=4)
            self.second = nn.Dense(3, in_units=8)

    def forward(self, x):
        return self.second(self.first(x))


class RoundTripTest(SessionCase):
    def test_arrays_of_each_type(self):
        made = {
            "f32": nd.array([[1.5, -2]]),
            "f16": nd.array([1, 2], dtype="float16"),
            "f64": nd.array([0.1], dtype="float64"),
            "i8": nd.array([-1], dtype="int8"),
            "i64": nd.array([1 << 40], dtype="int64"),
            "mask": nd.array([1, 2]) > 1,
            "one": nd.ones((1, 1)),
            "empty": nd.array(np.zeros((0, 3))),
            "scalar": nd.array(7.0),
        }
        mx.save_session("run", **made)
        work = mx.attach("run")
        self.assertEqual(list(work), list(made))
        for name, each in made.items():
            self.assert_equal(work[name], each.asnumpy(), each.dtype)

    def test_a_marked_gradient_with_its_value(self):
        for request, expected in (("write", [6, 6]), ("add", [12, 12])):
            w = nd.array([1, 2])
            w.attach_grad(request)
            with autograd.record():
                loss = (6 * w).sum()
            loss.backward()
            mx.save_session("run", w=w, other=w)
            work = mx.attach("run")
            self.assertIs(work.w, work.other)
            self.assert_equal(work.w.grad, np.array([6, 6]))
            with autograd.record():
                loss = (6 * work.w).sum()
            loss.backward()
            self.assert_equal(work.w.grad, np.array(expected))
        w.attach_grad("null")
        mx.save_session("run", w=w)
        self.assertIsNone(mx.attach("run").w.grad)

    def test_a_view_is_its_values(self):
        x = nd.arange(6).reshape((2, 3))
        mx.save_session("run", row=x[1])
        x[:] = 0
        self.assert_equal(mx.attach("run").row, np.array([3, 4, 5]))

    def test_containers_and_numbers(self):
        made = {"plain": [1, 2.5, float("inf"), "é\ud800", True, None, -(1 << 80)], "pair": (1, [2, ({"a": ()},)]), "none": {}}
        mx.save_session("run", **made)
        self.assertEqual(dict(mx.attach("run")), made)

    def test_numpy(self):
        made = {
            "a": np.arange(6, dtype=">u2").reshape(2, 3),
            "c": np.array([1 + 2j]),
            "s": np.array(["ab", "c"]),
            "e": np.zeros((0, 2)),
            "d": np.array(3.5),
            "t": np.array(["2026-01-01"], "M8[D]"),
            "f": np.asfortranarray(np.eye(2)),
        }
        scalars = [np.float32(0.1), np.int8(-3), np.bool_(True), np.float64(0.1)]
        mx.save_session("run", scalars=scalars, **made)
        work = mx.attach("run")
        for name, each in made.items():
            self.assertEqual(work[name].dtype, each.dtype)
            np.testing.assert_array_equal(work[name], each)
            work[name][...] = each  # It may be written.
        self.assertEqual([(type(each), each) for each in work.scalars], [(type(each), each) for each in scalars])

    def test_later_changes_do_not_change_the_save(self):
        x = nd.ones(3)
        mx.save_session("run", x=x)
        x += 1
        self.assert_equal(mx.attach("run").x, np.ones(3))
        mx.attach("run").x[:] = 5
        self.assert_equal(mx.attach("run").x, np.ones(3))

    def test_a_second_save_replaces_the_first(self):
        key = mx.save_session("run", x=nd.ones(1), y=1)
        self.assertEqual(mx.save_session("run", x=nd.zeros(2)), key)
        work = mx.attach("run")
        self.assertEqual(list(work.keys()), ["x"])
        self.assert_equal(work.x, np.zeros(2))
        self.assertEqual(mx.sessions()[0].version, 2)

    def test_the_random_state_is_that_of_then(self):
        for things in ({"x": nd.ones(1)}, {"epoch": 3}):
            mx.save_session("run", **things)
            expected = nd.random.uniform(shape=4).asnumpy()
            nd.random.uniform(shape=4)
            mx.attach("run")
            self.assert_equal(nd.random.uniform(shape=4), expected)

    def test_the_calling_modules_variables_where_none_is_named(self):
        module = types.ModuleType("notebook")
        exec(
            "import gluond as mx\nx = mx.nd.ones(2)\n_hidden = x\nnet = mx.gluon.nn.Dense(2, in_units=2)\nnet.initialize()\n"
            "history = [(0.5, x)]\nepoch = 3\nOut = {1: x}\nnd = mx.nd\nkind = mx.gluon.nn.Dense\n"
            "blur = mx.gluon.data.vision.transforms.ToTensor()\nmx.save_session('run')",
            vars(module),
        )
        work = mx.attach("run")
        self.assertEqual(sorted(work), ["history", "net", "x"])
        self.assertEqual(work.history[0][0], 0.5)
        with self.assertRaisesRegex(mx.MXNetError, r"nothing to save.*mx.save_session\(name, net=net\)"):
            exec("import gluond as mx\nepoch = 3\nmx.save_session('run')", {})

    def test_work_reads_well(self):
        net, trainer = trained()
        mx.save_session("run", net=net, trainer=trainer, x=nd.zeros((2, 3)), epoch=3)
        work = mx.attach("run")
        self.assertRegex(
            repr(work),
            r"(?s)^<Work 'run', saved 20\d\d-.*>\n  net      SymbolBlock of 8 parameters\n"
            r"  trainer  Trainer, Adam after 3 updates\n  x        NDArray 2x3 of float32\n"
            r"  epoch    3$",
        )
        self.assertIn("epoch", dir(work))
        with self.assertRaisesRegex(AttributeError, "no 'epch'.*net, trainer, x, epoch"):
            work.epch


class TrainingTest(SessionCase):
    def test_another_process_goes_on_with_the_same_bits(self):
        schedule = {"lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1), "wd": 1e-3}
        for optimizer, parameters in (("adam", {}), ("sgd", {"momentum": 0.9}), ("nadam", {}), ("adam", schedule)):
            with self.subTest(optimizer=optimizer):
                mx.random.seed(5)
                net, trainer = trained(optimizer=optimizer, **parameters)
                mx.save_session("run", net=net, trainer=trainer)
                train(net, trainer)
                other = program(CONTINUE % self.server.address)
                words, _ = other.communicate(timeout=60)
                self.assertEqual(words.strip(), f"{bits(net)} {trainer.learning_rate}")

    def test_an_existing_network_is_filled(self):
        for names in (("net", "trainer"), ("trainer",)):
            net, trainer = trained(momentum=0.9, optimizer="nag")
            mx.save_session("run", net=net, trainer=trainer)
            train(net, trainer)
            expected = bits(net)
            other, its = trained(network(), 1, "nag", momentum=0.5)
            given = {"net": other, "trainer": its}
            work = mx.attach("run", **{name: given[name] for name in names})
            self.assertIs(work.trainer, its)
            train(other, its)
            self.assertEqual(bits(other), expected)

    def test_a_trainer_whose_parameters_are_in_another_order(self):
        def named(*prefixes):
            net = nn.HybridSequential()
            for prefix in prefixes:
                net.add(nn.Dense(4, in_units=4, prefix=prefix))
            return net

        net, trainer = trained(named("a_", "b_"), optimizer="sgd", momentum=0.9)
        net[0].weight.grad_req = "null"
        train(net, trainer, 1)  # Counts of updates differ from here on.
        mx.save_session("run", net=net, trainer=trainer)
        other, its = trained(named("z_", "y_"), 1, "sgd", momentum=0.9)
        other[0].weight.grad_req = "null"
        mx.attach("run", net=other, trainer=its)
        self.assertEqual([each.name for each in its._params], ["y_bias", "y_weight", "z_bias", "z_weight"])
        self.assertEqual(its.optimizer._index_update_count, {0: 4, 1: 4, 2: 4, 3: 3})
        train(net, trainer)
        train(other, its)
        self.assertEqual(bits(other), bits(net))

    def test_a_network_without_values_and_a_trainer_for_it(self):
        net, trainer = trained()
        mx.save_session("run", net=net, trainer=trainer)
        train(net, trainer)
        other = network()
        work = mx.attach("run", net=other)
        other.hybridize()
        train(other, work.trainer)
        self.assertEqual(bits(other), bits(net))

    def test_a_network_that_is_no_graph_is_filled_only(self):
        net = OwnNet()
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "adam")
        train(net, trainer)
        mx.save_session("run", net=net, trainer=trainer)
        with self.assertRaisesRegex(mx.MXNetError, r"OwnNet is no HybridBlock.*mx.attach\('run', net=net\)"):
            mx.attach("run")
        train(net, trainer)
        other = OwnNet()
        train(other, mx.attach("run", net=other).trainer)
        self.assertEqual(bits(other), bits(net))

    def test_the_trainers_parameters_are_the_networks(self):
        net, trainer = trained()
        shared = nn.Dense(3, params=net[3].params)
        mx.save_session(
            "run", net=net, trainer=trainer, shared=shared, params=net.collect_params(), w=net[0].weight, data=net[0].weight.data()
        )
        work = mx.attach("run")
        own = work.net.collect_params()
        self.assertEqual(list(own), list(net.collect_params()))
        self.assertEqual({id(each) for each in work.trainer._params}, {id(each) for each in own.values()})
        self.assertIs(work.shared.collect_params()[net[3].weight.name], own[net[3].weight.name])
        self.assertIs(work.params[net[0].weight.name], work.w)
        self.assertIs(work.w.data(), work.data)

    def test_attributes_and_gradients_of_parameters(self):
        net = network()
        net.collect_params().setattr("grad_req", "add")
        net[3].weight.lr_mult, net[3].bias.wd_mult = 0.5, 0.0
        net[0].weight.grad_req = "null"
        net, _ = trained(net, 2)
        mx.save_session("run", net=net)
        for name, each in mx.attach("run").net.collect_params().items():
            before = net.collect_params()[name]
            self.assertEqual((each.grad_req, each.lr_mult, each.wd_mult), (before.grad_req, before.lr_mult, before.wd_mult))
            if each.grad_req != "null":
                self.assert_equal(each.grad(), before.grad().asnumpy())
        other = network()
        other.collect_params().setattr("grad_req", "add")
        mx.attach("run", net=other)
        self.assert_equal(other[3].weight.grad(), net[3].weight.grad().asnumpy())

    def test_half_precision_keeps_its_float32_weights(self):
        net = nn.HybridSequential()
        net.add(nn.Dense(3, in_units=4))
        net.cast("float16")
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, "multi_precision": True})

        def step(net, trainer):
            with autograd.record():
                loss = (net(nd.ones((2, 4), dtype="float16")) ** 2).sum()
            loss.backward()
            trainer.step(2)

        step(net, trainer)
        mx.save_session("run", net=net, trainer=trainer)
        work = mx.attach("run")
        step(net, trainer)
        step(work.net, work.trainer)
        self.assertEqual(bits(work.net), bits(net))

    def test_losses_and_networks_of_several_inputs_and_outputs(self):
        class Two(gluon.HybridBlock):
            def hybrid_forward(self, F, a, b):
                return F.broadcast_add(a, b), [F.broadcast_mul(a, b)]

        loss_of = gluon.loss.HuberLoss(rho=2)
        mx.save_session("run", two=Two(), loss_of=loss_of, l2=gluon.loss.L2Loss(weight=3))
        work = mx.attach("run")
        total, (product,) = work.two(nd.array([1, 2]), nd.array([3, 4]))
        self.assert_equal(total, np.array([4, 6]))
        self.assert_equal(product, np.array([3, 8]))
        self.assertIsInstance(work.loss_of, gluon.loss.HuberLoss)
        x, y = nd.array([[1, 9]]), nd.array([[0, 0]])
        self.assert_equal(work.loss_of(x, y), loss_of(x, y).asnumpy())
        self.assert_equal(work.l2(x, y), 3 * gluon.loss.L2Loss()(x, y).asnumpy())


class RefusalTest(SessionCase):
    def refused(self, words, **things):
        with self.assertRaisesRegex(mx.MXNetError, words):
            mx.save_session("never", **things)
        self.assertEqual(mx.sessions(), [])

    def test_things_that_cannot_be_saved_say_where_they_are(self):
        self.refused(r"losses\[3\] is a object, which cannot be saved: save its numbers", losses=[1, 2, 3, object()])
        self.refused(r"state\['a'\]\[0\] is a function", state={"a": (len and started,)})
        self.refused(r"d has the key 1, a int; the keys of a dict that is saved are texts", d={1: 2})
        self.refused("o is a numpy array of dtype object", o=np.array([None]))
        circle = []
        circle.append(circle)
        self.refused("nested deeper than 64 levels, or contains itself", circle=circle)

    def test_parameters_without_values(self):
        net = network()
        self.refused("net: the parameter '.*' has no value yet; call net.initialize", net=net)
        net.initialize()
        self.refused(r"run the network once, net\(data\)", net=net)

    def test_arrays_of_an_earlier_session(self):
        x = nd.ones(1)
        mx.connect(self.server.address)
        self.refused(r"l\[0\] is on the server at .*, of a session before mx.connect\(\)", l=[x])

    def broken(self):
        broken = nd.Reshape(nd.ones(3), shape=(5,))
        return broken

    def test_a_failed_array_fails_the_save(self):
        self.refused("(?s)Reshape.*broken = ", broken=self.broken())

    def test_objects_that_do_not_fit(self):
        net, trainer = trained()
        mx.save_session("run", net=net, trainer=trainer, x=nd.ones(1))
        wrong = network()
        wrong.add(nn.Dense(2))
        other = trained(optimizer="sgd")[1]
        for words, given in (
            ("'run' has no 'nett'; it has net, trainer, x", {"nett": net}),
            ("'x' cannot be filled: .* a NDArray for a saved array", {"x": nd.ones(1)}),
            ("'net' cannot be filled: .* a Trainer for a saved block", {"net": trainer}),
            ("'net': the saved network has no parameter '4.weight'", {"net": wrong}),
            ("'trainer': The saved states are of the optimizer Adam, this one is SGD", {"trainer": other}),
            ("'trainer' was saved with 8 parameters", {"trainer": gluon.Trainer([], "adam")}),
        ):
            with self.subTest(words), self.assertRaisesRegex(mx.MXNetError, words):
                mx.attach("run", **given)

    def test_optimizers_and_schedules_of_the_program(self):
        class OwnSchedule(mx.lr_scheduler.LRScheduler):
            def __call__(self, num_update):
                return 0.5**num_update

        net, trainer = trained(lr_scheduler=OwnSchedule(0.1))
        mx.save_session("run", net=net, trainer=trainer)
        with self.assertRaisesRegex(mx.MXNetError, r"by OwnSchedule, which is none of mx.lr_scheduler; make the trainer"):
            mx.attach("run")
        other, its = trained(network(), 0, lr_scheduler=OwnSchedule(0.1))
        mx.attach("run", net=other, trainer=its)
        self.assertEqual(its.learning_rate, 0.125)

    def test_a_server_of_before(self):
        connect.current()._pipeline.opened.ClearField("features")
        for call in (lambda: mx.save_session("run", x=1), lambda: mx.attach("run"), lambda: mx.delete_session("run"), mx.sessions):
            with self.assertRaisesRegex(mx.MXNetError, "cannot save sessions, as it is older than this client"):
                call()


class ListTest(SessionCase):
    def test_sessions_and_delete(self):
        self.assertEqual(mx.sessions(), [])
        for name in ("b", "a"):
            mx.save_session(name, x=nd.ones((4, 4)))
        first, second = mx.sessions()
        self.assertEqual((first.name, second.name, first.arrays, first.version, first.stored), ("a", "b", 1, 1, True))
        self.assertGreaterEqual(first.bytes, 64)
        self.assertLess(abs(first.age), datetime.timedelta(minutes=5))
        self.assertLessEqual(first.idle, first.age)
        self.assertEqual(first.client, client_id())
        mx.delete_session("a")
        self.assertEqual([each.name for each in mx.sessions()], ["b"])
        with self.assertRaisesRegex(mx.MXNetError, "there is no key of 'a'"):
            mx.attach("a")

    def test_a_save_while_it_is_opened_is_waited_for(self):
        mx.save_session("run", x=nd.ones(1))
        session, request = connect.current(), connect.current().request
        answers = []

        def save_between(command, *rest):
            answers.append(request(command, *rest))
            if len(answers) == 1:
                session.request = request
                mx.save_session("run", x=nd.zeros(2), y=nd.ones(1))
                session.request = save_between
            return answers[-1]

        session.request = save_between
        self.addCleanup(vars(session).pop, "request")
        self.assert_equal(mx.attach("run").x, np.zeros(2))


if __name__ == "__main__":
    case_runner.main()
