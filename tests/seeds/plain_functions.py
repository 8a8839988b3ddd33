# %% [markdown]
# # Plain functions as operators
#
# `customop` makes an operator of a function. There is no class, and no rule for shapes: the result has the shape that it
# has. With `'numpy'` the function gets and returns numpy arrays, with `'mxnet'` arrays of the library.

# %%
import numpy

import gluond as mx
from gluond import minpy
from gluond.minpy import customop


@customop("numpy")
def my_softmax(x, y):
    probs = numpy.exp(x - numpy.max(x, axis=1, keepdims=True))
    probs /= numpy.sum(probs, axis=1, keepdims=True)
    n = x.shape[0]
    return -numpy.sum(numpy.log(probs[numpy.arange(n), y.astype(int)])) / n


# %% [markdown]
# The derivative is a function as well: it takes the result and the arguments, and returns a function from the gradient of
# the result to that of one argument. `argnum` says of which; 0 is the default.


# %%
def my_softmax_grad(ans, x, y):
    def grad(g):
        n = x.shape[0]
        probs = numpy.exp(x - numpy.max(x, axis=1, keepdims=True))
        probs /= numpy.sum(probs, axis=1, keepdims=True)
        probs[numpy.arange(n), y.astype(int)] -= 1
        return g * probs / n

    return grad


my_softmax.def_grad(my_softmax_grad)

# %%
x = mx.nd.array([[1, 2, 3], [1, 0, -1]])
labels = mx.nd.array([2, 0])
x.attach_grad()
with mx.autograd.record():
    loss = my_softmax(x, labels)
loss.backward()
print(loss, x.grad)

# %%
x2 = x.copy()
x2.attach_grad()
with mx.autograd.record():
    same = -mx.nd.pick(mx.nd.log_softmax(x2), labels).mean()
same.backward()
mx.test_utils.assert_almost_equal(loss.asnumpy().ravel(), same.asnumpy().ravel(), rtol=1e-5)
mx.test_utils.assert_almost_equal(x.grad, x2.grad, rtol=1e-5, atol=1e-6)

# %% [markdown]
# Several arguments have a derivative each. One that has none is an error only where its gradient is wanted.


# %%
@customop("mxnet")
def scaled(x, factor):
    return x * factor


scaled.def_grad(lambda ans, x, factor: lambda g: g * factor)
scaled.def_grad(lambda ans, x, factor: lambda g: (g * x).sum(), argnum=1)
gradient = minpy.grad(lambda x, factor: scaled(x, factor).sum(), argnum=[0, 1])
of_x, of_factor = gradient(mx.nd.array([1, 2]), mx.nd.array([3]))
print(of_x, of_factor)
assert of_x.asnumpy().tolist() == [3, 3] and of_factor.asnumpy().ravel().tolist() == [3]
