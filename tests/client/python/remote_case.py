"""Small models of the server for tests, and a channel that breaks."""

from unittest import mock

import gluond as mx
import grpc
import numpy as np
from gluond import gluon
from gluond._proto import error_details_pb2, status_pb2
from gluond._remote import calls
from gluond.gluon import nn

LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(3))
    return net


def convnet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.MaxPool2D(2, 2), nn.BatchNorm(), nn.Flatten(), nn.Dense(3))
    return net


def points(count=96, *shape):
    """Random inputs, and a class that follows from them."""
    values = np.random.RandomState(7).randn(count, *(shape or (4,))).astype("float32")
    return values, np.abs(values.reshape(count, -1)[:, :3]).argmax(1)


def defined(name="m", net=None, inputs=(-1, 4), **options):
    options = {"loss": LOSS, "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}, "metrics": "accuracy", **options}
    return mx.remote.Model.define(name, mlp() if net is None else net, inputs, replace=True, **options)


class Refusal(grpc.RpcError):
    """A broken connection."""

    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return "the connection broke"

    def trailing_metadata(self):
        return ()


class Busy(Refusal):
    """The server asks for another attempt after so many seconds."""

    def __init__(self, seconds):
        super().__init__()
        self._status = status_pb2.Status()
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds, retry.retry_delay.nanos = int(seconds), int(seconds % 1 * 1e9)
        detail = self._status.details.add()
        detail.type_url, detail.value = "type.googleapis.com/google.rpc.RetryInfo", retry.SerializeToString()

    def code(self):
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def trailing_metadata(self):
        return (("grpc-status-details-bin", self._status.SerializeToString()),)


class Breaking:
    """A channel: `after` sending a call of `method`, or before it, raises an error instead of giving the answer, so often."""

    def __init__(self, channel, method, error, times=1, after=True):
        self._channel, self._method, self._error, self._times, self._after = channel, method, error, times, after
        self.sleep = channel.sleep

    def unary_unary(self, path, *codecs):
        call = self._channel.unary_unary(path, *codecs)

        def send(request, timeout):
            if not path.endswith(self._method) or self._times == 0:
                return call(request, timeout=timeout)
            self._times -= 1
            if self._after:
                call(request, timeout=timeout)
            raise self._error

        return send

    def unary_stream(self, path, *codecs):
        return self._channel.unary_stream(path, *codecs)


def breaking(method, error, **options):
    caller = calls.current()
    return mock.patch.object(caller, "_channel", Breaking(caller._channel, method, error, **options))
