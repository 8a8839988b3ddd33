"""Gradients of mx.nd.Custom: where they are computed, what inputs and results were then, grad_req. The values of
`MXNetTest` are those of MXNet 1.9.1."""

import os
import tempfile
import threading

import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd
from gluond._custom import functions
from gluond.ndarray import CachedOp
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.custom_case import gradient, registered

threads = []


def forward(self, req, in_data, out_data, **_):
    self.assign(out_data[0], req[0], mx.nd.array(in_data[0].asnumpy() ** 2))


def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    threads.append(threading.current_thread())
    self.assign(in_grad[0], req[0], mx.nd.array(2 * in_data[0].asnumpy() * out_grad[0].asnumpy()))


registered("square", forward, backward)


class InPlaceTest(ArrayCase):
    def square(self, x, request="write"):
        x.attach_grad(request)
        with autograd.record():
            return nd.Custom(x, op_type="square")

    def test_a_backward_pass_that_begins_at_an_operator_calls_it_here(self):
        before = len(functions.functions)
        for called_back in (False, True):
            x = nd.array([3.0])
            gradient(x, called_back, op_type="square")
            self.assert_equal(x.grad, [6])
            self.assertEqual(threads[-1] is threading.current_thread(), not called_back)
        self.assertEqual(len(functions.functions), before + 1)

    def test_head_gradients(self):
        x = nd.array([3.0, 4.0])
        for head in (nd.array([10.0, 1.0]), nd.ones(2) * nd.array([10.0, 1.0])):
            self.square(x).backward(head)
            self.assert_equal(x.grad, [60, 8])
        with self.assertRaisesRegex(mx.MXNetError, "like its head"):
            self.square(x).backward(nd.ones(3))
            nd.waitall()  # A GPU tells when it comes to the call.

    def test_the_history_before_it_goes_on(self):
        x = nd.array([3.0])
        x.attach_grad("add")
        for _ in range(2):
            with autograd.record():
                y = nd.Custom(x * 10, op_type="square")
            y.backward()
        self.assert_equal(x.grad, [1200])

    def test_inputs_are_what_they_were_when_it_was_called(self):
        x = nd.array([3.0])
        y = self.square(x)
        x[:] = 100
        y.backward()
        self.assert_equal(x.grad, [6])
        with autograd.record():
            y = nd.Custom(x, op_type="square")
            z = y * 1
        x[:] = 0
        z.backward()
        self.assert_equal(x.grad, [200])

    def test_inputs_come_from_where_they_came_from_when_it_was_called(self):
        x = nd.array([3.0])
        x.attach_grad()
        with autograd.record():
            z = x * 10
            y = nd.Custom(z, op_type="square")
        z[:] = 0
        y.backward()
        self.assert_equal(x.grad, [600])

    def test_a_result_of_several_uses_is_differentiated_once_and_whole(self):
        x = nd.array([3.0])
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x, op_type="square")
            z = y * 10 + nd.Custom(y, op_type="square")
        count = len(threads)
        z.backward()
        self.assert_equal(x.grad, [6 * (10 + 2 * 9)])
        self.assertEqual(len(threads), count + 2)

    def test_several_heads(self):
        x = nd.array([3.0])
        x.attach_grad()
        with autograd.record():
            heads = [nd.Custom(x, op_type="square"), x * 100, nd.Custom(x, op_type="square")]
        autograd.backward(heads + heads[2:], [None, None, nd.array([5.0]), nd.array([1.0])])
        self.assert_equal(x.grad, [6 + 100 + 36])

    def test_one_operator_after_another(self):
        x = nd.array([3.0])
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(nd.Custom(x, op_type="square"), op_type="square")
        y.backward()
        self.assert_equal(x.grad, [4 * 27])

    def test_a_retained_history_serves_again_and_one_that_is_not_says_so(self):
        x = nd.array([3.0])
        y = self.square(x, "add")
        y.backward(retain_graph=True)
        y.backward()
        self.assert_equal(x.grad, [12])
        with self.assertRaisesRegex(mx.MXNetError, "retain_graph=True"):
            y.backward()
        self.assert_equal(x.grad, [12])

    def test_autograd_grad(self):
        x = nd.array([3.0])
        y = self.square(x)
        self.assert_equal(autograd.grad(y, [x], retain_graph=True)[0], [6])
        self.assert_equal(autograd.grad(y, [y], retain_graph=True)[0], [1])
        self.assert_equal(x.grad, [0])

    def test_a_result_that_was_written_to_is_a_constant(self):
        for write in (
            lambda y: y.__setitem__(slice(None), 7),
            lambda y: y.__iadd__(1),
            lambda y: y.__setitem__(0, 7),
            lambda y: nd.relu(y, out=y),
        ):
            x = nd.array([3.0])
            y = self.square(x)
            write(y)
            with self.assertRaisesRegex(mx.MXNetError, "not in a computational graph"):
                y.backward()
                nd.waitall()

    def test_nothing_is_wanted_of_constants(self):
        requests = []
        registered(
            "wants",
            forward,
            lambda self, req, **_: requests.append(list(req)),
            list_arguments=lambda self: ["a", "b"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]]),
        )
        a, b = nd.array([1.0]), nd.array([1.0])
        a.attach_grad()
        with autograd.record():
            for data in (a, a * 1):
                nd.Custom(data, b, op_type="wants").backward()
        a.grad.wait_to_read()
        self.assertEqual(requests, [["write", "null"]] * 2)


