"""Operators of a library that the server has loaded, from Python: called, differentiated, hybridized, trained and published."""

import tempfile

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.server import operator_libraries
from tests.server.running_server import RunningServer

X = np.array([[1, -2, 0.5], [3, -4, -0.25]], np.float32)
LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


class Absolute(nn.HybridBlock):
    """A layer whose operator has the name `op`."""

    def __init__(self, op):
        super().__init__()
        self._op = op

    def hybrid_forward(self, F, x):
        return getattr(F, self._op)(x)


def network(op):
    """The same for each operator that computes absolute values."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, in_units=3), Absolute(op), nn.Dense(2, in_units=16))
    net.initialize()
    random = np.random.RandomState(5)
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(random.randn(*parameter.shape).astype("float32")))
    return net


class OperatorLibraryTest(ArrayCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        libraries = operator_libraries.example(folder.name), operator_libraries.cube(folder.name)
        server = RunningServer("--operator_library=" + ",".join(map(str, libraries)))
        cls.addClassCleanup(server.__exit__)
        mx.connect(server.address)
        cls.addClassCleanup(mx.disconnect)

    def test_they_are_functions_with_names_defaults_and_texts(self):
        x = nd.array(X)
        self.assert_equal(nd.absolute(x), abs(X))
        self.assert_equal(nd.absolute(data=x), abs(X))
        self.assert_equal(nd.row_sums(x), X.sum(1))
        self.assert_equal(nd.row_sums(x, 2), 2 * X.sum(1))
        self.assert_equal(nd.row_sums(x, scale=0.5), X.sum(1) / 2)
        self.assert_equal(nd.row_sums(nd.array(X, dtype="float64")), X.sum(1, dtype="float64"), np.float64)
        self.assert_close(nd.cube(x), X**3)
        self.assertIn("y[i] = scale sum_j x[i, j].", nd.row_sums.__doc__)
        self.assertIn("scale : float, optional, default=1", nd.row_sums.__doc__)

    def test_an_output_is_added_to_and_taken_over(self):
        x = nd.array(X)
        x.attach_grad("add")
        for _ in range(3):
            with autograd.record():
                y = nd.absolute(x)
            y.backward()
        self.assert_equal(x.grad, 3 * np.sign(X))
        out = nd.zeros(X.shape)
        nd.absolute(x, out=out)
        self.assert_equal(out, abs(X))
        nd.absolute(x, out=x)
        self.assert_equal(x, abs(X))

    def test_gradients_flow_through_them(self):
        for op, expected in ("absolute", np.sign(X)), ("row_sums", np.ones_like(X)), ("cube", 3 * X * X):
            x = nd.array(X)
            x.attach_grad()
            with autograd.record():
                y = getattr(nd, op)(x)
            y.backward()
            self.assert_close(x.grad, expected)

    def test_a_gradient_that_is_a_graph_can_be_differentiated_again(self):
        x = nd.array(X)
        x.attach_grad()
        with autograd.record():
            (dx,) = autograd.grad(nd.cube(x), [x], create_graph=True)
        dx.backward()
        self.assert_close(x.grad, 6 * X)

    def test_large_arrays_are_computed_in_parallel(self):
        values = np.random.RandomState(1).randn(700, 1001).astype("float32")
        self.assert_equal(nd.absolute(nd.array(values)), abs(values))
        self.assert_close(nd.row_sums(nd.array(values)), values.sum(1), 1e-3)
        self.assert_close(nd.cube(nd.array(values)), values**3)

    def test_mistakes_are_told(self):
        for call, text in (
            (lambda: nd.row_sums(nd.ones((2, 2)), scale=-1), "'scale' is '-1'; want more than 0"),
            (lambda: nd.row_sums(nd.ones(3)), "data has 1 axes, expected 2"),
            (lambda: nd.cube(nd.ones(3, dtype="int32")), "type is int32, expected float32"),
            (lambda: nd.cube(nd.ones(1000001)), "more than a million elements"),
        ):
            with self.assertRaisesRegex(mx.MXNetError, text):
                call().asnumpy()
        with self.assertRaisesRegex(mx.MXNetError, "argument 'colour' of operator row_sums, Possible Arguments: data, scale"):
            nd.row_sums(nd.ones((2, 2)), colour="red")

    def test_a_symbol_of_them_knows_its_shapes(self):
        y = mx.sym.row_sums(mx.sym.absolute(mx.sym.var("x")), scale=3)
        self.assertEqual(y.infer_shape(x=(5, 4))[1], [(5,)])
        executor = y.bind(mx.cpu(), {"x": nd.array(X)})
        self.assert_close(executor.forward()[0], 3 * abs(X).sum(1))
        self.assertEqual(mx.sym.load_json(y.tojson()).infer_shape(x=(5, 4))[1], [(5,)])

    def test_a_hybridized_layer_computes_and_trains_as_one_of_the_servers_own(self):
        results = []
        for op in "absolute", "abs":
            net = network(op)
            net.hybridize()
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
            for _ in range(5):
                with autograd.record():
                    loss = LOSS(net(nd.array(X)), nd.array([0, 1]))
                loss.backward()
                trainer.step(2)
            results.append(net(nd.array(X)).asnumpy())
        np.testing.assert_array_equal(*results)

    def test_a_model_of_the_server_trains_and_is_published(self):
        results = []
        for op in "absolute", "abs":
            model = mx.remote.Model.define(
                op, network(op), (-1, 3), loss=LOSS, optimizer_params={"learning_rate": 0.1}, replace=True
            )
            before = model.predict(X)
            for _ in range(5):
                model.train_step(X, np.array([0, 1]))
            model.publish("stable")
            answer = model.infer(X, version="stable")
            np.testing.assert_allclose(answer, model.predict(X), rtol=1e-5)
            self.assertGreater(abs(answer - before).max(), 1e-3)
            results.append(answer)
        np.testing.assert_array_equal(*results)


if __name__ == "__main__":
    case_runner.main()
