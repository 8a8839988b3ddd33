"""A client that computes an operator, and a model with it, for tests."""

import queue
import threading

from google.protobuf import json_format
import grpc

_OPERATOR = "gluond.v1.OperatorService"


class SquareOperators:
    """A client that computes `square`. Its first forward pass waits until it may be answered."""

    def __init__(self, channel, client):
        client.find(_OPERATOR)
        self._request = client.prototype("gluond.v1.HostRequest")
        response = client.prototype("gluond.v1.HostResponse")
        self._requests = queue.Queue()
        self._arrived, self._may_answer = threading.Event(), threading.Event()
        self.answers, self._failure = 0, None
        self._send(open={"scope": "0123456789abcdef"})
        self._send(offer={"opType": "square", "shared": True})
        host = channel.stream_stream(f"/{_OPERATOR}/HostOperators", self._request.SerializeToString, response.FromString)
        self._responses = host(iter(self._requests.get, None))
        while not next(self._responses).offered:
            pass
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for_forward(self):
        self._arrived.wait()

    def answer_forward(self, failure=None):
        """failure: instead of values; a CallbackFailure in JSON."""
        self._failure = failure
        self._may_answer.set()

    def leave(self):
        """When it returns, the server knows that the client is gone."""
        self._requests.put(None)
        self.join()

    def join(self):
        self._thread.join()

    def _send(self, **request):
        self._requests.put(json_format.ParseDict(request, self._request()))

    def _run(self):
        try:
            for response in self._responses:
                for callback in response.callbacks:
                    self._answer(callback)
        except grpc.RpcError:
            self._requests.put(None)

    def _answer(self, callback):
        kind = callback.WhichOneof("ask")
        result = self._request().result
        result.call = callback.call
        if kind in ("infer_shape", "infer_type"):
            argument = getattr(callback, kind).arguments[0]
            result.inferred.arguments.add().CopyFrom(argument)
            result.inferred.outputs.add().CopyFrom(argument)
        else:
            # The same values serve for both passes: they are looked at by nobody.
            values = callback.forward.arguments[0] if kind == "forward" else callback.backward.out_grads[0].tensor
            result.computed.outputs.add().CopyFrom(values)
        if kind == "forward":
            self._arrived.set()
            self._may_answer.wait()
            if self._failure is not None:
                json_format.ParseDict({"failure": self._failure}, result)
        self.answers += 1
        self._requests.put(self._request(result=result))


def define_and_train(client):
    """A model with that operator between two layers, ready to be trained."""
    models, training = "gluond.v1.ModelService", "gluond.v1.TrainingService"
    client.call(
        models,
        "DefineModel",
        {
            "model": "m",
            "graph": {
                "nodes": [
                    {"name": "fc1", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 8}},
                    {"name": "mid", "op": "Custom", "inputs": ["fc1"], "attributes": {"op_type": "square"}},
                    {"name": "fc2", "op": "FullyConnected", "inputs": ["mid"], "attributes": {"num_hidden": 3}},
                ]
            },
            "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}],
        },
    )
    client.call(models, "InitializeParameters", {"model": "m", "initializer": {"name": "xavier"}})
    client.call(
        training,
        "CreateTrainer",
        {
            "model": "m",
            "loss": {"name": "SoftmaxCrossEntropyLoss"},
            "optimizer": {"name": "sgd", "attributes": {"learning_rate": 0.1}},
        },
    )


def step_json():
    return {"model": "m", "inputs": {"data": {"shape": [2, 4], "fill": {"constant": 1}}, "label": {"shape": [2], "fill": {}}}}
