# %% [markdown]
# # Data
#
# Three ways from files to a network: arrays, a loader that reads while the server computes, and a dataset that is sent to the
# server once. The pictures are Debian's `dataset-fashion-mnist`; gluond downloads nothing.

# %%
import numpy as np

import gluond as mx
from gluond import gluon
from gluond.gluon.data.vision import FashionMNIST, transforms

train = FashionMNIST(train=True)
image, label = train[0]
print(len(train), image.shape, image.dtype, label)

# %% [markdown]
# `dataset[:]` has all samples as two arrays; the networks of this tutorial take channels first, and numbers about 0.

# %%
images, labels = FashionMNIST(train=False)[:1000]
images = (images.transpose((0, 3, 1, 2)).astype("float32") / 255 - 0.286) / 0.353
print(images.shape, images.dtype, labels.shape)

# %% [markdown]
# A `DataLoader` makes batches of samples that `transform_first` has changed. With `num_workers` other processes do that, while the
# server computes the batch before.

# %%
to_tensor = transforms.Compose([transforms.RandomFlipLeftRight(), transforms.ToTensor(), transforms.Normalize(0.286, 0.353)])
loader = gluon.data.DataLoader(train.transform_first(to_tensor), batch_size=64, shuffle=True, num_workers=2)
for data, label in loader:
    break
print(data.shape, data.dtype, label.shape)

# %% [markdown]
# Data of one's own are a `Dataset`: something with `__getitem__` and `__len__`, or arrays side by side. Samples, and what a
# transform is given, are NDArrays.


# %%
class Squares(gluon.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return mx.nd.array([index]), index * index


for data, label in gluon.data.DataLoader(Squares().transform(lambda x, y: (x / 6, y)), batch_size=3):
    print(data.asnumpy().ravel(), label.asnumpy())

# %% [markdown]
# Rows that many trainings use lie on the server: sent once, in pieces that a broken connection does not lose, kept by a server with
# a store. Bytes stay bytes there; `scale` and `shift` make numbers of them where they are used.

# %%
pictures, labels = FashionMNIST(train=False)[:]
clothes = mx.remote.Dataset(
    "clothes", data=pictures.transpose((0, 3, 1, 2)), label=labels, scale=1 / 255 / 0.353, shift=-0.286 / 0.353, progress=False
)
print(clothes.describe())
net = gluon.nn.Dense(10)
model = mx.remote.Model.define(
    "linear",
    net,
    (-1, 1, 28, 28),
    loss="SoftmaxCrossEntropyLoss",
    optimizer="adam",
    metrics="accuracy",
    initializer="xavier",
    replace=True,
)
history = model.fit("clothes", epochs=2, progress=False)
assert history["accuracy"][1] > 0.7
print("accuracy %.2f" % history["accuracy"][1])
clothes.delete()
assert np.isfinite(history["loss"]).all()
