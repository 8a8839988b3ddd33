"""spatial_cases.py's calls in MXNet 1.9.1, as operators on arrays. Threads are OMP_NUM_THREADS."""

import needs
import spatial_cases

needs.require("numpy", "mxnet")

import mxnet as mx  # noqa: E402


def prepare(op, attrs, shape, training):
    function = getattr(mx.nd, op)
    symbol = getattr(mx.sym, op)(mx.sym.var("x"), **attrs)
    shapes = symbol.infer_shape(x=shape)
    inputs = [mx.nd.random.uniform(shape=s) for s in shapes[0]]
    dy = mx.nd.random.uniform(shape=shapes[1][0])
    if not training:
        return lambda: function(*inputs, **attrs).wait_to_read()
    for each in inputs:
        each.attach_grad()

    def train():
        with mx.autograd.record():
            y = function(*inputs, **attrs)
        y.backward(dy)
        for each in inputs:
            each.grad.wait_to_read()

    return train


if __name__ == "__main__":
    spatial_cases.serve(prepare)
