"""Attacks by work: long commands, long operators, long queues, and answers that nobody logs."""

import itertools
import time

from google.protobuf import struct_pb2

from gluond.v1 import command_pb2, graph_pb2, model_pb2, operator_pb2, parameters_pb2, tensor_pb2, trainer_pb2, training_pb2
from tests.fault.peer import Session, Told, crowd, session_commands, shared_peer, wait_for_all

RANDOM = tensor_pb2.Fill(normal=tensor_pb2.Fill.Normal(seed=7))
ONES = tensor_pb2.Fill(constant=1)


def filled(*shape, fill=ONES):
    return tensor_pb2.Tensor(shape=shape, fill=fill)


def sessions(target, body):
    """`body(session, told)` by a session on each connection, until time is up."""

    def attack(peer, told, _):
        session = Session(peer, timeout=target.seconds + 1)
        body(session, told)
        session.wait(told)
        session.close()
        told.note()

    return crowd(target, attack)


def fills(target):
    put = lambda array: {"put": command_pb2.Command.Put(array=array, tensor=filled(300_000_000, fill=RANDOM))}
    return sessions(target, lambda session, _: session.send(*map(put, range(1, 5))))


def graphs(target, nodes=150_000):
    """A chain of relus, defined once and inferred three times."""
    chain = graph_pb2.Graph(
        nodes=[graph_pb2.Node(name=f"n{i}", op="relu", inputs=[f"n{i - 1}" if i else "data"]) for i in range(nodes)]
    )
    known = {"data": tensor_pb2.ArrayType(has_shape=True, shape=[4], dtype=tensor_pb2.Tensor.FLOAT32)}

    request = session_commands(
        1,
        {"define_graph": command_pb2.Command.DefineGraph(graph=1, definition=chain, inputs=["data"])},
        *[{"infer_graph": command_pb2.Command.InferGraph(graph=1, known=known)}] * 3,
    )
    return sessions(target, lambda session, _: session.send_encoded(request, 4))


def invoke(target, request):
    data = request.SerializeToString()

    def call(peer, told, _):
        peer.call("OperatorService/Invoke", data, target.seconds + 1)
        told.note()

    return crowd(target, call)


def small_fills(target, calls=600):
    """One client's calls of a hundred bytes, each of which makes 2^18 random numbers."""
    data = operator_pb2.InvokeRequest(op="relu", inputs=[filled(1 << 18, fill=RANDOM)], encoding=tensor_pb2.Tensor.NONE)
    told = Told()
    with shared_peer(target, told) as peer:
        wait_for_all(told, [peer.start("OperatorService/Invoke", data, target.seconds) for _ in range(calls)])
    return told


def products(target, side=4000):
    return invoke(
        target,
        operator_pb2.InvokeRequest(op="dot", inputs=[filled(side, side), filled(side, side)], encoding=tensor_pb2.Tensor.NONE),
    )


def shapes(target):
    """Calls that are compiled anew each time, and whose results are large."""
    sizes = itertools.count(10_000_000)

    def multiply(peer, told, _):
        peer.call(
            "OperatorService/Invoke",
            operator_pb2.InvokeRequest(op="dot", inputs=[filled(next(sizes), 1), filled(1, 1)], encoding=tensor_pb2.Tensor.NONE),
            target.seconds + 1,
        )
        told.note()

    return crowd(target, multiply)


def statistics(target):
    """Calls that compute little, and ask for the statistics of 40 million results."""
    request = operator_pb2.InvokeRequest(op="_ones", encoding=tensor_pb2.Tensor.STATISTICS)
    request.attributes["shape"].number_value = 40_000_000
    return invoke(target, request)


def definitions(target, nodes=50_000):
    """A model of so many nodes, defined, described and run, again and again."""
    chain = graph_pb2.Graph(
        nodes=[graph_pb2.Node(name=f"n{i}", op="relu", inputs=[f"n{i - 1}" if i else "data"]) for i in range(nodes)]
    )

    def define_and_run(peer, told, i):
        model = f"definitions{i}"
        for name, request in [
            (
                "ModelService/DefineModel",
                model_pb2.DefineModelRequest(
                    model=model,
                    graph=chain,
                    replace=True,
                    variables=[graph_pb2.Variable(name="data", shape=[-1], kind=graph_pb2.Variable.INPUT)],
                ),
            ),
            ("ModelService/GetModel", model_pb2.GetModelRequest(model=model, graph=True)),
            ("ModelService/Predict", model_pb2.PredictRequest(model=model, inputs={"data": filled(4)})),
        ]:
            peer.call(name, request, target.seconds + 1)
            told.note()

    return crowd(target, define_and_run)


