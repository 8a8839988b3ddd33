"""A training that is left and come back to: each run trains LeNet on Fashion-MNIST for one epoch more, and leaves.

    gluond-server --store_dir=/var/lib/gluond                                       # In another terminal, or elsewhere.
    export GLUOND_ADDRESS=localhost:50051
    python3 client/python/examples/leave_and_come_back.py [--name NAME] [--images N]     # Makes the network; epoch 1.
    python3 client/python/examples/leave_and_come_back.py [--name NAME] [--images N]     # Goes on with epoch 2.

Between both, network, trainer and random state are on the server alone, also while it restarts. The second run may be on
another machine, which needs the key that the first one prints: --key KEY. --forget deletes what is saved. A server has to be
there: a private one would end with the first run. The last line is `test accuracy after epoch N: 0.xxxx`.
"""

import argparse

import gluond as mx
from gluond import autograd, gluon
from gluond.gluon.data.vision import FashionMNIST
from gluond.progress import Progress
from lenet import accuracy, lenet, to_tensor


def begin():
    """A network and its trainer, which have seen nothing."""
    mx.random.seed(1)
    net = lenet()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros((1, 1, 28, 28)))
    return net, gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})


def train(net, trainer, data, title):
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    progress = Progress(gluon.data.DataLoader(data, batch_size=64, shuffle=True, last_batch="discard"), title)
    for images, labels in progress:
        with autograd.record():
            loss = loss_of(net(images), labels)
        loss.backward()
        trainer.step(batch_size=64)
        progress.show(loss=loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="lenet", help="name of the save")
    parser.add_argument("--key", help="its key, on a machine that has not saved it")
    parser.add_argument("--images", type=int, default=60000, help="how many of the training images")
    parser.add_argument("--forget", action="store_true", help="deletes the save, and does nothing else")
    options = parser.parse_args()
    if options.forget:
        return mx.delete_session(options.name, key=options.key)

    if options.name in [saved.name for saved in mx.sessions()]:
        work = mx.attach(options.name, key=options.key)
        print(work)
        net, trainer, epoch = work.net, work.trainer, work.epoch + 1
    else:
        (net, trainer), epoch = begin(), 1
    train(net, trainer, FashionMNIST(train=True).take(options.images).transform(to_tensor), f"epoch {epoch}")
    key = mx.save_session(options.name, net=net, trainer=trainer, epoch=epoch)
    print(f"saved as '{options.name}', with the key {key}")
    print(f"test accuracy after epoch {epoch}: {accuracy(net, FashionMNIST(train=False).transform(to_tensor)):.4f}")


if __name__ == "__main__":
    main()
