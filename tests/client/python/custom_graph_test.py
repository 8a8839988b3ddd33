"""Custom operators in graphs: symbols, Executors, hybridized Blocks, files."""

import os
import tempfile
import warnings

import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd
from gluond.ndarray import CachedOp
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.custom_case import registered


class SymbolTest(ArrayCase):
    def test_inputs_that_are_left_out_become_variables(self):
        net = mx.sym.Custom(data=mx.sym.Variable("x"), op_type="softmax", name="loss")
        self.assertEqual(net.list_arguments(), ["x", "loss_label"])
        self.assertEqual(net.list_outputs(), ["loss_output"])
        self.assertEqual(mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").name[:6], "custom")

    def test_shapes_are_inferred_as_the_prop_says(self):
        net = mx.sym.Custom(data=mx.sym.Variable("x"), op_type="softmax", name="loss")
        self.assertEqual(net.infer_shape(x=(8, 3)), ([(8, 3), (8,)], [(8, 3)], []))

    def test_an_unknown_shape_is_empty_and_may_stay_unknown(self):
        seen = []

        def infer_shape(self, shapes):
            seen.append([(list(shape), shape.rank_known, shape.is_known) for shape in shapes])
            return [shapes[0], ()], [shapes[0]], []

        registered("unknown", None, list_arguments=lambda self: ["data", "label"], infer_shape=infer_shape)
        net = mx.sym.Custom(data=mx.sym.Variable("x"), label=mx.sym.Variable("y"), op_type="unknown")
        self.assertEqual(net.infer_shape_partial(x=(8, 3)), ([(8, 3), ()], [(8, 3)], []))
        self.assertEqual(seen[0], [([8, 3], True, True), ([], False, False)])
        self.assertEqual(net.infer_shape(x=(8, 3), y=(5,)), ([(8, 3), (5,)], [(8, 3)], []))

    def test_a_rule_that_needs_more_than_is_known_may_fail(self):
        net = mx.sym.Custom(data=mx.sym.Variable("x"), label=mx.sym.Variable("y"), op_type="softmax")
        self.assertEqual(net.infer_shape_partial(y=(8,)), ([(), (8,)], [()], []))

    def test_types_are_inferred(self):
        net = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid")
        self.assertEqual(net.infer_type(x="float64"), ([np.float64], [np.float64], []))
        registered("toint", None, infer_type=lambda self, types: (types, ["int32"], []))
        net = mx.sym.Custom(mx.sym.Variable("x"), op_type="toint")
        self.assertEqual(net.infer_type(x="float64"), ([np.float64], [np.int32], []))

    def test_an_error_of_the_rule_reaches_the_caller(self):
        registered("raises", None, infer_shape=lambda self, shapes: 1 / 0)
        net = mx.sym.Custom(mx.sym.Variable("x"), op_type="raises")
        with self.assertRaisesRegex(ZeroDivisionError, "raises") as caught:
            net.infer_shape(x=(2,))
        self.assertIsInstance(caught.exception, mx.MXNetError)

    def test_wrong_names(self):
        with self.assertRaisesRegex(mx.MXNetError, "Cannot find custom operator nope"):
            mx.sym.Custom(mx.sym.Variable("x"), op_type="nope")
        with self.assertRaisesRegex(mx.MXNetError, "lable not found"):
            mx.sym.Custom(lable=mx.sym.Variable("x"), op_type="softmax")


class ExecutorTest(ArrayCase):
    def test_the_softmax_as_a_loss_needs_no_head_gradient(self):
        net = mx.sym.Custom(data=mx.sym.Variable("x"), op_type="softmax", name="loss")
        x = np.random.randn(4, 3).astype(np.float32)
        executor = net.simple_bind(mx.cpu(), x=(4, 3))
        (y,) = executor.forward(is_train=True, x=nd.array(x), loss_label=nd.array([0, 1, 2, 1]))
        executor.backward()
        expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
        self.assert_close(y, expected)
        self.assert_close(executor.grad_dict["x"], expected - np.eye(3)[[0, 1, 2, 1]])
        self.assert_equal(executor.grad_dict["loss_label"], np.zeros(4))

    def test_others_need_one(self):
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").simple_bind(mx.cpu(), x=(2,))
        executor.forward(is_train=True)
        with self.assertRaisesRegex(mx.MXNetError, "head_gradient is required"):
            executor.backward()
        executor.backward(nd.array([4, 8]))
        self.assert_close(executor.grad_dict["x"], [1, 2])

    def test_gradients_are_added(self):
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").simple_bind(mx.cpu(), x=(2,), grad_req="add")
        for _ in range(3):
            executor.forward(is_train=True)
            executor.backward(nd.array([4, 8]))
        self.assert_close(executor.grad_dict["x"], [3, 6])

    def test_auxiliary_states_are_bound_and_written(self):
        def forward(self, aux, is_train, req, in_data, out_data, **_):
            if is_train:
                aux[0][:] += in_data[0].asnumpy().mean()
            self.assign(out_data[0], req[0], in_data[0])

        registered(
            "mean",
            forward,
            list_auxiliary_states=lambda self: ["mean"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]], [(1,)]),
        )
        net = mx.sym.Custom(mx.sym.Variable("x"), op_type="mean", name="m")
        self.assertEqual(net.list_auxiliary_states(), ["m_mean"])
        executor = net.simple_bind(mx.cpu(), x=(4,))
        for _ in range(2):
            executor.forward(is_train=True, x=nd.full(4, 3))
        executor.forward(is_train=False)
        self.assert_equal(executor.aux_dict["m_mean"], [6])

    def test_backward_sees_and_writes_auxiliary_states(self):
        def forward(self, aux, is_train, req, in_data, out_data):
            aux[0][:] = in_data[0] * 3
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * aux[0])
            aux[0][:] = aux[0] + 100

        class Masked(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.mask = self.params.get("mask", shape=(2,), init="zeros", grad_req="null", differentiable=False)

            def hybrid_forward(self, F, x, mask):
                return F.Custom(x, mask, op_type="masked")

        registered(
            "masked",
            forward,
            backward,
            list_auxiliary_states=lambda self: ["mask"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]], [shapes[0]]),
        )
        x = nd.array([1, 2])
        x.attach_grad()
        for hybridized in (False, True):
            block = Masked()
            block.initialize()
            block.hybridize(hybridized)
            for _ in range(2):
                with autograd.record():
                    first, second = block(x), block(x)
                self.assert_equal(block.mask.data(), [3, 6])
                copy = block.mask.data().copy()
                first.backward()
                self.assert_equal(x.grad, [3, 6])
                self.assert_equal(block.mask.data(), [103, 106])
                second.backward()
                self.assert_equal(x.grad, [103, 106])
                self.assert_equal(block.mask.data(), [203, 206])
                self.assert_equal(copy, [3, 6])
            block(x)
            self.assert_equal(block.mask.data(), [3, 6])
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="masked", name="m").simple_bind(mx.cpu(), x=(2,))
        for _ in range(2):
            executor.forward(is_train=True, x=x)
            self.assert_equal(executor.aux_dict["m_mask"], [3, 6])
            executor.backward(nd.ones(2))
            self.assert_equal(executor.grad_dict["x"], [3, 6])
            self.assert_equal(executor.aux_dict["m_mask"], [103, 106])

    def test_what_backward_gets(self):
        seen = []

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            seen.append((list(req), in_data[0].asnumpy().tolist(), out_grad[0].asnumpy().tolist()))
            with np.testing.assert_raises(mx.MXNetError):
                out_data[0].asnumpy()

        registered(
            "look",
            None,
            backward,
            list_arguments=lambda self: ["a", "b"],
            declare_backward_dependency=lambda self, out_grad, in_data, out_data: [out_grad[0], in_data[0]],
        )
        net = mx.sym.Custom(mx.sym.Variable("a"), mx.sym.Variable("b"), op_type="look")
        executor = net.simple_bind(mx.cpu(), a=(1,), b=(1,), grad_req={"a": "write", "b": "null"})
        executor.forward(is_train=True, a=nd.array([5]))
        executor.backward(nd.array([7]))
        self.assert_equal(executor.grad_dict["a"], [0])
        self.assertEqual(seen, [(["write", "null"], [5], [7])])

    def test_an_error_comes_with_the_outputs(self):
        registered("raises", lambda self, **_: [][1])
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="raises").simple_bind(mx.cpu(), x=(2,))
        with self.assertRaisesRegex(IndexError, "forward of custom operator 'raises'") as caught:
            executor.forward()[0].asnumpy()
        self.assertIn("custom_graph_test.py", str(caught.exception))
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").simple_bind(mx.cpu(), x=(2,))
        self.assert_close(executor.forward()[0], [0.5, 0.5])


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense = gluon.nn.Dense(3)

    def hybrid_forward(self, F, x):
        return F.Custom(self.dense(x), op_type="sigmoid") * 2


