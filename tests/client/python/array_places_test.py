"""Wherever its values are, an array is an NDArray like any other: no class tells it, and no attribute sends anything."""

import pickle
import unittest.mock

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._array.calls import Array
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.custom_case import registered


class Double(autograd.Function):
    def forward(self, x):
        return nd.array(2 * x.asnumpy())

    def backward(self, dy):
        return 2 * dy


def in_custom_operator():
    """The arrays that the code of a custom operator gets: by name."""
    found = {}

    def forward(self, in_data, out_data, aux, **_):
        found.update(
            {
                "known input": in_data[0],
                "input": in_data[1],
                "row of an input": in_data[0][1],
                "output": out_data[0],
                "state": aux[0],
                "made within": mx.nd.array([1]),
            }
        )
        out_data[0][:] = in_data[0].asnumpy()

    def backward(self, out_grad, in_data, out_data, in_grad, aux, **_):
        found.update(
            {"head gradient": out_grad[0], "absent": in_data[0], "output of before": out_data[0], "to be assigned": in_grad[0]}
        )

    registered(
        "seen_places",
        forward,
        backward,
        list_arguments=lambda self: ["x", "y"],
        list_auxiliary_states=lambda self: ["s"],
        infer_shape=lambda self, shapes: (shapes, [shapes[0]], [(1,)]),
        declare_backward_dependency=lambda self, out_grad, in_data, out_data: [*out_grad, *out_data],
    )
    x = nd.ones((2, 2))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(nd.array([[1, 2], [3, 4]]), x, nd.zeros(1), op_type="seen_places")
        found["result of a custom operator"] = y
        found["recorded on the server"] = y * 2
    y.backward()
    x.grad.wait_to_read()
    return found


def every_kind():
    """An array of each kind that a program can get: (where it comes from, the array)."""
    x, marked = nd.array([[1, 2], [3, 4]]), nd.ones((2, 2))
    marked.attach_grad()
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize()
    executor = mx.sym.relu(mx.sym.var("x")).simple_bind(mx.cpu(), x=(2, 2))
    with autograd.record():
        recorded = Double()(marked)
    yield from {
        "values": x,
        "result": x + 1,
        "row": x[1],
        "slice": x[0:1],
        "copied slice": x[:, 1],
        "chosen": x[[1, 0]],
        "reshaped": x.reshape(-1),
        "view of a view": x[1][0:1],
        "row of a loop": next(iter(x)),
        "marked": marked,
        "gradient": marked.grad,
        "row of a gradient": marked.grad[0],
        "recorded": recorded,
        "unpickled": pickle.loads(pickle.dumps(x)),
        "detached": x.detach(),
        "parameter": net.weight.data(),
        "a parameter's gradient": net.weight.grad(),
        "an executor's output": executor.forward()[0],
        "argument": executor.arg_arrays[0],
        "an argument's gradient": executor.grad_arrays[0],
        **in_custom_operator(),
    }.items()


class PlacesTest(ArrayCase):
    def test_every_array_is_exactly_an_ndarray(self):
        for what, array in every_kind():
            with self.subTest(what):
                self.assertIs(type(array), nd.NDArray)

    def test_reading_attributes_sends_nothing(self):
        for what, array in every_kind():
            with self.subTest(what), unittest.mock.patch.object(array._session, "submit") as submit, unittest.mock.patch.object(
                array._session, "request"
            ) as request:
                for name in (*Array.__slots__, "context", "ctx", "grad", "stype", "writable"):
                    getattr(array, name, None)
                submit.assert_not_called()
                request.assert_not_called()

    def test_numpy_values_can_be_written_to_a_new_view(self):
        for key in (1, slice(1, 3), (1, slice(0, 2))):
            with self.subTest(key=key):
                x, expected = nd.zeros((3, 2)), np.zeros((3, 2))
                expected[key] = np.ones(expected[key].shape)
                x[key][:] = np.ones(expected[key].shape)
                self.assert_equal(x, expected)

    def test_an_operator_s_input_cannot_be_written_by_its_views(self):
        def forward(self, in_data, out_data, **_):
            for read_first in (False, True):
                for part in (in_data[0].reshape(-1), in_data[0][0], in_data[0][0:1]):
                    with self.assertRaisesRegex(ValueError, "readonly"):
                        part[:] = 0
                    with self.assertRaisesRegex(ValueError, "readonly"):
                        nd.ones((2,)).copyto(part)
                in_data[0].asnumpy()

        test = self
        registered("writes_views", lambda self, **arrays: forward(test, **arrays))
        x = nd.ones((1, 2)) * 2
        nd.Custom(x, op_type="writes_views")
        self.assert_equal(x, [[2, 2]])

    def test_marks_stay_when_a_custom_operator_s_result_is_assigned_to(self):
        for value in (nd.full((2,), 4), nd.full((1,), 4), nd.full((2,), 4, dtype="float64"), 4, np.full(2, 4)):
            y = nd.Custom(nd.ones(2), op_type="sigmoid")
            y.attach_grad()
            y[:] = value
            with autograd.record():
                z = y * y
            z.backward()
            self.assert_equal(y.grad, [8, 8])

    def test_what_is_recorded_flows_through_in_place_operations(self):
        x = nd.ones(2)
        x.attach_grad()
        for write in (lambda y, fx: y.__iadd__(fx), lambda y, fx: y.__setitem__(slice(None), fx)):
            y = nd.Custom(nd.ones(2), op_type="sigmoid")
            with autograd.record():
                write(y, Double()(x))
                z = y * 3
            z.backward()
            self.assert_equal(x.grad, [6, 6])

    def test_a_custom_operator_s_result_can_be_a_gradient(self):
        x, gradient = nd.ones(2), nd.Custom(nd.ones(2), op_type="sigmoid")
        autograd.mark_variables([x], [gradient])
        for factor in (3, 4):
            with autograd.record():
                y = x * factor
            y.backward()
            self.assert_equal(gradient, [factor, factor])

    def test_a_custom_operator_s_result_comes_along_to_a_worker(self):
        offset = nd.Custom(nd.zeros(1), op_type="sigmoid")
        dataset = gluon.data.ArrayDataset(nd.array([1, 2])).transform(lambda x: x + offset)
        (batch,) = gluon.data.DataLoader(dataset, batch_size=2, num_workers=1)
        np.testing.assert_array_equal(batch.asnumpy().ravel(), [1.5, 2.5])

    def test_bfloat16_goes_from_a_custom_operator_to_the_server(self):
        def forward(self, in_data, out_data, **_):
            in_data[0].asnumpy()
            out_data[0][:] = in_data[0].asnumpy() + 1
            out_data[0][:] = nd.relu(out_data[0]) + in_data[0]

        registered("halves", forward)
        x = nd.array([1, 2]).astype("bfloat16")
        np.testing.assert_array_equal(nd.Custom(x, op_type="halves").asnumpy(), [3, 5])


if __name__ == "__main__":
    case_runner.main()
