# %% [markdown]
# # A layer of one's own
#
# A layer is a class with a `forward`. What to do backwards follows from the operators that it uses.

# %%
import numpy as np

import gluond as mx
from gluond import autograd, gluon, nd
from gluond.gluon.nn import Dense

mx.random.seed(1)


class NormalizationLayer(gluon.Block):
    def forward(self, x):
        return (x - nd.min(x)) / (nd.max(x) - nd.min(x))


print(NormalizationLayer()(nd.array([1, 2, 3])))

# %% [markdown]
# ## Hybrid layers
#
# A `HybridBlock` is written once for both ways of computing: operator by operator, where `F` is `mx.nd`, and as a graph that
# is made once and then reused, where `F` is `mx.sym`. It should use only what both have, as `broadcast_sub`.


# %%
class NormalizationHybridLayer(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.broadcast_div(F.broadcast_sub(x, F.min(x)), F.broadcast_sub(F.max(x), F.min(x)))


layer = NormalizationHybridLayer()
x = nd.array([1, 2, 3], ctx=mx.cpu())
plain = layer(x)
layer.hybridize()
assert layer(x).asnumpy().tolist() == plain.asnumpy().tolist() == [0, 0.5, 1]
print(plain)

# %% [markdown]
# In a network it stands among the library's own layers.

# %%
net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(Dense(5))
    net.add(NormalizationHybridLayer())
    net.add(Dense(1))
net.initialize(mx.init.Xavier(magnitude=2.24))
net.hybridize()
batch = nd.random_uniform(low=-10, high=10, shape=(5, 2))
print(net(batch))
print(net)

# %% [markdown]
# ## Parameters
#
# `weights` is trained; its second dimension is unknown until the first batch comes. `scales` is a constant:
# `differentiable=False`, with the values that it is given. `FullyConnected` is used since it can infer the shape of its
# weight, which `dot` cannot.


# %%
class ScaledNormalization(gluon.HybridBlock):
    def __init__(self, hidden_units, scales):
        super().__init__()
        with self.name_scope():
            self.weights = self.params.get("weights", shape=(hidden_units, 0), allow_deferred_init=True)
            self.scales = self.params.get(
                "scales", shape=scales.shape, init=mx.init.Constant(scales.asnumpy().tolist()), differentiable=False
            )

    def hybrid_forward(self, F, x, weights, scales):
        normalized = F.broadcast_div(F.broadcast_sub(x, F.min(x)), F.broadcast_sub(F.max(x), F.min(x)))
        weighted = F.FullyConnected(normalized, weights, num_hidden=self.weights.shape[0], no_bias=True)
        return F.broadcast_mul(scales, weighted)


net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(Dense(5))
    net.add(ScaledNormalization(hidden_units=5, scales=nd.array([2])))
    net.add(Dense(1))
net.initialize(mx.init.Xavier(magnitude=2.24))
net.hybridize()
for name, parameter in net.collect_params().items():
    print(parameter)
own = {name: p for name, p in net.collect_params().items() if "scalednormalization" in name}
assert list(own) == [net[1].prefix + "weights", net[1].prefix + "scales"]  # Names begin with those of the blocks around.
assert net[1].prefix == net.prefix + "scalednormalization0_"
assert net[1].weights.shape == (5, 0) and net[1].scales.shape == (1,)

# %% [markdown]
# The values of `weights` are there with the first batch. After a step they have changed, and those of `scales` have not.

# %%
batch = nd.random_uniform(low=-10, high=10, shape=(5, 2))
label = nd.random_uniform(low=-1, high=1, shape=(5, 1))
loss_of = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
with autograd.record():
    output = net(batch)
    before = {name: p.data().asnumpy() for name, p in own.items()}
    loss = loss_of(output, label)
loss.backward()
trainer.step(batch.shape[0])
for name, parameter in own.items():
    after = parameter.data().asnumpy()
    print(name, "before:", before[name], "after:", after, sep="\n")
    assert (np.abs(after - before[name]) > 0).any() == name.endswith("weights")
assert net[1].weights.shape == (5, 5)
assert net[1].scales.data().asnumpy().tolist() == [2]
assert net[1].scales.grad_req == "null"

# %% [markdown]
# A few hundred steps fit the five points.

# %%
first = loss.mean().asscalar()
for step in range(300):
    with autograd.record():
        loss = loss_of(net(batch), label)
    loss.backward()
    trainer.step(batch.shape[0])
print("loss: %.4f at first, %.6f at last" % (first, loss.mean().asscalar()))
assert loss.mean().asscalar() < 0.1 * first

# %% [markdown]
# ## Recurrent layers
#
# RNN, LSTM and GRU hybridize like all others.

# %%
lstm = gluon.rnn.LSTM(8, num_layers=2)
lstm.initialize()
sequence = nd.random_uniform(shape=(7, 3, 4))  # Time, batch, features.
plain = lstm(sequence)
lstm.hybridize()
mx.test_utils.assert_almost_equal(lstm(sequence), plain, rtol=1e-5, atol=1e-6)
print(plain.shape)
