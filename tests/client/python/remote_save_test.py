"""Block.save_as_model: what was trained here is a model of the server, which goes on from there."""

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._proto import trainer_pb2
from gluond._remote import calls, methods
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase

LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def convnet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dropout(0.0), nn.Dense(3))
    return net


def images(count=32):
    values = np.random.RandomState(7).randn(count, 1, 6, 6).astype("float32")
    return values, np.abs(values.reshape(count, -1)[:, :3]).argmax(1)


def states_of(model):
    """The states of its optimizer."""
    method = methods.Method(
        "/gluond.v1.TrainingService/GetOptimizerState", trainer_pb2.GetOptimizerStateRequest, trainer_pb2.GetOptimizerStateResponse
    )
    return calls.current().call(method, trainer_pb2.GetOptimizerStateRequest(model=model)).states


class Trained:
    """A small network after a few steps."""

    def __init__(self, optimizer="sgd", steps=3, net=None, dtype="float32", **parameters):
        self.net = net or convnet()
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize()
        self.x, self.y = images()
        self.x = self.x.astype(dtype)
        self.net(nd.array(self.x, dtype=dtype))
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, parameters)
        self.steps(steps)

    def steps(self, count):
        for _ in range(count):
            with autograd.record():
                loss = LOSS(self.net(nd.array(self.x, dtype=self.x.dtype)), nd.array(self.y))
            loss.backward()
            self.trainer.step(len(self.x))

    def save(self, name="saved", **options):
        return self.net.save_as_model(name, loss=LOSS, trainer=self.trainer, replace=True, **options)

    def values(self):
        return {name: each.data().asnumpy() for name, each in self.net.collect_params().items()}


class SaveTest(ArrayCase):
    def test_the_server_updates_all_rows_of_an_embedding_and_says_so(self):
        net = nn.HybridSequential()
        net.add(nn.Embedding(4, 3, sparse_grad=True))
        net.initialize()
        net.hybridize()
        net(nd.zeros((2,)))
        trainer = gluon.Trainer(net.collect_params(), "adam")
        with self.assertWarnsRegex(UserWarning, "embedding.*weight.*sparse_grad=True.*updates all of its rows"):
            net.save_as_model("sparse", loss=LOSS, trainer=trainer, replace=True)

    def test_outputs_of_one_operator(self):
        net = gluon.rnn.LSTM(4, 2, input_size=3)
        net.initialize()
        net.hybridize()
        x, state = nd.random.normal(shape=(5, 2, 3)), [nd.random.normal(shape=(2, 2, 4)) for _ in range(2)]
        output, (hidden, cell) = net(x, state)
        model = net.save_as_model("recurrent", replace=True)
        found = model.predict([each.asnumpy() for each in (x, *state)])
        for wanted, given in zip((output, hidden, cell), found):
            self.assert_equal(wanted, given)

    def test_an_output_that_others_read(self):
        class Halves(gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                first, second = F.split(x, num_outputs=2, axis=1)
                return second, first, F.relu(second) - first

        net = Halves()
        net.hybridize()
        x = nd.random.normal(shape=(3, 4))
        wanted = net(x)
        for one, other in zip(wanted, net.save_as_model("halves", replace=True).predict(x.asnumpy())):
            self.assert_equal(one, other)

    def test_the_model_computes_as_the_network(self):
        trained = Trained()
        model = trained.save(metrics="accuracy")
        self.assert_equal(trained.net(nd.array(trained.x)), model.predict(trained.x))
        about = model.describe()
        self.assertEqual([(each.name, each.shape) for each in about.inputs], [("data", (-1, 1, 6, 6))])
        self.assertEqual([each.name for each in about.outputs], ["output"])
        self.assertEqual(about.step, 3)
        self.assertEqual(about.trainer.metrics, ["accuracy(axis=1)"])

    def test_training_goes_on_with_the_same_bits(self):
        for optimizer, parameters in (
            ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
            ("sgd", {"learning_rate": 0.1}),
            ("nag", {"learning_rate": 0.1, "momentum": 0.5}),
            ("adam", {"learning_rate": 0.01}),
            ("rmsprop", {"learning_rate": 0.01}),
            ("rmsprop", {"learning_rate": 0.01, "centered": True}),
        ):
            with self.subTest(optimizer=optimizer, parameters=parameters):
                trained = Trained(optimizer, **parameters)
                model = trained.save()
                trained.steps(3)
                for _ in range(3):
                    step = model.train_step(trained.x, trained.y)
                self.assertEqual(step.step, 6)
                for name, each in model.block().collect_params().items():
                    self.assert_equal(each.data(), trained.values()[name])

    def test_neither_changes_the_other(self):
        trained = Trained()
        model = trained.save()
        before = trained.values()
        answer = model.predict(trained.x)
        model.fit(trained.x, trained.y, batch_size=8, progress=False)
        for name, values in trained.values().items():
            np.testing.assert_array_equal(values, before[name])
        further = model.predict(trained.x)
        self.assertFalse(np.array_equal(answer, further))
        trained.steps(1)
        np.testing.assert_array_equal(model.predict(trained.x), further)

    def test_states_have_the_servers_names(self):
        for optimizer, parameters, expected in (
            ("sgd", {"momentum": 0.9}, {"mom"}),
            ("sgd", {}, set()),
            ("adam", {}, {"mean", "var"}),
            ("rmsprop", {"centered": True}, {"n", "g", "delta"}),
        ):
            Trained(optimizer, **parameters).save()
            self.assertEqual({name.partition("/")[2] for name in states_of("saved")}, expected)

    def test_half_precision_keeps_its_float32_weight(self):
        for optimizer, parameters in (("sgd", {"momentum": 0.9}), ("sgd", {}), ("adam", {})):
            with self.subTest(optimizer=optimizer, parameters=parameters):
                net = nn.HybridSequential()
                net.add(nn.Dense(4, activation="relu"), nn.Dense(3))
                net.cast("float16")
                trained = Trained(optimizer, net=net, dtype="float16", learning_rate=0.01, multi_precision=True, **parameters)
                model = trained.save()
                names = {name.partition("/")[2] for name in states_of("saved")}
                self.assertIn("weight32", names)
                trained.steps(2)
                for _ in range(2):
                    model.train_step(trained.x, trained.y)
                for name, each in model.block().collect_params().items():
                    self.assert_close(each.data(), trained.values()[name], 2e-3)

    def test_a_schedule_goes_on(self):
        schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5)
        trained = Trained(learning_rate=0.4, lr_scheduler=schedule, steps=3)
        model = trained.save()
        self.assertEqual([model.train_step(trained.x, trained.y).learning_rate for _ in range(2)], [0.2, 0.1])

    def test_parameters_that_the_trainer_does_not_have_stay(self):
        trained = Trained()
        head = trained.net[4].collect_params()
        trained.trainer = gluon.Trainer(head, "sgd", {"learning_rate": 0.1})
        model = trained.save()
        before = trained.values()
        model.train_step(trained.x, trained.y)
        for name, each in model.block().collect_params().items():
            if not name.endswith(("running_mean", "running_var")):
                self.assertEqual(np.array_equal(each.data().asnumpy(), before[name]), name not in head, name)

    def test_a_model_may_have_no_trainer(self):
        trained = Trained()
        model = trained.net.save_as_model("bare", replace=True)
        self.assertIsNone(model.describe().trainer)
        model.create_trainer(LOSS, trained.trainer.optimizer)
        self.assertEqual(model.train_step(trained.x, trained.y).step, 1)

    def test_the_network_stores_what_it_learns_further(self):
        trained = Trained()
        model = trained.save()
        trained.steps(2)
        model.store(trained.net)
        self.assert_equal(trained.net(nd.array(trained.x)), model.predict(trained.x))
        model.train_step(trained.x, trained.y)
        with self.assertRaisesRegex(mx.MXNetError, r"has version \d+ by now, expected \d+"):
            model.store(trained.net)

    def test_an_input_and_an_output_for_each(self):
        class Two(gluon.HybridBlock):
            def hybrid_forward(self, F, a, b):
                return F.broadcast_add(a, b), F.broadcast_mul(a, b)

        net = Two()
        net.hybridize()
        net(nd.ones((1, 2)), nd.ones((1, 2)))
        model = net.save_as_model("two", replace=True)
        self.assertEqual([each.name for each in model.describe().inputs], ["data0", "data1"])
        total, product = model.predict([np.array([[1, 2]]), np.array([[3, 4]])])
        np.testing.assert_array_equal(total, [[4, 6]])
        np.testing.assert_array_equal(product, [[3, 8]])

    def test_a_name_in_use_needs_replace(self):
        trained = Trained()
        trained.save("taken")
        with self.assertRaisesRegex(mx.MXNetError, "taken"):
            trained.net.save_as_model("taken")


