"""Inputs of composed operators, and a check of their gradients."""

import numpy as np
from gluond import autograd, nd

THETA = nd.array([[0.5, 0.1, 0.2, -0.1, 1, 0.3]])


def image():
    return nd.arange(16).reshape((1, 1, 4, 4))


def checked_gradient(case, function, x, tolerance):
    """The gradient of sum(heads * function(x)), with heads that differ, against differences of the values."""
    x.attach_grad()
    with autograd.record():
        y = function(x)
    heads = np.random.RandomState(1).uniform(0.5, 1.5, y.shape).astype(y.dtype)
    y.backward(nd.array(heads))
    expected = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape, np.float32)
        step[place] = 0.25
        above, below = (function(nd.array(values)).asnumpy().astype(float) for values in (x.asnumpy() + step, x.asnumpy() - step))
        expected[place] = (heads * (above - below)).sum() / 0.5
    case.assert_close(x.grad, expected, tolerance)
