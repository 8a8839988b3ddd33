"""Custom operators that the tests use, and a way to make one of a function."""

import warnings

import gluond as mx
import numpy as np
from gluond import autograd, nd


class Sigmoid(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.nd.array(1 / (1 + np.exp(-in_data[0].asnumpy()))))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y, dy = out_data[0].asnumpy(), out_grad[0].asnumpy()
        self.assign(in_grad[0], req[0], mx.nd.array(dy * y * (1 - y)))


@mx.operator.register("sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Sigmoid()


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(len(label)), label] -= 1
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Softmax()


def registered(name, forward, backward=None, **methods):
    """Registers an operator of these functions; `methods` are the prop's."""
    need_top_grad = methods.pop("need_top_grad", True)

    def call(function, self, kwargs):
        if function is not None:
            function(self, **kwargs)

    operator = type(
        "Operator",
        (mx.operator.CustomOp,),
        {
            "forward": lambda self, **kwargs: call(forward, self, kwargs),
            "backward": lambda self, **kwargs: call(backward, self, kwargs),
        },
    )
    methods.setdefault("create_operator", lambda self, ctx, in_shapes, in_dtypes: operator())
    methods.setdefault("__init__", lambda self: mx.operator.CustomOpProp.__init__(self, need_top_grad))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mx.operator.register(name)(type(name, (mx.operator.CustomOpProp,), methods))


def gradient(x, called_back=False, **kwargs):
    """The result of an operator, after its backward pass: begun there, or, called back, by what is computed from it."""
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, **kwargs)
        z = y * 1 if called_back else y
    z.backward()
    return y
