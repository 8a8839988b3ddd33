"""Attacks by flow: replies that nobody reads, requests without end, connections and streams that do nothing."""

import resource
import threading
import time

from gluond.v1 import command_pb2, custom_operator_pb2, dataset_pb2, graph_pb2, operator_pb2, session_pb2, tensor_pb2, training_pb2
from tests.fault import http2
from tests.fault.attack_work import define, filled
from tests.fault.peer import Peer, Session, Told, crowd

RUN, HOST, INVOKE = "SessionService/Run", "OperatorService/HostOperators", "OperatorService/Invoke"
LARGE = 8_000_000  # Elements of a reply, 32 MB.
STREAMS = 30  # Open calls of a connection: with more a server of 2 GiB ends it.
RESERVED = 200  # File descriptors that the attacker needs for itself.


def connect(target, count, told, *settings, preface=True):
    """So many connections, as far as the server and this process's file descriptors allow."""
    made = []
    for _ in range(min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED)):
        try:
            made.append(http2.Connection(target.address, *settings, preface=preface))
        except OSError as error:
            told.note(error)
            break
    told["connections"] += len(made)
    return made


def part(target, connections, told):
    """Waits until time is up; notes how the server sees some of the connections, and closes all."""
    time.sleep(max(0, target.end - time.monotonic()))
    for connection in connections[:: max(1, len(connections) // 16)]:
        told.note(connection.farewell(0.2))
    for connection in connections:
        connection.socket.close()
    return told


def unread_replies(target, streams=16):
    """On each connection, calls with replies of 32 MB; not one byte is read."""
    told, request = Told(), operator_pb2.InvokeRequest(op="_zeros", encoding=tensor_pb2.Tensor.RAW)
    request.attributes["shape"].string_value = f"({LARGE},)"
    connections = connect(target, target.connections, told)
    for connection in connections:
        try:
            for _ in range(streams):
                connection.ask(INVOKE, request)
        except OSError as error:
            told.note(error)
    return part(target, connections, told)


def unread_fetches(target, fetches=64):
    """Sessions that ask for 32 MB again and again, and read nothing."""
    told = Told()
    connections = connect(target, target.connections, told)
    commands = [{"put": command_pb2.Command.Put(array=1, tensor=filled(LARGE))}] + [
        {"fetch": command_pb2.Command.Fetch(arrays=[1])}
    ] * fetches
    request = session_pb2.SessionRequest(
        open=session_pb2.OpenSession(protocol=2), first_number=1, commands=[command_pb2.Command(**command) for command in commands]
    )
    for connection in connections:
        connection.send(http2.frame(http2.DATA, 0, connection.open(RUN), http2.message(request)))
    return part(target, connections, told)


def unread_callbacks(target):
    """Hosts offer an operator and read none of the callbacks that a session asks for, of 32 MB each."""
    told = Told()
    connections = connect(target, min(4, target.connections), told)
    with Peer(target.address) as peer:
        for i, connection in enumerate(connections):
            scope = f"unread-callbacks-{i}"
            host = connection.open(HOST)
            for request in (
                custom_operator_pb2.HostRequest(open=custom_operator_pb2.OpenHost(scope=scope)),
                custom_operator_pb2.HostRequest(offer=custom_operator_pb2.OfferOperator(op_type="silent")),
            ):
                connection.send(http2.frame(http2.DATA, 0, host, http2.message(request)))
            session, custom = Session(peer, host=scope), graph_pb2.CustomOperatorSpec(
                op_type="silent", arguments=["data"], same_shape=True, same_dtype=True
            )
            session.send(
                {"put": command_pb2.Command.Put(array=1, tensor=filled(LARGE))},
                {"prepare": command_pb2.Command.Prepare(call=1, op="Custom", custom=custom)},
                *[{"invoke": command_pb2.Command.Invoke(call=1, inputs=[1], outputs=[2 + n])} for n in range(64)],
            )
        return part(target, connections, told)


def unread_progress(target):
    """On each connection a training without end, with a message for each epoch of one step; not one byte is read."""
    told, rows = Told(), 16
    with Peer(target.address) as peer:
        peer.call(
            "TrainingService/UploadDataset",
            dataset_pb2.UploadDatasetRequest(
                dataset="unread", commit=True, restart=True, tensors={"data": filled(rows, 64), "label": filled(rows, 8)}
            ),
        )
        for i in range(target.connections):
            define(peer, f"unread{i}", 8, 64)
    connections = connect(target, target.connections, told)
    for i, connection in enumerate(connections):
        connection.ask(
            "TrainingService/Train",
            training_pb2.TrainRequest(
                model=f"unread{i}", rows=dataset_pb2.Rows(dataset="unread"), batch_size=rows, epochs=1_000_000_000
            ),
        )
    return part(target, connections, told)


def slow_requests(target, count=900):
    """Requests that claim 60 MB and arrive byte by byte, on more connections than one network may have."""
    told, claim = Told(), http2.message(bytes(60_000_000))[:5]
    connections = connect(target, count, told)
    streams = {}
    while time.monotonic() < target.end:
        for connection in connections:
            try:
                if connection not in streams:
                    streams[connection] = connection.open(INVOKE)
                    connection.send(http2.frame(http2.DATA, 0, streams[connection], claim))
                connection.send(http2.frame(http2.DATA, 0, streams[connection], b"\x0a"))
            except OSError as error:
                told.note(error)
        time.sleep(0.05)
    return part(target, connections, told)


def unfinished_requests(target):
    """One call after the other, each with all of its message but the last byte."""
    told, body = Told(), http2.message(bytes(60_000_000))[:-1]
    connections = connect(target, target.connections, told)

    def pour(connection):
        try:
            while time.monotonic() < target.end:
                connection.pour(connection.open(INVOKE), body, target.end, last=False)
                told.note("sent")
        except OSError as error:
            told.note(error)

    threads = [threading.Thread(target=pour, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return part(target, connections, told)


def half_messages(target, streams=STREAMS):
    """Streams with headers and nothing else, or with half of a large message."""
    told, half = Told(), http2.message(bytes(30_000))[:15_000]
    connections = connect(target, target.connections, told)
    for connection in connections:
        try:
            for i in range(streams):
                stream = connection.open((RUN, HOST, INVOKE)[i % 3])
                if i % 2:
                    connection.send(http2.frame(http2.DATA, 0, stream, half))
        except OSError as error:
            told.note(error)
    return part(target, connections, told)


def idle_connections(target, count=10_000):
    """Half of them say hello, half of them nothing at all."""
    told = Told()
    connections = connect(target, count // 2, told) + connect(target, count // 2, told, preface=False)
    return part(target, connections, told)


def idle_streams(target, count=10_000):
    """Session streams that never say a word, as many on each connection as are let be."""
    told = Told()
    connections = connect(target, count // STREAMS, told)
    for connection in connections:
        try:
            for _ in range(STREAMS):
                connection.open(RUN)
        except OSError as error:
            told.note(error)
    return part(target, connections, told)


def descriptors(target, count=400):
    """More connections than the server has file descriptors (the row gives it few), again and again."""
    told = Told()
    while time.monotonic() < target.end:
        connections = connect(target, count, told)
        time.sleep(0.3)
        for connection in connections:
            connection.socket.close()
    return told


def comings_and_goings(target):
    """Connections that are made, used once and broken, as fast as it goes."""

    def visit(peer, told, _):
        with http2.Connection(target.address) as connection:
            connection.ask("ServerService/GetServerInfo", b"")
        told.note()

    return crowd(target, visit)