class KnownValuesTest(ArrayCase):
    def seen(self, x):
        return nd.Custom(x, op_type="square").asnumpy().tolist()

    def test_what_is_written_to_an_input_is_seen(self):
        view = None
        for write, expected in (
            (lambda x: x.__setitem__(slice(None), 5), 5),
            (lambda x: x.__setitem__(0, 6), 6),
            (lambda x: x.__iadd__(1), 2),
            (lambda x: nd.zeros(1, out=x), 0),
            (lambda x: view.__setitem__(slice(None), 8), 8),
            (lambda x: nd.ones(1).copyto(x), 1),
            (lambda x: nd.sgd_update(x, nd.ones(1), lr=1, out=x), 0),
        ):
            for x in (nd.array([1.0]), nd.ones(1)):
                view = x.reshape((1,))
                self.seen(x)
                write(x)
                self.assertEqual(self.seen(x), [expected**2])

    def test_gradients_are_seen_when_they_are_new(self):
        x, own = nd.array([1.0]), nd.array([50.0])
        for mark in (lambda: x.attach_grad(), lambda: autograd.mark_variables(x, own)):
            mark()
            for factor in (2, 3):
                with autograd.record():
                    y = x * factor
                y.backward()
                self.assertEqual(self.seen(x.grad), [factor**2])
        executor = (mx.sym.Variable("x") * 5).bind(mx.cpu(), [x], [own])
        executor.forward(is_train=True)
        executor.backward(nd.ones(1))
        self.assertEqual(self.seen(own), [25])

    def test_the_caller_s_numpy_array_is_its_own(self):
        values = np.array([3], np.float32)
        x = nd.array(values)
        values[0] = 9
        self.assertEqual(self.seen(x), [9])
        self.assertIs(type(x), nd.NDArray)


