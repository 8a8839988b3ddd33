# %% [markdown]
# # Serving
#
# A model that has been trained is published: an immutable version, asked by anybody who may, while the training goes on. Labels and
# weights say which version a request gets.

# %%
import numpy as np

import gluond as mx
from gluond import gluon

rng = np.random.RandomState(3)
points = rng.randn(2000, 4).astype("float32")
classes = (points[:, 0] > points[:, 1]).astype("float32")

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(2))
model = mx.remote.Model.define(
    "sides", net, (-1, 4), loss="SoftmaxCrossEntropyLoss", optimizer="adam", metrics="accuracy", initializer="xavier", replace=True
)
model.fit(points, classes, epochs=1, progress=False)
first = model.publish(max_batch_size=32)  # It gets the label `stable`.
print(first.version, first.labels, first.state)

# %% [markdown]
# `infer` asks a version; any process may, by the model's name alone. A request without a version gets the one with the label
# `stable`. `max_batch_size` rows of several callers are computed together, and larger requests are sent in pieces.

# %%
sides = mx.remote.Model("sides")
print("%.2f are right" % (sides.infer(points).argmax(axis=1) == classes).mean())

# %% [markdown]
# Training goes on, and a later moment becomes version 2, for those who ask for the canary.

# %%
model.fit(points, classes, epochs=8, first_epoch=1, progress=False)
model.publish("canary", max_batch_size=32)
for version in "", "canary":
    print(
        "version %-6s %.2f are right"
        % (version or "stable", (sides.infer(points, version=version).argmax(axis=1) == classes).mean())
    )

# %% [markdown]
# A tenth of the requests without a version, then all, and back: each with the next request, and none is lost.

# %%
mx.remote.route("sides", weights={1: 90, 2: 10})
mx.remote.route("sides", weights={}, labels={"stable": 2})
assert (sides.infer(points) == sides.infer(points, version=2)).all()
mx.remote.route("sides", labels={"stable": 1, "canary": None})
assert (sides.infer(points) == sides.infer(points, version=1)).all()
mx.remote.retire("sides", 2)
for version in mx.remote.versions("sides"):
    print(version.version, version.labels, version.state)

# %% [markdown]
# Clients of the open inference protocol, such as Triton's `tritonclient`, ask at the same port; `docs/walkthrough.md` does that, with
# certificates and tokens.