class Doubling(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


class DoublingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Doubling()


class Double(gluon.HybridBlock):
    def __init__(self, op_type, **kwargs):
        super().__init__(**kwargs)
        self._op_type = op_type

    def hybrid_forward(self, F, x):
        return F.Custom(x, op_type=self._op_type)


class CustomTest(ArrayCase):
    def test_a_private_operator_is_refused(self):
        mx.operator.register("save_private")(DoublingProp)
        with self.assertRaisesRegex(mx.MXNetError, r"'save_private' .* is private to this program.*share.*shared=True"):
            Double("save_private").save_as_model("custom")

    def test_a_shared_one_is_computed_by_this_program(self):
        mx.operator.register("save_shared", shared=True)(DoublingProp)
        model = Double("save_shared").save_as_model("custom", inputs=(-1, 2), replace=True)
        np.testing.assert_array_equal(model.predict(np.array([[1, 2]])), [[2, 4]])


class RefusalTest(ArrayCase):
    def refused(self, net, words, **options):
        with self.assertRaisesRegex(mx.MXNetError, words):
            net.save_as_model("never", **options)
        self.assertNotIn("never", [model.name for model in mx.remote.models()])

    def test_blocks_that_are_no_graph(self):
        self.refused(nn.Sequential(), "Sequential is no HybridBlock.*derive it from gluon.HybridBlock")

    def test_parameters_without_values(self):
        net = convnet()
        self.refused(net, "has no value; call net.initialize")
        net.initialize()
        self.refused(net, "gets its value in the first run.*net\\(data\\), before it is saved")

    def test_losses_and_optimizers_of_this_program(self):
        class OwnLoss(gluon.loss.L2Loss):
            pass

        class OwnOptimizer(mx.optimizer.SGD):
            pass

        trained = Trained()
        self.refused(trained.net, "the loss OwnLoss is of this program", loss=OwnLoss(), trainer=trained.trainer)
        trainer = gluon.Trainer(trained.net.collect_params(), OwnOptimizer())
        self.refused(trained.net, "the optimizer OwnOptimizer is of this program.*save without", loss=LOSS, trainer=trainer)

    def test_half_a_trainer(self):
        trained = Trained()
        for half in ({"loss": LOSS}, {"trainer": trained.trainer}):
            self.refused(trained.net, "a model's trainer needs both", **half)

    def test_a_factor_of_gradients(self):
        trained = Trained(rescale_grad=0.5)
        self.refused(trained.net, "rescale_grad is 0.5.*give the factor to the loss", loss=LOSS, trainer=trained.trainer)


if __name__ == "__main__":
    case_runner.main()
