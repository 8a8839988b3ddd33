# %% [markdown]
# # Operators in Python, with numpy
#
# An operator that the library lacks can be written in Python. The server computes the rest of the network, and calls this
# program back, over the connection that is there already, when the operator's turn comes. What is below is the code of
# MXNet's tutorials; only the import is another one.

# %%
import numpy as np

import gluond as mx
from gluond import autograd, gluon

# %% [markdown]
# ## An operator without parameters
#
# The forward pass takes arrays and assigns its result to arrays that are there already. `req` says how: `write` replaces,
# `add` adds, `null` asks for nothing; `assign` knows them all. (The library's own is `mx.nd.sigmoid`.)


# %%
class Sigmoid(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], mx.nd.array(1.0 / (1.0 + np.exp(-x))))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y = out_data[0].asnumpy()
        dy = out_grad[0].asnumpy()
        self.assign(in_grad[0], req[0], mx.nd.array(dy * (1.0 - y) * y))


# %% [markdown]
# A second class describes it: names of inputs and outputs, shapes, and how an instance is made. `register` gives it its
# name. The name `sigmoid` is taken in the library's own registry, and that does not matter: `Custom` has names of its own.


# %%
@mx.operator.register("sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shapes):
        return (in_shapes[0],), (in_shapes[0],), ()

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Sigmoid()


# %%
x = mx.nd.array([0, 1, 2, 3])
x.attach_grad()
with autograd.record():
    y = mx.nd.Custom(x, op_type="sigmoid")
print(y)

# %%
y.backward()
print(x.grad)

# %%
expected = 1 / (1 + np.exp(-np.arange(4.0)))
mx.test_utils.assert_almost_equal(y, expected, rtol=1e-5)
mx.test_utils.assert_almost_equal(x.grad, expected * (1 - expected), rtol=1e-5)
mx.test_utils.assert_almost_equal(y, mx.nd.sigmoid(x), rtol=1e-5)

# %% [markdown]
# ## An operator with parameters
#
# A dense layer has two inputs, data and weight, and here a constant bias that comes as an attribute. Attributes arrive as
# text, whatever they were. The gradient of the data is `dy W`, that of the weight `dy^T x`.


# %%
class Dense(mx.operator.CustomOp):
    def __init__(self, bias):
        super().__init__()
        self._bias = bias

    def forward(self, is_train, req, in_data, out_data, aux):
        x, weight = in_data[0].asnumpy(), in_data[1].asnumpy()
        self.assign(out_data[0], req[0], mx.nd.array(x.dot(weight.T) + self._bias))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        x, weight = in_data[0].asnumpy(), in_data[1].asnumpy()
        dy = out_grad[0].asnumpy()
        self.assign(in_grad[0], req[0], mx.nd.array(dy.dot(weight)))
        self.assign(in_grad[1], req[1], mx.nd.array(dy.T.dot(x)))


@mx.operator.register("dense")
class DenseProp(mx.operator.CustomOpProp):
    def __init__(self, bias):
        super().__init__(need_top_grad=True)
        assert isinstance(bias, str)
        self._bias = float(bias)

    def list_arguments(self):
        return ["data", "weight"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shapes):
        data_shape, weight_shape = in_shapes
        return (data_shape, weight_shape), ((data_shape[0], weight_shape[0]),), ()

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Dense(self._bias)


# %% [markdown]
# A Block holds the weight and uses the operator.


# %%
class DenseBlock(gluon.Block):
    def __init__(self, in_channels, channels, bias, **kwargs):
        super().__init__(**kwargs)
        self._bias = bias
        self.weight = self.params.get("weight", shape=(channels, in_channels))

    def forward(self, x):
        return mx.nd.Custom(x, self.weight.data(x.context), bias=self._bias, op_type="dense")


mx.random.seed(7)
dense = DenseBlock(3, 5, 0.1)
dense.initialize()
x = mx.nd.uniform(shape=(4, 3))
y = dense(x)
print(y)

# %%
weight = dense.weight.data()
mx.test_utils.assert_almost_equal(y, x.asnumpy() @ weight.asnumpy().T + 0.1, rtol=1e-5)

# %% [markdown]
# It trains like any other layer: here towards a matrix that is known.

# %%
truth = mx.nd.array(np.arange(15).reshape(5, 3) / 10)
trainer = gluon.Trainer(dense.collect_params(), "sgd", {"learning_rate": 0.5})
loss_of = gluon.loss.L2Loss()
losses = []
for step in range(100):
    data = mx.nd.uniform(low=-1, high=1, shape=(32, 3))
    with autograd.record():
        loss = loss_of(dense(data), mx.nd.dot(data, truth.T) + 0.1)
    loss.backward()
    trainer.step(32)
    losses.append(loss.mean())
print("loss: %.4f at first, %.6f at last" % (losses[0].asscalar(), losses[-1].asscalar()))
assert losses[-1].asscalar() < 0.01 * losses[0].asscalar()
mx.test_utils.assert_almost_equal(dense.weight.data(), truth, rtol=0.1, atol=0.05)
