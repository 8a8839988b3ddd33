# %% [markdown]
# # A loss of one's own on the server
#
# `fit` takes the losses of `gluon.loss` by their names. Any other loss is a part of the network: its output is the loss, and the
# trainer is told so. Written with operators it stays on the server; written in Python, as a custom operator, the server calls this
# program back.

# %%
import numpy as np

import gluond as mx
from gluond import gluon

rng = np.random.RandomState(5)
points = rng.randn(1024, 4).astype("float32")
classes = (points[:, 0] > 0.8).astype("float32")  # One in five.


# %% [markdown]
# The focal loss gives rare classes weight. With operators:


# %%
class WithFocalLoss(gluon.HybridBlock):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma
        with self.name_scope():
            self.body = gluon.nn.HybridSequential()
            self.body.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(2))

    def hybrid_forward(self, F, data, label):
        p = F.pick(F.softmax(self.body(data)), label)
        return -((1 - p) ** self.gamma) * F.log(p + 1e-7)


model = mx.remote.Model.define("focal", WithFocalLoss(), [(-1, 4), (-1,)], initializer="xavier", replace=True)
print([each.name for each in model.describe().inputs], [each.name for each in model.describe().outputs])

# %% [markdown]
# The label is an input like any other, so `fit` gets it with the data. `loss_output` names the output that is the loss.

# %%
model.create_trainer(loss_output="output", optimizer="adam", optimizer_params={"learning_rate": 0.01})
history = model.fit({"data0": points, "data1": classes}, epochs=5, progress=False)
print("loss %.4f to %.4f" % (history["loss"][0], history["loss"][-1]))
assert history["loss"][-1] < 0.5 * history["loss"][0]


# %% [markdown]
# In Python, with numpy: a custom operator. `mx.operator.share` offers it to the server beyond this program's own arrays; the training
# calls it at each step, as long as this process lives.


# %%
class Focal(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        p = self._probability(in_data)
        self.assign(out_data[0], req[0], mx.nd.array(-((1 - p) ** 2) * np.log(p)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        scores, label = (each.asnumpy() for each in in_data)
        p = self._probability(in_data)
        of_p = 2 * (1 - p) * np.log(p) - (1 - p) ** 2 / p
        softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
        softmax /= softmax.sum(axis=1, keepdims=True)
        hot = np.eye(scores.shape[1], dtype="float32")[label.astype(int)]
        self.assign(in_grad[0], req[0], mx.nd.array((out_grad[0].asnumpy() * of_p * p)[:, None] * (hot - softmax)))
        self.assign(in_grad[1], req[1], mx.nd.zeros_like(in_data[1]))

    @staticmethod
    def _probability(in_data):
        scores, label = (each.asnumpy() for each in in_data)
        softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
        softmax /= softmax.sum(axis=1, keepdims=True)
        return softmax[np.arange(len(label)), label.astype(int)] + 1e-7


@mx.operator.register("focal")
class FocalProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [(in_shape[0][0],)], []

    def create_operator(self, ctx, shapes, dtypes):
        return Focal()


class InPython(WithFocalLoss):
    def hybrid_forward(self, F, data, label):
        return F.Custom(self.body(data), label, op_type="focal")


mx.operator.share("focal")
model = mx.remote.Model.define("focal-in-python", InPython(), [(-1, 4), (-1,)], initializer="xavier", replace=True)
model.create_trainer(loss_output="output", optimizer="adam", optimizer_params={"learning_rate": 0.01})
history = model.fit({"data0": points, "data1": classes}, epochs=5, progress=False)
print("loss %.4f to %.4f" % (history["loss"][0], history["loss"][-1]))
assert history["loss"][-1] < 0.5 * history["loss"][0]
