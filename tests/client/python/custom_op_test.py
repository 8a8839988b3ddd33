"""mx.nd.Custom: operators of Python's, applied to arrays."""

import gluond as mx
import numpy as np
from gluond import autograd, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.custom_case import Sigmoid, gradient, registered


class FirstTest(ArrayCase):
    def test_the_tutorial_s_sigmoid(self):
        x = nd.array([0, 1, 2, 3])
        expected = 1 / (1 + np.exp(-np.arange(4)))
        for called_back in (False, True):
            self.assert_close(gradient(x, called_back, op_type="sigmoid"), expected)
            self.assert_close(x.grad, expected * (1 - expected))
        self.assertEqual(
            str(nd.Custom(x, op_type="sigmoid")),
            f"\n[0.5        0.7310586  0.880797   0.95257413]\n<NDArray 4 @{mx.current_context()}>",
        )

    def test_the_tutorial_s_softmax_is_a_loss(self):
        x, label = nd.random.normal(shape=(4, 3)), nd.array([0, 1, 2, 1])
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x, label, op_type="softmax")
        y.backward()
        self.assert_close(y.sum(axis=1), np.ones(4))
        self.assert_close(x.grad, y.asnumpy() - np.eye(3)[[0, 1, 2, 1]])

    def test_inputs_come_by_name_too(self):
        x, label = nd.ones((2, 3)), nd.zeros((2,))
        for y in (nd.Custom(label=label, data=x, op_type="softmax"), nd.Custom(x, label=label, op_type="softmax")):
            self.assert_close(y, np.full((2, 3), 1 / 3))

    def test_results_flow_on_and_gradients_flow_back(self):
        w = nd.array([1.0, 2.0])
        w.attach_grad()
        with autograd.record():
            y = (nd.Custom(nd.Custom(w * 2, op_type="sigmoid"), op_type="sigmoid") * nd.array([1, 10])).sum()
        y.backward()
        inner = 1 / (1 + np.exp(-2 * np.array([1.0, 2.0])))
        outer = 1 / (1 + np.exp(-inner))
        self.assert_close(w.grad, 2 * inner * (1 - inner) * outer * (1 - outer) * [1, 10], 1e-4)

    def test_it_need_not_be_recorded(self):
        y = nd.Custom(nd.zeros(3), op_type="sigmoid")
        self.assert_close(y + 1, np.full(3, 1.5))

    def test_out_gets_the_values(self):
        out = nd.zeros((2,))
        self.assertIs(nd.Custom(nd.zeros(2), op_type="sigmoid", out=out), out)
        self.assert_close(out, [0.5, 0.5])

    def test_head_gradients_and_grad_req(self):
        x = nd.zeros(2)
        for request, expected in (("write", [1, 2]), ("add", [2, 4])):
            x.attach_grad(request)
            for _ in range(2):
                with autograd.record():
                    y = nd.Custom(x, op_type="sigmoid")
                y.backward(nd.array([4.0, 8.0]))
            self.assert_close(x.grad, expected)

    def test_retained_history_runs_again(self):
        x = nd.zeros(1)
        x.attach_grad("add")
        with autograd.record():
            y = nd.Custom(x, op_type="sigmoid")
        for _ in range(3):
            y.backward(retain_graph=True)
        self.assert_close(x.grad, [0.75])

    def test_inputs_that_are_changed_later_do_not_change_the_gradient(self):
        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], in_data[0] * 2)

        registered("square", lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], in_data[0] ** 2), backward)
        x = nd.array([3.0])
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x * 1, op_type="square") + nd.Custom(x, op_type="square")
        x[:] = 100
        y.backward()
        self.assert_close(x.grad, [12])


