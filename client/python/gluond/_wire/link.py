"""A connection of the pipeline: channel, stream, and the thread that asks it for events."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Optional, Tuple

import grpc

from .._proto import session_pb2
from . import credential
from .access import Channel
from .protocol import FEATURES, PROTOCOL, why_too_old
from .stream import CLOSED, MESSAGE, WRITTEN, open_stream

METHOD = "/gluond.v1.SessionService/Run"
ABORTED = grpc.StatusCode.ABORTED.value[0]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]
# The ends of a stream after which another one may take the session up. gRPC and proxies tell a broken connection by INTERNAL
# (a stream that is reset) and UNKNOWN ("Stream removed"), too, in words that change with their versions. An error of the
# server's own may have the same code and no details, so that nothing tells it apart: trying again costs time, and no more.
RETRY = {UNAVAILABLE, grpc.StatusCode.CANCELLED.value[0], grpc.StatusCode.INTERNAL.value[0],
          grpc.StatusCode.UNKNOWN.value[0], grpc.StatusCode.OK.value[0]}


class Waiter:
    """A caller that waits for the answer to a command. number: the command's; 0 before the command has been given."""

    __slots__ = ("number", "reply", "done", "signal")

    def __init__(self) -> None:
        self.number = 0
        self.reply: Any = None
        self.done = False
        self.signal = threading.Lock()
        self.signal.acquire()

    def finish(self, reply: Any) -> None:
        """Hands over the answer; None if there will be none. May be called again after an interrupt cut it short."""
        self.reply = reply
        self.done = True
        if self.signal.locked():
            self.signal.release()


class Link:
    """A channel with its stream, the thread that asks it for events, and the background thread of both."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.stream: Any = None
        self.poller: Optional[int] = None  # The thread that asks for events.
        self.writer: Optional[int] = None  # The thread that is about to write.
        self.parked = False  # Whether the background thread waits for the nudge.
        self.nudge = threading.Lock()
        self.nudge.acquire()


def client_id() -> str:
    """The name of this process in a server's log: program and process id."""
    return f"{os.path.basename(sys.argv[0] if sys.argv else '') or 'python'}:{os.getpid()}"[:128]


def greet(channel: Channel, session: str, client: str) -> Tuple[Any, Any, int, str]:
    """Opens a stream and says hello; returns the stream and the server's first message, or gRPC's code and text.

    session: the name of the one to take up again; empty: a new one. client: see client_id.
    """
    stream = open_stream(channel, METHOD)
    hello = session_pb2.OpenSession(session=session, client_id=client, protocol=PROTOCOL, features=FEATURES,
                                    host="" if session else credential.scope)
    stream.write(session_pb2.SessionRequest(open=hello).SerializeToString())
    written = False
    response = None
    while response is None or not written:
        kind, value = stream.next_event()
        if kind is CLOSED:
            code, details = value if value[0] else (UNAVAILABLE, "the server ended the stream")
            return None, None, code, details
        written = written or kind is WRITTEN
        if kind is MESSAGE:
            response = session_pb2.SessionResponse.FromString(value)
            if not response.HasField("opened"):
                return None, None, grpc.StatusCode.INTERNAL.value[0], "the first message does not open the session"
            why = why_too_old(channel, response.opened.protocol)
            if why:
                stream.close()  # With the channel, which could not be closed alone.
                return None, None, grpc.StatusCode.FAILED_PRECONDITION.value[0], why
    return stream, response, 0, ""
