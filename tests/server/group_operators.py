"""A client that computes operators of a group's model, and a model with them, for tests.

scaled   y = factor * x^2, and its gradient from what the client itself has kept of the forward pass.
drift    y = x - mean, and a forward pass moves the auxiliary state `mean` towards the rows' own.
"""

import array
import queue
import threading

import grpc

from google.protobuf import json_format

from gluond.v1 import custom_operator_pb2, graph_pb2, model_pb2, parameters_pb2, tensor_pb2, trainer_pb2

SCOPE = "group-test 0123456789abcdef"
TOO_LARGE = 1e6


def floats(tensor):
    return array.array("f", tensor.raw)


def like(tensor, values):
    return tensor_pb2.Tensor(shape=tensor.shape, raw=array.array("f", values).tobytes())


class OperatorsOfClient:
    """Computes `scaled` for its own graphs, and shares `drift`; goes when the `with` block ends."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._requests = queue.Queue()
        self._kept = {}  # The arguments of forward passes, by instance.
        self._changed = threading.Condition()
        self._holds, self._held = False, []
        self.cancelled, self.forwards, self.questions = set(), 0, 0
        self._send(open={"scope": SCOPE})
        self._send(offer={"op_type": "scaled"})
        self._send(offer={"op_type": "drift", "shared": True})
        self._responses = self._channel.stream_stream(
            "/gluond.v1.OperatorService/HostOperators",
            custom_operator_pb2.HostRequest.SerializeToString,
            custom_operator_pb2.HostResponse.FromString,
        )(iter(self._requests.get, None))
        offered = 0
        while offered < 2:
            offered += len(next(self._responses).offered)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._requests.put(None)
        self._thread.join()
        self._channel.close()

    def hold_forwards(self, count):
        """Answers no forward pass until `go_on`. The returned function waits for so many, and returns their numbers."""
        self._holds = True

        def wait():
            with self._changed:
                assert self._changed.wait_for(lambda: len(self._held) >= count, 60), f"{len(self._held)} of {count} callbacks"
                return {each.call for each in self._held}

        return wait

    def await_cancelled(self, numbers):
        with self._changed:
            assert self._changed.wait_for(lambda: numbers <= self.cancelled, 60), f"{numbers} are not all in {self.cancelled}"

    def go_on(self):
        with self._changed:
            self._holds, held = False, self._held
            self._held = []
        for callback in held:
            self._answer(callback)

    def _send(self, **request):
        self._requests.put(custom_operator_pb2.HostRequest(**request))

    def _run(self):
        try:
            for response in self._responses:
                with self._changed:
                    self.cancelled.update(response.cancelled)
                    self._held += [each for each in response.callbacks if self._holds and each.HasField("forward")]
                    answered = [each for each in response.callbacks if each not in self._held]
                    self._changed.notify_all()
                for callback in answered:
                    self._answer(callback)
        except grpc.RpcError:
            pass

    def _answer(self, callback):
        result = custom_operator_pb2.CallbackResult(call=callback.call)
        try:
            getattr(self, "_" + callback.WhichOneof("ask"))(callback, result)
        except ValueError as error:
            result.failure.type, result.failure.message, result.failure.traceback = "ValueError", str(error), "line 7 of the client"
        self._send(result=result)

    def _infer_shape(self, callback, result):
        self.questions += 1
        (data,) = callback.infer_shape.arguments
        result.inferred.arguments.append(data)
        result.inferred.outputs.append(data)
        if callback.op_type == "drift":
            known = len(data.shape) == 2
            result.inferred.auxiliary.add(has_shape=known, shape=data.shape[1:] if known else [])

    def _infer_type(self, callback, result):
        (data,) = callback.infer_type.arguments
        for types in (result.inferred.arguments, result.inferred.outputs, result.inferred.auxiliary)[
            : 2 + (callback.op_type == "drift")
        ]:
            types.append(data)

    def _forward(self, callback, result):
        self.forwards += 1
        forward = callback.forward
        (data,) = forward.arguments
        x = floats(data)
        if callback.op_type == "drift":
            (mean,) = forward.auxiliary
            means = floats(mean)
            columns = len(means)
            result.computed.outputs.append(like(data, (each - means[i % columns] for i, each in enumerate(x))))
            rows = len(x) // columns
            moved = (0.5 * means[column] + 0.5 * sum(x[column::columns]) / rows for column in range(columns))
            result.computed.auxiliary.append(like(mean, moved))
            return
        if max(x) > TOO_LARGE:
            raise ValueError("these rows are too large")
        factor = float(callback.attributes["factor"])
        result.computed.outputs.append(like(data, (factor * each * each for each in x)))
        if forward.keep:
            self._kept[forward.instance] = x

    def _backward(self, callback, result):
        backward = callback.backward
        gradients = backward.out_grads[0].tensor
        dy = floats(gradients)
        if callback.op_type == "drift":
            result.computed.outputs.append(gradients)
            return
        factor = float(callback.attributes["factor"])
        x = self._kept.pop(backward.instance)
        result.computed.outputs.append(like(gradients, (2 * factor * each * d for each, d in zip(x, dy))))


def define(group, model, shards, inputs=8, placement=None):
    """A model with both operators, and a trainer."""
    nodes = [
        {"name": "fc1", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 8}},
        {
            "name": "scaled",
            "op": "Custom",
            "inputs": ["fc1"],
            "attributes": {"factor": "0.5"},
            "custom": {"opType": "scaled", "arguments": ["data"], "dependencies": {"outGrads": [0]}},
        },
        {
            "name": "drift",
            "op": "Custom",
            "inputs": ["scaled", "drift_mean"],
            "custom": {"opType": "drift", "arguments": ["data"], "auxiliary": ["mean"], "shared": True},
        },
        {"name": "fc2", "op": "FullyConnected", "inputs": ["drift"], "attributes": {"num_hidden": 4}},
    ]
    request = model_pb2.DefineModelRequest(
        model=model,
        graph=json_format.ParseDict({"nodes": nodes}, graph_pb2.Graph()),
        variables=[
            graph_pb2.Variable(name="data", kind="INPUT", shape=[-1, inputs]),
            graph_pb2.Variable(name="drift_mean", kind="AUXILIARY", initializer=graph_pb2.Component(name="Zero")),
        ],
        seed=7,
        replace=True,
        host=SCOPE,
        placement={"group": True, "virtual_shards": shards} if placement is None else placement,
    )
    group.peer.call("ModelService/DefineModel", request)
    request = parameters_pb2.InitializeParametersRequest(model=model, initializer=graph_pb2.Component(name="Xavier"))
    group.peer.call("ModelService/InitializeParameters", request)
    sgd = {"name": "sgd", "attributes": {"learning_rate": 0.1, "momentum": 0.9}}
    request = trainer_pb2.CreateTrainerRequest(
        model=model,
        loss=graph_pb2.Component(name="SoftmaxCrossEntropyLoss"),
        optimizer=json_format.ParseDict(sgd, graph_pb2.Component()),
    )
    group.peer.call("TrainingService/CreateTrainer", request)