class ArraysTest(ArrayCase):
    def seen(self, inputs=None, **methods):
        """The arguments of forward."""
        calls = []
        registered("look", lambda self, **kwargs: calls.append(kwargs), **methods)
        nd.Custom(*(inputs or [nd.ones((2, 3))]), op_type="look").asnumpy()
        return calls[0]

    def test_what_forward_gets(self):
        call = self.seen()
        self.assertEqual(call["req"], ["write"])
        self.assertFalse(call["is_train"])
        self.assertEqual((call["in_data"][0].shape, call["out_data"][0].shape, call["aux"]), ((2, 3), (2, 3), []))
        with autograd.train_mode():
            self.assertTrue(self.seen()["is_train"])

    def test_inputs_cannot_be_written(self):
        x = self.seen()["in_data"][0]
        self.assertFalse(x.writable)
        for write in (
            lambda: x.__setitem__(slice(None), 1),
            lambda: x.__iadd__(1),
            lambda: x.__setitem__(0, 5),
            lambda: nd.relu(x, out=x),
        ):
            with self.assertRaisesRegex(ValueError, "readonly NDArray"):
                write()

    def test_an_output_that_is_not_assigned_is_zeros(self):
        registered("nothing", None)
        x = nd.ones((2, 2))
        self.assert_equal(gradient(x, op_type="nothing"), np.zeros((2, 2)))
        self.assert_equal(x.grad, np.zeros((2, 2)))

    def test_everything_that_can_be_assigned(self):
        ones = np.ones((2, 3), np.float32)
        for what, expected in (
            (5, 5 * ones),
            (ones.astype(np.float64) * 2, 2 * ones),
            ([[1], [2]], ones * [[1], [2]]),
            (np.arange(3), ones * [0, 1, 2]),
            (nd.full((2, 3), 7), 7 * ones),
            (lambda: mx.nd.array(ones * 3), 3 * ones),
            (lambda: mx.nd.ones((2, 3)) + 1, 2 * ones),
            (lambda: mx.nd.ones((3,)), ones),
            (lambda: mx.nd.ones((2, 3), dtype="float64"), ones),
            (lambda: mx.nd.sum(mx.nd.ones((2, 3)), axis=1, keepdims=True), 3 * ones),
        ):

            def forward(self, req, out_data, **_):
                self.assign(out_data[0], req[0], what() if callable(what) else what)

            registered("assign", forward)
            self.assert_equal(nd.Custom(nd.zeros((2, 3)), op_type="assign"), expected, np.float32)

    def test_assign_honours_req(self):
        op = mx.operator.CustomOp()
        x = nd.ones(2)
        op.assign(x, "null", nd.full(2, 5))
        self.assert_equal(x, [1, 1])
        op.assign(x, "add", nd.full(2, 5))
        self.assert_equal(x, [6, 6])
        op.assign(x, "inplace", nd.full(2, 3))
        self.assert_equal(x, [3, 3])

    def test_outputs_can_be_written_in_parts_and_in_place(self):
        def forward(self, in_data, out_data, **_):
            y = out_data[0]
            y[0] = 1
            y[1, 2] = 5
            y[:] += np.ones((2, 3))
            y[:] *= mx.nd.array([1, 2, 3])
            y += mx.nd.ones((2, 3))
            y[1] = mx.nd.zeros((3,))
            y[:] -= 1

        registered("parts", forward)
        self.assert_equal(nd.Custom(nd.zeros((2, 3)), op_type="parts"), [[2, 4, 6], [-1, -1, -1]])

    def test_arrays_of_the_code_are_arrays_like_any_other(self):
        kept = []

        def forward(self, in_data, out_data, **_):
            x = in_data[0]
            y = mx.nd.array(x.asnumpy())
            kept.append(y)
            out_data[0][:] = mx.nd.dot(y, x.T)[0:1].reshape((1, 1)) + y[0, 0] + x[0].sum() + float(x[0, 1].asscalar())

        registered("mixed", forward, infer_shape=lambda self, shapes: (shapes, [(1, 1)], []))
        self.assert_equal(nd.Custom(nd.array([[1, 2]]), op_type="mixed"), [[5 + 1 + 3 + 2]])
        self.assert_equal(kept[0] * 2, [[2, 4]])

    def test_an_array_of_numpy_s_array_is_a_copy(self):
        values, seen = np.ones(2, np.float32), []

        def forward(self, out_data, **unused):
            x = nd.array(values)
            x += 1
            seen.append(values.copy())
            values[:] = 9
            out_data[0][:] = x

        registered("copies", forward)
        self.assert_equal(nd.Custom(nd.ones(2), op_type="copies"), [2, 2])
        np.testing.assert_array_equal(seen, [[1, 1]])

    def test_operators_of_the_server_only(self):
        registered(
            "expo",
            lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], mx.nd.exp(in_data[0])),
            lambda self, req, out_grad, out_data, in_grad, **_: self.assign(in_grad[0], req[0], out_grad[0] * out_data[0]),
        )
        x = nd.array([0.0, 1.0])
        y = gradient(x, op_type="expo")
        self.assert_close(y, np.exp([0, 1]))
        self.assert_close(x.grad, np.exp([0, 1]))

    def test_an_array_is_what_it_was_when_it_was_assigned(self):
        def forward(self, out_data, **_):
            for value in (mx.nd.array([1.0]), mx.nd.ones((1,))):
                out_data[0][:] = value
                value += 10
                value[:] = 50

        registered("snapshot", forward)
        self.assert_equal(nd.Custom(nd.zeros(1), op_type="snapshot"), [1])

    def test_results_may_be_written(self):
        x = nd.zeros(2)
        y = nd.Custom(x, op_type="sigmoid")
        z = nd.Custom(y, op_type="sigmoid")
        y += 1
        y[0] = 7
        self.assert_close(y, [7, 1.5])
        self.assert_close(z, np.full(2, 1 / (1 + np.exp(-0.5))))

    def test_dtypes(self):
        for dtype in ("float64", "float16", "int32", "uint8", "int64"):
            registered("same", lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], in_data[0]))
            y = nd.Custom(nd.array([1, 2], dtype=dtype), op_type="same")
            self.assert_equal(y, [1, 2], np.dtype(dtype).type)

    def test_double_precision_is_kept(self):
        registered("double", lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], in_data[0].asnumpy() / 3))
        y = nd.Custom(nd.array([1], dtype="float64"), op_type="double")
        self.assertEqual(y.asnumpy()[0], 1 / 3)


