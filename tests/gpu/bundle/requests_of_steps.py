"""TrainStep from request to reply, as a client of the protocol sees it: the batch travels with each request."""

import grpc
import numpy as np

import gluond as mx
from gluond._proto import graph_pb2, model_pb2, parameters_pb2, tensor_pb2, trainer_pb2, training_pb2
from gluond.symbol import _wire_graph

_DEADLINE = 60


def tensor(values):
    return tensor_pb2.Tensor(shape=values.shape, raw=values.astype("<f4").tobytes())


def component(name, **attributes):
    made = graph_pb2.Component(name=name)
    for key, value in attributes.items():
        made.attributes[key].number_value = value
    return made


def definition(name, symbol, size):
    """The network on gpu:0. Running means and variances are declared: nothing in their names tells what they are."""
    variables = [graph_pb2.Variable(name="data", shape=[-1, *size.batch[1:]])]
    variables += [graph_pb2.Variable(name=each, kind=graph_pb2.Variable.AUXILIARY) for each in symbol.list_auxiliary_states()]
    return model_pb2.DefineModelRequest(
        model=name, graph=_wire_graph.build(symbol._entries).graph, variables=variables, device="gpu:0"
    )


class StepRequests:
    """A model of the network's graph with a trainer, and one batch for it."""

    def __init__(self, address, name, net, size):
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)])
        self._call("Model", "DefineModel", definition(name, net(mx.sym.var("data")), size), model_pb2.DefineModelResponse)
        self._call(
            "Model",
            "InitializeParameters",
            parameters_pb2.InitializeParametersRequest(model=name, initializer=graph_pb2.Component(name="Xavier")),
            parameters_pb2.InitializeParametersResponse,
        )
        self._call(
            "Training",
            "CreateTrainer",
            trainer_pb2.CreateTrainerRequest(
                model=name, loss=component("SoftmaxCrossEntropyLoss"), optimizer=component("sgd", learning_rate=0.01, momentum=0.9)
            ),
            trainer_pb2.CreateTrainerResponse,
        )
        self._step = training_pb2.TrainStepRequest(
            model=name,
            inputs={
                "data": tensor(np.random.RandomState(0).uniform(-1, 1, size.batch)),
                "label": tensor(np.arange(size.batch[0]) % size.classes),
            },
        )

    def _call(self, service, method, request, response):
        stub = self._channel.unary_unary(
            f"/gluond.v1.{service}Service/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return stub(request, timeout=_DEADLINE)

    def step(self):
        """The loss, whose arrival ends the step."""
        answer = self._call("Training", "TrainStep", self._step, training_pb2.TrainStepResponse)
        if answer.report.nonfinite:
            raise RuntimeError("the step's loss or gradients are not finite")
        return answer.loss