class MXNetTest(ArrayCase):
    def setUp(self):
        self.seen = []

        def forward(operator, is_train, req, in_data, out_data, aux):
            operator.assign(out_data[0], req[0], in_data[0] + in_data[1])
            operator.assign(out_data[1], req[1], in_data[0] * in_data[1])
            aux[0][:] += 1

        def backward(operator, req, out_grad, in_data, out_data, in_grad, aux):
            self.seen.append(list(req))
            operator.assign(in_grad[0], req[0], out_grad[0] + out_grad[1] * in_data[1])
            operator.assign(in_grad[1], req[1], out_grad[0] + out_grad[1] * in_data[0])
            aux[0][:] += 10

        registered(
            "two",
            forward,
            backward,
            list_arguments=lambda self: ["a", "b"],
            list_outputs=lambda self: ["s", "p"],
            list_auxiliary_states=lambda self: ["c"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0], shapes[0]], [(1,)]),
        )
        self.a, self.b, self.c = nd.array([2.0, 3.0]), nd.array([5.0, 7.0]), nd.zeros(1)

    def test_two_outputs_with_a_state_and_grad_req_add(self):
        self.a.attach_grad()
        self.b.attach_grad("add")
        for _ in range(2):
            with autograd.record():
                s, p = nd.Custom(self.a, self.b, self.c, op_type="two")
                loss = s.sum() + (p * 2).sum()
            loss.backward()
        self.assert_equal(s, [7, 10])
        self.assert_equal(p, [10, 21])
        self.assert_equal(self.a.grad, [11, 15])
        self.assert_equal(self.b.grad, [10, 14])
        self.assert_equal(self.c, [22])

    def test_gradients_of_both_outputs_or_of_one(self):
        self.a.attach_grad()
        with autograd.record():
            s, p = nd.Custom(self.a, self.b, self.c, op_type="two")
        autograd.backward([s, p], [nd.array([1.0, 2.0]), nd.array([3.0, 4.0])], retain_graph=True)
        self.assert_equal(self.a.grad, [16, 30])
        s.backward()
        self.assert_equal(self.a.grad, [1, 1])
        self.assertEqual(self.seen, [["write", "null"]] * 2)

    def test_what_is_not_declared_is_not_there(self):
        for called_back in (False, True):
            registered("loss", None, lambda self, out_grad, **_: out_grad[0].asnumpy(), need_top_grad=False)
            x = nd.ones(1)
            with self.assertRaisesRegex(mx.MXNetError, r"out_grad\[0\] is not here.*need_top_grad"):
                gradient(x, called_back, op_type="loss")
                x.grad.asnumpy()


class RequestTest(ArrayCase):
    def test_assign_within_an_operator(self):
        for values in (lambda: np.full(2, 5), lambda: mx.nd.array([5, 5]), lambda: mx.nd.full(2, 5)):
            for request, expected in (("null", 1), ("write", 5), ("inplace", 5), ("add", 6)):

                def forward(self, out_data, **_):
                    out_data[0][:] = 1
                    self.assign(out_data[0], request, values())

                registered("requests", forward)
                self.assert_equal(nd.Custom(nd.zeros(2), op_type="requests"), np.full(2, expected))

    def test_grad_req_add_in_a_graph(self):
        x = nd.array([3.0])
        x.attach_grad("add")
        op = CachedOp(mx.sym.Custom(mx.sym.Variable("x"), op_type="square") * 1)
        for _ in range(3):
            with autograd.record():
                y = op(x)
            y.backward()
        self.assert_equal(x.grad, [18])


class Counting(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), init="ones")
            self.calls = self.params.get("calls", shape=(1,), init="zeros", grad_req="null")

    def hybrid_forward(self, F, x, scale, calls):
        return F.Custom(x, scale, calls, op_type="counting")


class StateTest(ArrayCase):
    def test_states_are_saved_and_loaded_with_the_parameters(self):
        def forward(self, is_train, req, in_data, out_data, aux):
            aux[0][:] += int(is_train)
            self.assign(out_data[0], req[0], in_data[0] * in_data[1])

        registered(
            "counting",
            forward,
            lambda self, req, in_grad, **_: self.assign(in_grad[1], req[1], 1),
            list_arguments=lambda self: ["data", "scale"],
            list_auxiliary_states=lambda self: ["calls"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]], [(1,)]),
        )
        for hybridized in (False, True):
            net = Counting()
            net.initialize()
            net.hybridize(hybridized)
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
            for _ in range(3):
                with autograd.record():
                    y = net(nd.ones(2))
                y.backward()
                trainer.step(1)
            net(nd.ones(2))
            self.assert_equal(net.calls.data(), [3])
            self.assert_equal(net.scale.data(), [-0.5])
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "net")
                net.save_parameters(path)
                again = Counting()
                again.load_parameters(path)
                self.assert_equal(again.calls.data(), [3])
                if hybridized:
                    net.export(path)
                    self.assertIn("aux:" + net.calls.name, nd.load(path + "-0000.params"))
                    again = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0000.params")
                    self.assert_equal(again.collect_params()[net.calls.name].data(), [3])
                    self.assert_equal(again(nd.ones(2)), [-0.5, -0.5])


if __name__ == "__main__":
    case_runner.main()