class PropTest(ArrayCase):
    def test_parameters_come_as_text(self):
        got = {}

        def init(self, **kwargs):
            mx.operator.CustomOpProp.__init__(self)
            got.update(kwargs)

        registered("texts", None, __init__=init)
        nd.Custom(
            nd.ones(1),
            op_type="texts",
            bias=0.1,
            flag=True,
            shape=(1, 2),
            items=[1, 2],
            none=None,
            tiny=1e-5,
            dtype=np.float32,
            count=np.int64(3),
            name="n",
        )
        self.assertEqual(
            got,
            {
                "bias": "0.1",
                "flag": "True",
                "shape": "(1, 2)",
                "items": "[1, 2]",
                "none": "None",
                "tiny": "1e-05",
                "dtype": "float32",
                "count": "3",
            },
        )

    def test_several_inputs_and_outputs(self):
        def forward(self, req, in_data, out_data, **_):
            self.assign(out_data[0], req[0], in_data[0].asnumpy() + in_data[1].asnumpy())
            self.assign(out_data[1], req[1], in_data[0].asnumpy().sum(axis=1))

        def backward(self, req, out_grad, in_grad, **_):
            self.assign(in_grad[0], req[0], out_grad[0].asnumpy() + out_grad[1].asnumpy()[:, None])
            self.assign(in_grad[1], req[1], out_grad[0])

        registered(
            "two",
            forward,
            backward,
            list_arguments=lambda self: ["a", "b"],
            list_outputs=lambda self: ["sum", "total"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0], shapes[0][:1]]),
        )
        a, b = nd.ones((2, 3)), nd.ones((2, 3))
        a.attach_grad()
        b.attach_grad()
        with autograd.record():
            total, rows = nd.Custom(a, b, op_type="two")
            loss = (total * 2).sum() + (rows * nd.array([10, 20])).sum()
        loss.backward()
        self.assert_equal(rows, [3, 3])
        self.assert_equal(a.grad, [[12] * 3, [22] * 3])
        self.assert_equal(b.grad, np.full((2, 3), 2))

    def test_what_create_operator_gets(self):
        calls = []
        registered(
            "create",
            None,
            list_arguments=lambda self: ["data"],
            list_auxiliary_states=lambda self: ["state"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]], [(5,)]),
            create_operator=lambda self, *args: calls.append(args) or mx.operator.CustomOp(),
        )
        nd.Custom(nd.ones((2, 3)), nd.ones((5,)), op_type="create")
        self.assertEqual(calls, [(mx.current_context(), [[2, 3], [5]], [0, 0])])

    def test_auxiliary_states_are_written_by_both_passes(self):
        def forward(self, aux, **_):
            aux[0][:] = aux[0] + 1

        def backward(self, aux, **_):
            aux[0][:] += 10

        registered(
            "count",
            forward,
            backward,
            list_auxiliary_states=lambda self: ["calls"],
            infer_shape=lambda self, shapes: (shapes, [shapes[0]], [(1,)]),
        )
        x, calls = nd.ones(2), nd.zeros(1)
        x.attach_grad()
        nd.Custom(x, calls, op_type="count").wait_to_read()
        self.assert_equal(calls, [1])
        with autograd.record():
            y = nd.Custom(data=x, calls=calls, op_type="count")
        y.backward()
        self.assert_equal(calls, [12])
        for count in range(1, 100):
            with autograd.record():
                y = nd.Custom(x, calls, op_type="count") * 2  # So the server calls back.
            y.backward()
            self.assert_equal(calls, [12 + 11 * count])

    def test_dependencies_that_are_not_declared_are_not_there(self):
        seen = []

        def backward(self, out_grad, in_data, out_data, **_):
            for name, array in (("out_grad", out_grad[0]), ("in_data", in_data[0]), ("out_data", out_data[0])):
                try:
                    array.asnumpy()
                    seen.append(name)
                except mx.MXNetError as error:
                    self.message = str(error)
            assert "has not declared" in self.message

        for kept in (["out_grad"], ["in_data"], ["out_data"], ["in_data", "out_data"]):

            def declare(self, out_grad, in_data, out_data):
                assert (out_grad, in_data, out_data) == ([0], [1], [2])
                return [number for name, number in (("out_grad", 0), ("in_data", 1), ("out_data", 2)) if name in kept]

            registered("depends", None, backward, declare_backward_dependency=declare)
            x = nd.ones(1)
            gradient(x, op_type="depends")
            x.grad.wait_to_read()
            self.assertEqual(seen, kept)
            seen.clear()

    def test_infer_type_takes_names_dtypes_and_classes(self):
        for said in (np.float64, "float64", np.dtype("float64"), float):
            registered(
                "typed",
                lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], in_data[0]),
                infer_type=lambda self, types: (types, [said], []),
            )
            self.assertEqual(nd.Custom(nd.ones(1), op_type="typed").dtype, np.float64)

    def test_a_prop_is_asked_once_for_each_signature(self):
        asked = []

        def infer_shape(self, shapes):
            asked.append([list(shape) for shape in shapes])
            self.noted = shapes[0]
            return shapes, [shapes[0]], []

        made = []
        registered(
            "once",
            None,
            infer_shape=infer_shape,
            create_operator=lambda self, *args: made.append(list(self.noted)) or mx.operator.CustomOp(),
        )
        for size in (2, 3, 2, 2):
            nd.Custom(nd.ones(size), op_type="once")
        self.assertEqual(asked, [[[2]], [[3]]])
        self.assertEqual(made, [[2], [3], [2], [2]])

    def test_one_object_serves_a_forward_pass_and_its_backward_pass(self):
        def forward(self, **_):
            self.noted = "forward"

        def backward(self, req, in_grad, **_):
            self.assign(in_grad[0], req[0], 1 if self.noted == "forward" else 0)

        registered("stateful", forward, backward)
        x = nd.zeros(1)
        gradient(x, op_type="stateful")
        self.assert_equal(x.grad, [1])

    def test_no_arguments_at_all(self):
        registered(
            "made",
            lambda self, req, out_data, **_: self.assign(out_data[0], req[0], 3),
            list_arguments=lambda self: [],
            infer_shape=lambda self, shapes: ([], [(2,)], []),
            infer_type=lambda self, types: ([], ["float32"], []),
        )
        self.assert_equal(nd.Custom(op_type="made"), [3, 3])

    def test_a_name_registered_twice_is_the_second_with_a_warning(self):
        registered("again", lambda self, req, out_data, **_: self.assign(out_data[0], req[0], 1))
        self.assert_equal(nd.Custom(nd.zeros(1), op_type="again"), [1])
        with self.assertWarnsRegex(UserWarning, "overriding existing custom operator again"):

            @mx.operator.register("again")
            class Again(mx.operator.CustomOpProp):
                def create_operator(self, ctx, in_shapes, in_dtypes):
                    return Sigmoid()

        self.assertEqual(Again.__name__, "Again")
        self.assert_equal(nd.Custom(nd.zeros(1), op_type="again"), [0.5])
        self.assertIn("again", mx.operator.get_all_registered_operators())


if __name__ == "__main__":
    case_runner.main()