def commands(target):
    """Sessions that send small commands without a pause."""

    def body(session, told):
        session.send(
            {
                "prepare": command_pb2.Command.Prepare(
                    call=1, op="_plus_scalar", attributes={"scalar": struct_pb2.Value(string_value="1")}
                )
            },
            {"put": command_pb2.Command.Put(array=1, tensor=filled(1))},
        )
        while time.monotonic() < target.end:
            session.send(*[{"invoke": command_pb2.Command.Invoke(call=1, inputs=[1], outputs=[1])}] * 2000)
            session.wait(told)
            told.note()

    return sessions(target, body)


def convolutions(target):
    request = operator_pb2.InvokeRequest(
        op="Convolution", inputs=[filled(16, 64, 112, 112), filled(128, 64, 5, 5), filled(128)], encoding=tensor_pb2.Tensor.NONE
    )
    request.attributes["kernel"].string_value = "(5, 5)"
    request.attributes["num_filter"].number_value = 128
    return invoke(target, request)


def define(peer, model, units, columns, rows=-1):
    """A model of one layer, with a trainer."""
    layer = graph_pb2.Block(block="Dense")
    layer.attributes["units"].number_value = units
    peer.call(
        "ModelService/DefineModel",
        model_pb2.DefineModelRequest(
            model=model, block=layer, variables=[graph_pb2.Variable(name="data", shape=[rows, columns])], replace=True
        ),
    )
    peer.call("ModelService/InitializeParameters", parameters_pb2.InitializeParametersRequest(model=model))
    peer.call(
        "TrainingService/CreateTrainer", trainer_pb2.CreateTrainerRequest(model=model, loss=graph_pb2.Component(name="L2Loss"))
    )


def step(model, rows, columns, units):
    inputs = {"data": filled(rows, columns), "label": filled(rows, units)}
    return training_pb2.TrainStepRequest(model=model, inputs=inputs)


def trainings(target):
    """Each connection trains a model of its own, without a pause: what the fair share is shared with."""

    def train(peer, told, i):
        define(peer, f"busy{i}", 512, 1024)
        data, end = step(f"busy{i}", 256, 1024, 512).SerializeToString(), time.monotonic() + target.seconds
        while time.monotonic() < end:
            peer.call("TrainingService/TrainStep", data)
            told.note()

    return crowd(target, train)


def queue(target, calls=600):
    """So many TrainSteps of one client that wait at once."""
    told = Told()
    with shared_peer(target, told) as peer:
        define(peer, "queue", 1024, 1024)
        data, end = step("queue", 256, 1024, 1024).SerializeToString(), time.monotonic() + target.seconds
        while time.monotonic() < end:
            wait_for_all(
                told, [peer.start("TrainingService/TrainStep", data, max(0.1, end - time.monotonic())) for _ in range(calls)]
            )
    return told


def deadlines(target, calls=400):
    """Calls with deadlines of 1 to 50 ms: each ends, and none is executed once all have."""
    told = Told()
    with shared_peer(target, told) as peer:
        define(peer, "late", 512, 512)
        data, end = step("late", 256, 512, 512).SerializeToString(), time.monotonic() + target.seconds
        steps = lambda: trainer_pb2.GetTrainerResponse.FromString(
            peer.call("TrainingService/GetTrainer", trainer_pb2.GetTrainerRequest(model="late"))
        ).trainer.step
        while time.monotonic() < end:
            wait_for_all(told, [peer.start("TrainingService/TrainStep", data, (1 + i % 50) / 1000) for i in range(calls)])
            time.sleep(0.2)  # One that had begun before its deadline may come to its end.
            before = steps()
            time.sleep(0.2)
            told["BROKEN: executed after its deadline"] += steps() - before
        told["BROKEN: OK, but not executed"] += max(0, told["OK"] - steps())
    return told


def failures(target):
    """Calls that fail, as fast as they can."""
    request = model_pb2.GetModelRequest(model="nobody" * 20).SerializeToString()

    def fail(peer, told, _):
        wait_for_all(told, [peer.start("ModelService/GetModel", request, target.seconds + 1) for _ in range(64)])

    return crowd(target, fail)


def bursts(target, cancelled=500, late=3000):
    """Bursts of calls that are cancelled, sent or not, and of calls that miss their deadlines: as clients have them that stop."""

    def burst(peer, told, _):
        waiting = [peer.start("ServerService/GetServerInfo", timeout=0.0005 * (i % 100)) for i in range(late)]
        wait_for_all(told, waiting)
        calls = [peer.start("OperatorService/Invoke", bytes(1000)) for _ in range(cancelled)]
        for call in calls:
            call.cancel()
        told["CANCELLED"] += len(calls)
        time.sleep(max(0, target.end - time.monotonic()))

    return crowd(target, burst)


def long_headers(target):
    """Calls with headers of 17 to 64 KB, which are more than a call may have."""

    def ask(peer, told, i):
        wait_for_all(
            told,
            [
                peer.start(
                    "ServerService/GetServerInfo", timeout=target.seconds + 1, metadata=(("x-large", "a" * (17_000 + 2900 * n)),)
                )
                for n in range(16)
            ],
        )

    return crowd(target, ask)
