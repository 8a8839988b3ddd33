"""LeNet on Fashion-MNIST in Gluon: the code of the tutorials, computed by a gluond-server.

    python3 client/python/examples/lenet.py [--epochs N] [--images N] [--out FOLDER]

Without GLUOND_ADDRESS it starts a private server. The last line is `test accuracy: 0.xxxx`.
"""

import argparse
import pathlib

import gluond as mx
from gluond import autograd, gluon
from gluond.gluon import nn
from gluond.gluon.data.vision import FashionMNIST
from gluond.progress import Progress

NAMES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


def lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels=20, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2, strides=2),
                nn.Conv2D(channels=50, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2, strides=2),
                nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def to_tensor(image, label):
    """An image of 28 x 28 x 1 bytes as 1 x 28 x 28 numbers from 0 to 1."""
    return image.astype("float32").transpose((2, 0, 1)) / 255, label


def accuracy(net, loader):
    metric = mx.metric.Accuracy()
    for data, label in loader:
        metric.update(label, net(data))
    return metric.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--images", type=int, default=60000, help="how many of the training images")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("quickstart"))
    options = parser.parse_args()
    mx.random.seed(1)
    training = FashionMNIST(train=True).take(options.images).transform(to_tensor)
    test = FashionMNIST(train=False).transform(to_tensor)
    batches = gluon.data.DataLoader(training, 64, shuffle=True, last_batch="discard")

    net = lenet()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    for epoch in range(1, options.epochs + 1):
        progress = Progress(batches, f"epoch {epoch}")
        for data, label in progress:
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(data.shape[0])
            progress.show(loss=loss)
        trainer.set_learning_rate(trainer.learning_rate * 0.6)

    options.out.mkdir(exist_ok=True)
    path = str(options.out / "lenet.params")
    net.save_parameters(path)
    again = lenet()
    again.load_parameters(path)
    few, labels = next(iter(gluon.data.DataLoader(test, 10)))
    said = again(few).argmax(axis=1).asnumpy().astype(int)
    for truth, guess in zip(labels.asnumpy().astype(int), said):
        print(f"{NAMES[truth]:>10}  is said to be  {NAMES[guess]:<10} {'' if truth == guess else '(wrong)'}")
    print("test accuracy: %.4f" % accuracy(again, gluon.data.DataLoader(test, 500)))


if __name__ == "__main__":
    main()