class BlockTest(ArrayCase):
    def test_hybridized_it_computes_the_same(self):
        net = Net()
        net.initialize()
        x = nd.random.normal(shape=(4, 5))
        found = []
        for hybridized in (False, True):
            if hybridized:
                net.hybridize()
            with autograd.record():
                y = net(x)
            y.backward()
            found.append((y.asnumpy(), net.dense.weight.grad().asnumpy()))
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)

    def test_it_trains_as_the_loss_of_a_network(self):
        np.random.seed(0)
        data = np.random.randn(64, 5).astype(np.float32)
        label = (data[:, 0] > 0).astype(np.float32)
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        accuracies = []
        for loss in (mx.sym.Custom(net, op_type="softmax", name="softmax"), mx.sym.SoftmaxOutput(net, name="softmax")):
            executor = loss.simple_bind(mx.cpu(), data=(64, 5))
            for _ in range(30):
                executor.forward(is_train=True, data=nd.array(data), softmax_label=nd.array(label))
                executor.backward()
                for name in ("fc_weight", "fc_bias"):
                    executor.arg_dict[name][:] = executor.arg_dict[name] - 0.01 * executor.grad_dict[name]
            accuracies.append((executor.outputs[0].asnumpy().argmax(axis=1) == label).mean())
            weights = executor.arg_dict["fc_weight"].asnumpy()
        self.assertGreater(accuracies[0], 0.9)
        self.assertEqual(*accuracies)
        self.assertEqual(weights.shape, (2, 5))

    def test_parameters_of_unknown_shape_are_initialized_later(self):
        def forward(self, req, in_data, out_data, **_):
            self.assign(out_data[0], req[0], in_data[0].asnumpy().dot(in_data[1].asnumpy().T))

        def infer_shape(self, shapes):
            return [shapes[0], (4, shapes[0][1])], [(shapes[0][0], 4)], []

        registered("linear", forward, list_arguments=lambda self: ["data", "weight"], infer_shape=infer_shape)

        class Linear(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.weight = self.params.get("weight", shape=(4, 0), allow_deferred_init=True)

            def hybrid_forward(self, F, x, weight):
                return F.Custom(x, weight, op_type="linear")

        for hybridized in (True, False):
            net = Linear()
            net.initialize()
            net.hybridize(hybridized)
            self.assertEqual(net(nd.ones((2, 3))).shape, (2, 4))
            self.assertEqual(net.weight.shape, (4, 3))

    def test_a_replaced_operator_is_used_from_then_on(self):
        def of(value):
            return lambda self, req, out_data, **_: self.assign(out_data[0], req[0], value)

        registered("value", of(1))
        op = CachedOp(mx.sym.Custom(mx.sym.Variable("x"), op_type="value"))
        self.assert_equal(op(nd.zeros(1)), [1])
        registered("value", of(2), infer_shape=lambda self, shapes: (shapes, [(3,)], []))
        self.assert_equal(op(nd.zeros(1)), [2, 2, 2])

    def test_several_in_one_graph_call_each_other_s_results(self):
        x = mx.sym.Variable("x")
        for _ in range(5):
            x = mx.sym.Custom(x, op_type="sigmoid")
        op = CachedOp(x)
        data = nd.zeros(3)
        data.attach_grad()
        with autograd.record():
            y = op(data)
        y.backward()
        value, slope = 0.0, 1.0
        for _ in range(5):
            value = 1 / (1 + np.exp(-value))
            slope *= value * (1 - value)
        self.assert_close(y, np.full(3, value))
        self.assert_close(data.grad, np.full(3, slope))

    def test_code_within_a_graph_uses_operators_and_waits(self):
        def forward(self, req, in_data, out_data, **_):
            inner = nd.Custom(in_data[0] * 2, op_type="sigmoid")
            self.assign(out_data[0], req[0], inner.asnumpy() + mx.nd.exp(in_data[0]).asnumpy())

        def backward(self, req, out_grad, in_data, in_grad, **_):
            self.assign(in_grad[0], req[0], out_grad[0] * mx.nd.exp(in_data[0]))

        registered("deep", forward, backward)
        op = CachedOp(mx.sym.Custom(mx.sym.Variable("x"), op_type="deep"))
        x = nd.zeros(2)
        x.attach_grad()
        with autograd.record():
            y = op(x)
        y.backward()
        self.assert_close(y, [1.5, 1.5])
        self.assert_close(x.grad, [1, 1])


class FilesTest(ArrayCase):
    def test_a_file_has_what_others_must_know_and_no_secret(self):
        from gluond._wire import credential

        net = mx.sym.Custom(data=mx.sym.Variable("x"), op_type="softmax", name="loss")
        text = net.tojson()
        self.assertIn('"__custom__": "{\\"arguments\\": [\\"data\\", \\"label\\"]', text)
        self.assertNotIn(credential.scope, text)
        again = mx.sym.load_json(text)
        self.assertEqual(again.list_arguments(), ["x", "loss_label"])
        self.assertEqual(again.tojson(), text)

    def test_a_file_with_an_attribute_for_each_fact_loads(self):
        text = """{"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "n_b", "inputs": []},
            {"op": "null", "name": "n_c", "inputs": []},
            {"op": "Custom", "name": "n", "attrs": {"op_type": "unheard_of", "__arguments__": "a,b", "__outputs__": "d,e",
             "__auxiliary__": "c", "__dependencies__": "1,2,5"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]}],
            "arg_nodes": [0, 1, 2], "node_row_ptr": [0, 1, 2, 3, 5], "heads": [[3, 0, 0], [3, 1, 0]],
            "attrs": {"mxnet_version": ["int", 10901]}}"""
        net = mx.sym.load_json(text)
        self.assertEqual(
            (net.list_arguments(), net.list_auxiliary_states(), net.list_outputs()), (["x", "n_b"], ["n_c"], ["n_d", "n_e"])
        )

        def run(net):
            net.bind(mx.cpu(), {"x": nd.zeros(1), "n_b": nd.zeros(1)}, aux_states=[nd.zeros(1)]).forward()[0].asnumpy()

        with self.assertRaisesRegex(mx.MXNetError, "'unheard_of': no client that computes it is connected"):
            run(net)
        with self.assertRaisesRegex(mx.MXNetError, "has '9'; want numbers below 6"):
            run(mx.sym.load_json(text.replace("1,2,5", "1,2,9")))

    def test_a_file_of_mxnet_s_loads(self):
        text = """{"nodes": [{"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "label", "inputs": []},
            {"op": "Custom", "name": "loss", "attrs": {"op_type": "softmax"}, "inputs": [[0, 0, 0], [1, 0, 0]]}],
            "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3], "heads": [[2, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901]}}"""
        (y,) = mx.sym.load_json(text).eval(x=nd.zeros((2, 2)), label=nd.zeros((2,)))
        self.assert_close(y, np.full((2, 2), 0.5))

    def test_one_that_is_registered_elsewhere_keeps_its_form(self):
        registered(
            "gone",
            None,
            list_arguments=lambda self: ["a", "b"],
            list_auxiliary_states=lambda self: ["c"],
            list_outputs=lambda self: ["d", "e"],
        )
        text = mx.sym.Custom(op_type="gone", name="n").tojson().replace("gone", "unheard_of")
        net = mx.sym.load_json(text)
        self.assertEqual(
            (net.list_arguments(), net.list_auxiliary_states(), net.list_outputs()), (["n_a", "n_b"], ["n_c"], ["n_d", "n_e"])
        )
        with self.assertRaisesRegex(mx.MXNetError, "'unheard_of': no client that computes it is connected"):
            net.bind(mx.cpu(), [nd.ones(1), nd.ones(1)], aux_states=[nd.ones(1)]).forward()[0].asnumpy()

    def test_an_exported_block_is_imported_again(self):
        with tempfile.TemporaryDirectory() as folder:
            net = Net()
            net.initialize()
            net.hybridize()
            x = nd.ones((2, 3))
            y = net(x).asnumpy()
            net.export(os.path.join(folder, "net"))
            again = gluon.SymbolBlock.imports(
                os.path.join(folder, "net-symbol.json"), ["data"], os.path.join(folder, "net-0000.params")
            )
            self.assert_close(again(x), y)


class LegacyTest(ArrayCase):
    def test_a_numpy_op(self):
        class Softmax(mx.operator.NumpyOp):
            def __init__(self):
                super().__init__(False)

            def list_arguments(self):
                return ["data", "label"]

            def infer_shape(self, in_shape):
                return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

            def forward(self, in_data, out_data):
                y = np.exp(in_data[0])
                out_data[0][:] = y / y.sum(axis=1, keepdims=True)

            def backward(self, out_grad, in_data, out_data, in_grad):
                in_grad[0][:] = out_data[0]
                in_grad[0][np.arange(2), in_data[1].astype(int)] -= 1

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = Softmax()(data=mx.sym.Variable("x"), name="s")
        executor = net.simple_bind(mx.cpu(), x=(2, 2))
        self.assert_close(executor.forward(is_train=True)[0], np.full((2, 2), 0.5))
        executor.backward()
        self.assert_close(executor.grad_dict["x"], [[-0.5, 0.5], [-0.5, 0.5]])

    def test_an_ndarray_op(self):
        class Double(mx.operator.NDArrayOp):
            def forward(self, in_data, out_data):
                out_data[0][:] = in_data[0] * 2

            def backward(self, out_grad, in_data, out_data, in_grad):
                in_grad[0][:] = out_grad[0] * 2

        with self.assertWarns(DeprecationWarning):
            net = Double().get_symbol(mx.sym.Variable("x"))
        executor = net.simple_bind(mx.cpu(), x=(2,))
        self.assert_equal(executor.forward(is_train=True, x=nd.array([1, 2]))[0], [2, 4])
        executor.backward(nd.ones(2))
        self.assert_equal(executor.grad_dict["x"], [2, 2])


if __name__ == "__main__":
    case_runner.main()
