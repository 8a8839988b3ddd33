"""A group of servers as processes of this machine, with a client that knows the messages alone."""

import array
import random
import time

from google.protobuf import json_format

from gluond.v1 import graph_pb2, group_pb2, model_pb2, parameters_pb2, tensor_pb2, trainer_pb2, training_pb2
from tests.fault.peer import Peer
from tests.server.group_servers import GroupServers

CLASSES = 4


def tensor(shape, values):
    return tensor_pb2.Tensor(shape=shape, raw=array.array("f", values).tobytes())


def block(tree):
    return json_format.ParseDict(tree, graph_pb2.Block())


def layer(kind, *children, **attributes):
    return {"block": kind, "attributes": attributes, "children": list(children)}


class GroupOfServers(GroupServers):
    """A group, and a client of its leader."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.peer = self._ends.enter_context(Peer(self.leader.address))

    def group(self):
        answer = self.peer.call("GroupService/GetGroup", group_pb2.GetGroupRequest())
        return group_pb2.GetGroupResponse.FromString(answer)

    def await_ranks(self, ranks, seconds=60):
        """Waits until so many processes compute together."""
        end = time.monotonic() + seconds
        while True:
            group = self.group()
            if sum(each.place == group_pb2.GroupMember.RANK for each in group.members) == ranks:
                return group
            if time.monotonic() > end:
                raise AssertionError(f"there are not {ranks} ranks within {seconds} s:\n{group}")
            time.sleep(0.05)

    def define(self, model, net, shape, shards, optimizer="sgd", adds=(), device="", **attributes):
        request = model_pb2.DefineModelRequest(
            model=model,
            block=block(net),
            variables=[
                graph_pb2.Variable(name="data", shape=[-1, *shape[1:]]),
                *(graph_pb2.Variable(name=name, grad_req=graph_pb2.Variable.ADD) for name in adds),
            ],
            seed=7,
            device=device,
            replace=True,
            placement={"group": True, "virtual_shards": shards},
        )
        self.peer.call("ModelService/DefineModel", request)
        request = parameters_pb2.InitializeParametersRequest(model=model, initializer=graph_pb2.Component(name="Xavier"))
        self.peer.call("ModelService/InitializeParameters", request)
        component = json_format.ParseDict({"name": optimizer, "attributes": attributes}, graph_pb2.Component())
        self.peer.call(
            "TrainingService/CreateTrainer",
            trainer_pb2.CreateTrainerRequest(
                model=model,
                loss=graph_pb2.Component(name="SoftmaxCrossEntropyLoss"),
                optimizer=component,
                metrics=[graph_pb2.Component(name="accuracy")],
            ),
        )

    def step(self, model, batch, number=0, timeout=60):
        call = {"client_id": "group-test", "sequence": number} if number else None
        request = training_pb2.TrainStepRequest(model=model, inputs=batch, call=call)
        return training_pb2.TrainStepResponse.FromString(self.peer.call("TrainingService/TrainStep", request, timeout))

    def bits(self, model):
        """All values of a model."""
        request = parameters_pb2.GetParametersRequest(model=model, encoding=tensor_pb2.Tensor.RAW)
        answer = parameters_pb2.GetParametersResponse.FromString(self.peer.call("ModelService/GetParameters", request))
        return {name: value.raw for name, value in answer.parameters.items()}

    def gradients(self, model, *names):
        request = training_pb2.GetGradientsRequest(model=model, names=names, encoding=tensor_pb2.Tensor.RAW)
        answer = training_pb2.GetGradientsResponse.FromString(self.peer.call("TrainingService/GetGradients", request))
        return {name: value.raw for name, value in answer.gradients.items()}


def batches(shape, count, seed=1):
    """Batches whose first dimension is the rows."""
    rng = random.Random(seed)
    size = 1
    for dim in shape:
        size *= dim
    return [
        {
            "data": tensor(shape, (rng.random() for _ in range(size))),
            "label": tensor(shape[:1], (rng.randrange(CLASSES) for _ in range(shape[0]))),
        }
        for _ in range(count)
    ]
