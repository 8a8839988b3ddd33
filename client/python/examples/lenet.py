"""LeNet on Fashion-MNIST in Gluon: the code of the tutorials, computed by a gluond server.

    python3 client/python/examples/lenet.py [--epochs N] [--images N] [--out FOLDER]

Without GLUOND_ADDRESS it starts a private server. On a server that others use, it leaves the model `lenet` for them, with
its trainer. The last line is `test accuracy: 0.xxxx`.
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
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Dense(500, activation="relu"),
        nn.Dense(10),
    )
    return net


def to_tensor(image, label):
    """An image of 28 x 28 x 1 bytes as 1 x 28 x 28 numbers, of mean 0 and deviation 1 over all images. `gluond predict` asks
    with the same ones."""
    return (image.astype("float32").transpose((2, 0, 1)) / 255 - 0.2860) / 0.3530, label


def train(net, loss_of, trainer, data, epochs):
    """Returns the progress of the last epoch, which knows the curve of all."""
    batches = gluon.data.DataLoader(data, batch_size=64, shuffle=True, last_batch="discard")
    progress = None
    for epoch in range(1, epochs + 1):
        progress = Progress(batches, f"epoch {epoch} of {epochs}", after=progress)
        for images, labels in progress:
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
            trainer.step(batch_size=64)
            progress.show(loss=loss)
        trainer.set_learning_rate(trainer.learning_rate * 0.6)
    return progress


def show_ten(net, data):
    """Prints what the network says of the first ten images."""
    images, labels = next(iter(gluon.data.DataLoader(data, batch_size=10)))
    said = net(images).argmax(axis=1).asnumpy().astype(int)
    for truth, guess in zip(labels.asnumpy(), said):
        print(f"{NAMES[truth]:>10}  is said to be  {NAMES[guess]}{'' if truth == guess else '  (wrong)'}")


def accuracy(net, data):
    metric = mx.metric.Accuracy()
    for images, labels in gluon.data.DataLoader(data, batch_size=500):
        metric.update(labels, net(images))
    return metric.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--images", type=int, default=60000, help="how many of the training images")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("quickstart"), help="folder for what it writes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    mx.random.seed(1)

    net = lenet()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    progress = train(net, loss_of, trainer, FashionMNIST(train=True).take(options.images).transform(to_tensor), options.epochs)
    progress.save(options.out / "lenet-curve.svg")
    net.save_parameters(str(options.out / "lenet.params"))
    print(f"training curve: {options.out}/lenet-curve.svg, parameters: {options.out}/lenet.params")
    model = net.save_as_model("lenet", loss=loss_of, trainer=trainer, metrics="accuracy", replace=True)
    print(model.explain())

    again = lenet()
    again.load_parameters(str(options.out / "lenet.params"))
    test = FashionMNIST(train=False).transform(to_tensor)
    show_ten(again, test)
    print(f"test accuracy: {accuracy(again, test):.4f}")


if __name__ == "__main__":
    main()
