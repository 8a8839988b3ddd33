"""Attacks by number and size: things that the server remembers, and messages that take more memory than bytes."""

import itertools
import threading
import time

import grpc
from google.protobuf import struct_pb2

from gluond.v1 import checkpoint_pb2, command_pb2, dataset_pb2, graph_pb2, model_pb2, parameters_pb2, tensor_pb2
from gluond.v1 import trainer_pb2, training_pb2
from tests.fault import http2
from tests.fault.attack_flow import connect, part
from tests.fault.attack_work import ONES, define, filled, step
from tests.fault.peer import Session, Told, crowd, wait_for_all

AT_ONCE = 32


def many(target, name, request, before=lambda peer, i: None):
    """Calls `request(i, n)` of all n, on each connection i, some at once."""
    begun = set()

    def call(peer, told, i):
        if i not in begun:
            before(peer, i)
            begun.add(i)
        wait_for_all(told, [peer.start(name, request(i, next(numbers)), 30) for _ in range(AT_ONCE)])

    numbers = itertools.count()
    return crowd(target, call)


def clients(target):
    """Numbered calls, each of a client of its own: others' numbers must not be forgotten for them."""
    return many(
        target,
        "TrainingService/SetLearningRate",
        lambda i, n: trainer_pb2.SetLearningRateRequest(
            model=f"clients{i}", learning_rate=0.1, call={"client_id": f"client-{i}-{n}", "sequence": 1}
        ),
        lambda peer, i: define(peer, f"clients{i}", 2, 2),
    )


def answers(target):
    """Numbered calls with answers of 60 KB, which are kept, each of a client of its own."""
    return many(
        target,
        "TrainingService/Forward",
        lambda i, n: training_pb2.ForwardRequest(
            model=f"answers{i}",
            inputs={"data": filled(250, 2)},
            encoding=tensor_pb2.Tensor.TYPED,
            call={"client_id": f"client-{i}-{n}", "sequence": 1},
        ),
        lambda peer, i: define(peer, f"answers{i}", 60, 2),
    )


def models(target):
    block = graph_pb2.Block(block="Dense")
    block.attributes["units"].number_value = 100
    return many(
        target,
        "ModelService/DefineModel",
        lambda i, n: model_pb2.DefineModelRequest(
            model=f"many-{i}-{n}", block=block, variables=[graph_pb2.Variable(name="data", shape=[-1, 100])]
        ),
    )


def uploads(target):
    """The first chunk of an upload of 4 MB, each of a client of its own."""
    return many(
        target,
        "ModelService/UploadParameter",
        lambda i, n: parameters_pb2.UploadParameterRequest(
            model=f"uploads{i}",
            parameter="weight",
            shape=[1024, 1024],
            chunk=tensor_pb2.Chunk(data=bytes(1000)),
            call={"client_id": f"client-{n}"},
        ),
        lambda peer, i: define(peer, f"uploads{i}", 1024, 1024),
    )


def datasets(target):
    """The first chunk of a dataset of 100 MB, again and again."""
    return many(
        target,
        "TrainingService/UploadDataset",
        lambda i, n: dataset_pb2.UploadDatasetRequest(
            dataset=f"many-{i}-{n}",
            columns=[dataset_pb2.Column(name="data", shape=[25_000_000])],
            column="data",
            chunk=tensor_pb2.Chunk(data=bytes(1000)),
        ),
    )


def orders(target, rows=5_000_000):
    """Datasets of rows of a byte, whose order takes eight times as much, in ever other orders."""
    column = tensor_pb2.Tensor(shape=[rows, 1], dtype=tensor_pb2.Tensor.UINT8, fill=ONES)
    epochs = itertools.count()

    def call(peer, told, i):
        define(peer, f"orders{i}", 1, 1)
        peer.call(
            "TrainingService/UploadDataset",
            dataset_pb2.UploadDatasetRequest(dataset=f"orders{i}", tensors={"data": column, "label": column}, commit=True),
        )
        while time.monotonic() < target.end:
            peer.call(
                "TrainingService/TrainStep",
                training_pb2.TrainStepRequest(
                    model=f"orders{i}",
                    batch_size=8,
                    steps=1,
                    rows=dataset_pb2.Rows(dataset=f"orders{i}", shuffle=True, epoch=next(epochs)),
                ),
            )
            told.note()

    return crowd(target, call)


