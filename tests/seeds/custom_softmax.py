# %% [markdown]
# # A loss layer of one's own
#
# A softmax with its cross entropy's gradient, written in Python, as the last layer of a network. It trains like the
# library's own, number for number.

# %%
import numpy as np

import gluond as mx


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
        y /= y.sum(axis=1).reshape((x.shape[0], 1))
        self.assign(out_data[0], req[0], mx.nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(label.shape[0]), label] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


# %% [markdown]
# It is a loss: it needs no gradient from above. `infer_shape` tells the label's shape from the data's, so that nobody has to
# give it; `infer_type` is optional.


# %%
@mx.operator.register("softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        data_shape = in_shape[0]
        return [data_shape, (data_shape[0],)], [data_shape], []

    def infer_type(self, in_type):
        return [in_type[0], in_type[0]], [in_type[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


# %% [markdown]
# Any small network will do below it. `label` is not given to `Custom`, so that it becomes a variable, `softmax_label`.


# %%
def body():
    data = mx.sym.Variable("data")
    fc1 = mx.sym.FullyConnected(data=data, name="fc1", num_hidden=32)
    act1 = mx.sym.Activation(data=fc1, name="relu1", act_type="relu")
    return mx.sym.FullyConnected(data=act1, name="fc3", num_hidden=4)


mlp = mx.symbol.Custom(data=body(), name="softmax", op_type="softmax")
builtin = mx.symbol.SoftmaxOutput(data=body(), name="softmax")
print(mlp.list_arguments())
assert mlp.list_arguments() == builtin.list_arguments()
arguments, outputs, _ = mlp.infer_shape(data=(64, 8))
print(dict(zip(mlp.list_arguments(), arguments)), outputs)

# %% [markdown]
# Both are trained on the same points, four clouds of them, from the same weights.

# %%
rng = np.random.RandomState(3)
centres = rng.randn(4, 8) * 2
labels = rng.randint(0, 4, 512)
points = (centres[labels] + rng.randn(512, 8)).astype("float32")


def train(symbol, epochs=5, batch=64, learning_rate=0.1):
    executor = symbol.simple_bind(mx.cpu(), data=(batch, 8), softmax_label=(batch,), grad_req="write")
    first = np.random.RandomState(5)
    for name, array in executor.arg_dict.items():
        if name not in ("data", "softmax_label"):
            array[:] = first.uniform(-0.3, 0.3, array.shape)
    right = 0
    for epoch in range(epochs):
        right = 0
        for begin in range(0, 512, batch):
            rows = slice(begin, begin + batch)
            executor.forward(is_train=True, data=mx.nd.array(points[rows]), softmax_label=mx.nd.array(labels[rows]))
            executor.backward()
            for name, gradient in executor.grad_dict.items():
                if name not in ("data", "softmax_label"):
                    weight = executor.arg_dict[name]
                    weight[:] = weight - learning_rate / batch * gradient
            right += int((executor.outputs[0].asnumpy().argmax(axis=1) == labels[rows]).sum())
        print("epoch %d: accuracy %.3f" % (epoch, right / 512))
    return right / 512, {name: array.asnumpy() for name, array in executor.arg_dict.items()}


own, own_weights = train(mlp)

# %%
library, library_weights = train(builtin)

# %%
assert own > 0.9 and abs(own - library) < 0.01
for name in ("fc1_weight", "fc1_bias", "fc3_weight", "fc3_bias"):
    mx.test_utils.assert_almost_equal(own_weights[name], library_weights[name], rtol=1e-3, atol=1e-4)
