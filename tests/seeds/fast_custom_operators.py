# %% [markdown]
# # Custom operators without leaving the server
#
# A custom operator that copies its data out with `asnumpy()` pays for the copy. One that is written with the library's own
# operators computes on the server, and only its calls travel. The last of MXNet's tutorials recommends it; here is its
# softmax in that form, used from a Gluon network, and its place among the other ways.

# %%
import numpy as np

import gluond as mx
from gluond import autograd, gluon


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0]
        e = mx.nd.exp(mx.nd.broadcast_sub(x, mx.nd.max(x, axis=1, keepdims=True)))
        self.assign(out_data[0], req[0], mx.nd.broadcast_div(e, mx.nd.sum(e, axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y, label = out_data[0], in_data[1]
        self.assign(in_grad[0], req[0], y - mx.nd.one_hot(label, y.shape[1]))


@mx.operator.register("softmax_on_server")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def infer_type(self, in_type):
        return [in_type[0], in_type[0]], [in_type[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


# %%
x = mx.nd.array([[1, 2, 3], [3, 2, 1]])
label = mx.nd.array([2, 0])
x.attach_grad()
with autograd.record():
    y = mx.nd.Custom(x, label, op_type="softmax_on_server")
y.backward()
expected = mx.nd.softmax(x).asnumpy()
mx.test_utils.assert_almost_equal(y, expected, rtol=1e-5)
mx.test_utils.assert_almost_equal(x.grad, expected - np.eye(3)[[2, 0]], rtol=1e-5, atol=1e-6)
print(x.grad)

# %% [markdown]
# The registry of built-in operators is open as well: on the server, in C++, by `GLUOND_REGISTER_OP` (`docs/operators.md`). What
# is registered there is here under its name, with its signature and its documentation.

# %%
print(mx.nd.Activation.__doc__.splitlines()[0])
assert "softmax" in dir(mx.nd) and "softmax" in dir(mx.sym)

# %% [markdown]
# A custom operator in a hybridized network: the graph runs on the server and stops where the operator is.


# %%
class Classifier(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.hidden = gluon.nn.Dense(16, activation="relu")
            self.scores = gluon.nn.Dense(3)

    def hybrid_forward(self, F, x, label):
        return F.Custom(self.scores(self.hidden(x)), label, op_type="softmax_on_server")


mx.random.seed(2)
rng = np.random.RandomState(0)
classes = rng.randint(0, 3, 300)
points = (np.eye(3)[classes] * 3 + rng.randn(300, 3)).astype("float32")
net = Classifier()
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
for epoch in range(10):
    with autograd.record():
        y = net(mx.nd.array(points), mx.nd.array(classes))
    y.backward()
    trainer.step(300)
accuracy = (y.asnumpy().argmax(axis=1) == classes).mean()
print("accuracy %.3f" % accuracy)
assert accuracy > 0.85
