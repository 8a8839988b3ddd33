# %% [markdown]
# # Training
#
# Two ways to train: the steps of a loop of one's own, each operator on the server, and `fit`, which takes all steps there. They
# give the same bits.

# %%
import tempfile

import gluond as mx
from gluond import autograd, gluon
from gluond.gluon.data.vision import FashionMNIST


def arrays(train, count):
    images, labels = FashionMNIST(train=train)[:count]
    return images.astype("float32") / 255, mx.nd.array(labels)


images, labels = arrays(True, 8192)
test_images, test_labels = arrays(False, 2000)


def network():
    mx.random.seed(7)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()  # One graph on the server in place of a call for each operator.
    net(mx.nd.zeros((1, 28, 28, 1)))
    return net


# %% [markdown]
# The loop. `loss.mean().asscalar()` is the only line that waits for the server.

# %%
net = network()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
accuracy = mx.metric.Accuracy()
for begin in range(0, len(images), 64):
    data, label = images[begin : begin + 64], labels[begin : begin + 64]
    with autograd.record():
        scores = net(data)
        loss = loss_of(scores, label)
    loss.backward()
    trainer.step(batch_size=64)
    accuracy.update(label, scores)
print("last loss %.3f, %s %.3f" % (loss.mean().asscalar(), *accuracy.get()))

# %% [markdown]
# The same by `fit`: the network becomes a model of the server, and a call takes all steps. The order of the rows follows from `seed`
# and the number of the epoch; `shuffle=False` is the order of the loop.

# %%
other = network()
trainer = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
model = other.save_as_model("clothes", loss=loss_of, trainer=trainer, metrics="accuracy", replace=True)
model.fit(images, labels, shuffle=False, progress=False)
print((model.block()(test_images) == net(test_images)).min().asscalar())
assert (model.predict(test_images) == net(test_images)).min().asscalar() == 1

# %% [markdown]
# Training goes on there: a rate that falls, a validation after each epoch, an end when it gets no better, and a picture.

# %%
model.create_trainer(
    loss_of,
    "adam",
    lr_scheduler=mx.lr_scheduler.FactorScheduler(step=300, factor=0.5, base_lr=0.002),
    metrics="accuracy",
    replace=True,
)
history = model.fit(
    images,
    labels,
    epochs=10,
    validation=(test_images, test_labels),
    progress=False,
    callbacks=[mx.remote.EarlyStopping("validation_loss", patience=1)],
)
with tempfile.TemporaryDirectory() as folder:
    history.plot(f"{folder}/curve.svg", "loss", "validation_loss")
print(len(history["loss"]), "epochs, validation accuracy %.2f" % history["validation_accuracy"][-1])
assert history["validation_accuracy"][-1] > 0.75

# %% [markdown]
# The model comes back as a Block, for a look or for files that MXNet reads.

# %%
print(model.explain())
block = model.block()
with tempfile.TemporaryDirectory() as folder:
    block.export(f"{folder}/clothes")
    again = gluon.SymbolBlock.imports(f"{folder}/clothes-symbol.json", ["data"], f"{folder}/clothes-0000.params")
assert (again(test_images) == block(test_images)).min().asscalar() == 1