def downloads(target):
    """Parameters of 36 MB, fetched and read as fast as they come."""
    request = lambda i: parameters_pb2.GetParametersRequest(model=f"downloads{i}", encoding=tensor_pb2.Tensor.RAW)

    def call(peer, told, i):
        define(peer, f"downloads{i}", 3000, 3000)
        while time.monotonic() < target.end:
            peer.call("ModelService/GetParameters", request(i), target.seconds + 1)
            told.note()

    return crowd(target, call)


def checkpoints(target):
    """Saves under new names, with lists between them."""
    save = lambda i, n: checkpoint_pb2.SaveCheckpointRequest(model=f"saves{i}", checkpoint=f"many-{i}-{n}")

    def call(peer, told, i):
        define(peer, f"saves{i}", 128, 128)
        peer.call("TrainingService/TrainStep", step(f"saves{i}", 8, 128, 128))
        end = time.monotonic() + target.seconds
        for n in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
            waiting = [peer.start("ModelService/SaveCheckpoint", save(i, f"{n}-{k}"), 30) for k in range(4)]
            waiting.append(peer.start("ModelService/ListCheckpoints", checkpoint_pb2.ListCheckpointsRequest(), 30))
            wait_for_all(told, waiting)

    return crowd(target, call)


def many_sessions(target, count=20):
    """Sessions that stay, each with an array."""

    def open_some(peer, told, _):
        opened = [Session(peer, target.seconds + 5) for _ in range(count)]
        for session in opened:
            session.send({"put": command_pb2.Command.Put(array=1, tensor=filled(1000))})
            try:
                session.wait(told)
                told.note()
            except (grpc.RpcError, StopIteration) as error:
                told.note(error)
        time.sleep(max(0, target.end - time.monotonic()))

    return crowd(target, open_some)


def tape(target, count=1_000_000):
    """A million tiny arrays, each with its place in the history for Backward."""
    plus = command_pb2.Command.Prepare(call=1, op="_plus_scalar", attributes={"scalar": struct_pb2.Value(string_value="1")})

    def record(peer, told, _):
        session = Session(peer, target.seconds + 5)
        session.send(
            {"prepare": plus},
            {"put": command_pb2.Command.Put(array=1, tensor=filled(1))},
            {"mark": command_pb2.Command.Mark(arrays=[command_pb2.Command.Mark.Marked(variable=1, gradient=2)])},
        )
        for first in range(3, count, 5000):
            session.send(
                *[
                    {"invoke": command_pb2.Command.Invoke(call=1, inputs=[1], outputs=[n], recording=True)}
                    for n in range(first, first + 5000)
                ]
            )
            session.wait(told)
            told.note()

    return crowd(target, record)


def variables(target, count=1_990_000):
    """26 MB of declarations of two fields each."""
    head = model_pb2.DefineModelRequest(
        model="variables", graph=graph_pb2.Graph(nodes=[graph_pb2.Node(name="r", op="relu", inputs=["0000000"])])
    ).SerializeToString()
    request = head + b"".join(b"\x22\x0b\x0a\x07%07d\x10\x01" % i for i in range(count))

    def call(peer, told, _):
        peer.call("ModelService/DefineModel", request, target.seconds + 1)
        told.note()

    return crowd(target, call)


def submessages(target, count=500_000):
    """A megabyte of empty tensors, which take a hundred times that."""
    request = b"\x12\x00" * count
    return many(target, "OperatorService/Invoke", lambda i, n: request)


def large_messages(target, count=64):
    """60 MB from each of many connections at once."""
    told = Told()
    body = http2.message(b"\x12" + http2.varint(60_000_000) + bytes(60_000_000))
    connections = connect(target, count, told)

    def pour(connection):
        try:
            while time.monotonic() < target.end:
                connection.pour(connection.open("OperatorService/Invoke"), body, target.end)
        except OSError as error:
            told.note(error)

    threads = [threading.Thread(target=pour, args=(connection,), daemon=True) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(target.seconds + 5)
    return part(target, connections, told)
