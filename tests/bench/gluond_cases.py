"""Cases of gluon_bench.py that gluond alone has: a network in a session against the same as a model of the server, and what the
server keeps and compiles for a session."""

import functools
import os
import signal
import threading
import time

import network_cases as cases
import numpy as np
from gluon_networks import autograd, built, gluon, loss_of, mx, nd, network, resnet20, small, stepping, trainer_of

from gluond._remote import calls, methods  # No public function tells the server's memory.

_STEPS = 4 if cases.TINY else 60


def _name(what):
    return f"bench-{os.getpid()}-{what}"


def published(name):
    """A published version of the network, asked by this client."""
    case = cases.CASES[name]
    net, (values, _) = network(case), cases.data_of(case)
    net(nd.array(values)).wait_to_read()  # save_as_model takes the graph that has run.
    model = net.save_as_model(_name(name), replace=True)
    model.publish()
    return case.timed(lambda: model.infer(values))


def train_step(name):
    """TrainStep of the same network with the same optimizer. The session itself has nothing."""
    case = cases.CASES[name]
    values, classes = cases.data_of(case)
    model = mx.remote.Model.define(
        _name(name),
        built(case),
        (-1, *values.shape[1:]),
        loss=loss_of(case),
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.01, "momentum": 0.9},
        initializer=mx.init.Xavier(),
        replace=True,
    )
    return case.timed(lambda: model.train_step(values, values if classes is None else classes).loss)


def _small():
    """A network of many small parameters, with its trainer, its loss and a batch."""
    mx.random.seed(0)
    net = small()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    values = nd.random.uniform(shape=(cases.SMALL_WIDTH, cases.SMALL_WIDTH))
    net(values).wait_to_read()
    return net, gluon.Trainer(net.collect_params(), "adam"), gluon.loss.L2Loss(), values


def _small_steps():
    """A function that sends so many steps, and waits for none."""
    net, trainer, loss_function, values = _small()

    def send():
        for _ in range(_STEPS):
            with autograd.record():
                loss = loss_function(net(values), values)
            loss.backward()
            trainer.step(cases.SMALL_WIDTH)
        return loss

    return send


def adam():
    """Steps of the client's loop by the clock: the client computes names and writes commands meanwhile."""
    send = _small_steps()
    return cases.Timed(lambda: send().wait_to_read(), 5, _STEPS, warm=3)


def adam_executed():
    """What the server takes to execute the same steps. All are sent while it computes something long, so that it waits for no
    command; the figure is from the end of that to the end of the last step."""
    send, matrix, products = _small_steps(), nd.ones((64, 64) if cases.TINY else (1024, 1024)) / 1024, 4

    def figure():
        nonlocal products
        while True:
            y, ended = matrix, []
            for _ in range(products):
                y = nd.dot(y, matrix)
            asking = threading.Thread(target=lambda: ended.append(_waited(y)))  # The question goes before the steps.
            asking.start()
            time.sleep(0.002)
            loss = send()
            sent = time.perf_counter()
            end = _waited(loss)
            asking.join()
            if ended[0] > sent or cases.TINY:
                return (end - ended[0]) / _STEPS * 1e6
            products *= 2  # The server was done before the client was.

    figure()
    return cases.Timed(figure=figure)


def _waited(array):
    """When its values are there."""
    array.wait_to_read()
    return time.perf_counter()


def adam_fit():
    """The same steps by fit(), for which nothing crosses the wire but the call and its answer: ten times as many in a call."""
    net, trainer, loss_function, values = _small()
    model = net.save_as_model(_name("adam"), loss=loss_function, trainer=trainer, replace=True)
    rows = nd.tile(values, (10 * _STEPS, 1)).asnumpy()
    data = mx.remote.Dataset(_name("rows"), data=rows, label=rows, progress=False)
    run = lambda: model.fit(data, batch_size=cases.SMALL_WIDTH, shuffle=False, progress=False)
    return cases.Timed(run, 5, 10 * _STEPS, warm=3)


class Signatures:
    """Training steps of the encoder on sequences of a length that the session has not seen, and later ones of that length."""

    def __init__(self):
        self.case = cases.CASES["encoder_training"]
        net = network(self.case)
        self.step = stepping(net, self.case, trainer_of(net))
        self.values = cases.data_of(self.case)[0]
        for _ in range(3):
            self.step(self.values, None)

    def first(self):
        """Of a shorter length each time."""
        self.values = self.values[:, 1:].copy()
        return self._time()

    def second(self):
        """Of a shorter length each time, too: a server may compile what comes again, and not at once."""
        self.first()
        return self._time()

    def later(self):
        self._time()
        return sorted(self._time() for _ in range(5))[2]

    def _time(self):
        begin = time.perf_counter()
        self.step(self.values, None)
        return (time.perf_counter() - begin) * 1e6


@functools.lru_cache(maxsize=None)
def signatures():
    """One for both cases, which take turns."""
    return Signatures()


# The rows of a shard, of a model that the server's group trains.
_SHARD_ROWS = 2 if cases.TINY else 32


@functools.lru_cache(maxsize=None)
def _grouped(shards):
    """A function that takes a step of ResNet-20 by the server's group."""
    rows = shards * _SHARD_ROWS
    values = np.random.RandomState(0).uniform(size=(rows, *cases.RESNET20_IMAGE)).astype("float32")
    classes = (np.arange(rows) % 10).astype("float32")
    model = mx.remote.Model.define(
        _name(f"group-{shards}"),
        resnet20(),
        (-1, *cases.RESNET20_IMAGE),
        loss=gluon.loss.SoftmaxCrossEntropyLoss(),
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.01, "momentum": 0.9},
        initializer=mx.init.Xavier(),
        replace=True,
        group=True,
        virtual_shards=shards,
    )
    return lambda: model.train_step(values, classes).loss


def group_step(shards):
    return cases.Timed(_grouped(shards), 1 if cases.TINY else 10, warm=3)


def ranks():
    """The processes of the server's group that compute."""
    return sum(each.place == "RANK" for each in mx.remote.group().members)


def kill(process):
    """The time from the end of a process of the group, amid a step, to the end of the first step that ends later."""
    step, ended = _grouped(2), []

    def end():
        ended.append(time.perf_counter())
        os.kill(process, signal.SIGKILL)

    def figure():
        begin = time.perf_counter()
        step()
        killing = threading.Timer((time.perf_counter() - begin) / 2, end)
        killing.start()
        while True:
            step()
            now = time.perf_counter()
            if ended and now > ended[0]:
                killing.join()
                return (now - ended[0]) * 1e6

    return cases.Timed(figure=figure)


def memory():
    """The most bytes of tensors that the server has held at once."""
    info = calls.current().call(methods.GET_SERVER_INFO, methods.GET_SERVER_INFO.request())
    return next(device.memory_peak_bytes for device in info.devices if device.name == "cpu")


CASES = {
    **{f"{name}_published": lambda name=name: published(name) for name in ("encoder", "resnet50", "mobilenet")},
    "resnet50_train_step": lambda: train_step("resnet50_training"),
    "adam": adam,
    "adam_executed": adam_executed,
    "adam_fit": adam_fit,
    "group_step_1": lambda: group_step(1),
    "group_step_2": lambda: group_step(2),
    "first_step": lambda: cases.Timed(figure=signatures().first),
    "second_step": lambda: cases.Timed(figure=signatures().second),
    "later_step": lambda: cases.Timed(figure=signatures().later),
}
