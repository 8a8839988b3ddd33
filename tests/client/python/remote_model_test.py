"""Models of the server from Python: made of Blocks, described, asked, opened as Blocks and stored."""

import pathlib
import tempfile
from unittest import mock
from xml.dom import minidom

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._remote import calls
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.remote_case import LOSS, Refusal, breaking, convnet, defined, mlp, points


class DescribeTest(ArrayCase):
    def test_a_model_tells_its_parts(self):
        model = defined(net=convnet(), inputs=(-1, 1, 8, 8), seed=3)
        about = model.describe()
        self.assertEqual((about.name, about.device, about.step, about.version), ("m", "cpu", 0, 1))
        self.assertEqual([(each.name, each.shape) for each in about.inputs], [("data", (-1, 1, 8, 8))])
        self.assertEqual([(each.name, each.shape) for each in about.outputs], [("output", (-1, 3))])
        kinds = {each.name.partition("_")[2]: each.kind for each in about.parameters if "batchnorm" in each.name}
        self.assertEqual(
            kinds, {"gamma": "parameter", "beta": "parameter", "running_mean": "auxiliary", "running_var": "auxiliary"}
        )
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

    def test_a_program_is_a_table_and_a_picture(self):
        model = defined()
        program = model.program({"data": (5, 4)})
        self.assertIn("m on cpu: prediction of data (5,4)\n", str(program))
        self.assertRegex(str(program), r"(?m)^0 +\S+ +FullyConnected +\(5,16\) +640 +")
        self.assertRegex(str(program), r"(?m)^row_chains +\d+ > \d+ +\S")
        self.assertEqual(program.proto.steps[0].flop, 2 * 5 * 4 * 16)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.svg")
            program.save(path)
            self.assertEqual(path.read_text(), program._repr_svg_())
            self.assertEqual(minidom.parse(str(path)).documentElement.tagName, "svg")
        step = model.program({"data": (5, 4), "label": (5,)}, mode="train_step")
        self.assertIn("training step of data (5,4), label (5)\n", str(step))
        self.assertGreater(step.proto.totals.flop, program.proto.totals.flop)
        model.publish("stable")
        version = str(model.program(version="stable"))
        self.assertIn("m:1 on cpu", version)
        self.assertRegex(version, r"(?m)^keep_constants, once +\d+ > \d+ +\S")
        self.assertNotIn(", once", str(model.program()))
        self.assertIn("m:1 on cpu", str(model.program(version="")))
        with self.assertRaisesRegex(mx.MXNetError, "there is no input 'dat'; did you mean 'data'"):
            model.program({"dat": (5, 4)})
        with self.assertRaisesRegex(mx.MXNetError, "want 'predict' or 'train_step'"):
            model.program(mode="fly")

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
            np.testing.assert_allclose(model.predict(x), model.predict(x, batch_size=2), rtol=1e-5, atol=1e-6)
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


if __name__ == "__main__":
    case_runner.main()
