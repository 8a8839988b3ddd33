"""One bidirectional stream of gRPC, with nothing between its user and gRPC's core.

grpcio's own `stream_stream` hands every request to one thread and every answer to another: each costs a change of
threads, and in a busy program a wait for the interpreter's lock (up to 5 ms). `Stream` starts its operations in the
calling thread, and the thread that wants an event asks for it: a round trip takes 45 us, stream_stream's 70 to 85, and
an empty unary call 57 (grpcio 1.51, 2 cores). `Stream` uses cygrpc, which is not public but has kept this part since
1.13. `PublicStream` does the same with the public API: `open_stream` gives one if a part of cygrpc is missing, or has
failed before. Such a failure ends the Stream, so that its user opens another one.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import Any, Optional, Tuple, Union

import grpc

from .access import Channel

try:
    from grpc._cython import cygrpc
except ImportError:
    cygrpc = None

# Kinds of events: (WRITTEN, None): the next message may be written. (MESSAGE, the bytes). (CLOSED, (code, details)): the
# end. (NOTHING, None): an event that needs no handling, or a while without events.
WRITTEN, MESSAGE, CLOSED, NOTHING = "written", "message", "closed", "nothing"
Event = Tuple[str, Any]
CLOSE_SECONDS = 10.0

# The members of a channel and of the module cygrpc that Stream uses.
_OF_CHANNEL = ("integrated_call", "next_call_event")
_OF_MODULE = ("ReceiveInitialMetadataOperation", "ReceiveMessageOperation", "ReceiveStatusOnClientOperation",
              "SendCloseFromClientOperation", "SendInitialMetadataOperation", "SendMessageOperation", "StatusCode")
_has_failed = False


class _Tag:
    """Marks an operation of one stream. After a fork, gRPC calls in the child the tags of operations that it drops."""

    def __call__(self, event: Any) -> bool:
        return False


class Stream:
    """The stream `method` of a channel, which carries one stream at a time. One write at a time: the next only after the
    event WRITTEN.

    `write`, `finish` and `cancel` may come from any thread, also while another waits in `next_event`.
    """

    def __init__(self, channel: Channel, method: str) -> None:
        plain = channel.plain._channel
        self._written, self._message, self._end, other = _Tag(), _Tag(), _Tag(), _Tag()
        self._other = other
        self._closed: Optional[Event] = None
        start = (
            ((cygrpc.SendInitialMetadataOperation(channel.metadata or (), 0),), other),
            ((cygrpc.ReceiveInitialMetadataOperation(0),), other),
            ((cygrpc.ReceiveStatusOnClientOperation(0),), self._end),
        )
        # A segregated call would have its events to itself, but a forked child would wait for its end for ever.
        self._call = plain.integrated_call(0, method.encode(), None, None, (), None, start, None)
        self._channel = channel
        self._next = plain.next_call_event
        self._tags = {self._written, self._message, self._end, other}
        self._due = len(start)  # Operations whose events have not come.
        self._reads = False  # A message is being waited for.
        self._inside = 0  # Calls of next_event().
        self._is_closing = False

    def _fail(self, error: Exception) -> Event:
        """Ends the stream because cygrpc is not as this class knows it; the next stream will be a PublicStream."""
        global _has_failed
        _has_failed = True
        with contextlib.suppress(Exception):
            self.cancel()
        self._closed = CLOSED, (grpc.StatusCode.UNAVAILABLE.value[0], f"grpcio has changed within: {error!r}")
        return self._closed

    def _read(self) -> None:
        self._reads = True
        self._due += 1
        self._call.operate((cygrpc.ReceiveMessageOperation(0),), self._message)

    def write(self, message: bytes) -> None:
        """Starts to send a message; the event WRITTEN follows, or CLOSED."""
        self._due += 1
        try:
            self._call.operate((cygrpc.SendMessageOperation(message, 0),), self._written)
        except (AttributeError, TypeError) as error:
            self._fail(error)

    def next_event(self) -> Event:
        """Waits for the next event. One thread at a time."""
        if self._closed is not None:
            return self._closed
        self._inside += 1
        try:
            if self._is_closing:
                return NOTHING, None
            if not self._reads:  # The read begins only now, so that a thread that got the last message went on at once.
                self._read()
            event = self._next()
            tag = event.tag
            if tag in self._tags:
                self._due -= 1
            return self._told(event, tag)
        except (AttributeError, TypeError) as error:
            return self._fail(error)
        finally:
            self._inside -= 1

    def _told(self, event: Any, tag: Any) -> Event:
        if tag is self._written and event.success:
            return WRITTEN, None
        if tag is self._message:
            message = event.batch_operations[0].message()
            if message is not None:
                self._reads = False
                return MESSAGE, message
        elif tag is self._end:
            status = event.batch_operations[0]
            self._closed = CLOSED, (status.code(), status.details())
            return self._closed
        return NOTHING, None

    def finish(self) -> None:
        """Says that no message will follow; CLOSED does when the server has ended the stream."""
        self._due += 1
        self._call.operate((cygrpc.SendCloseFromClientOperation(0),), self._other)

    def cancel(self) -> None:
        """Ends the stream; the event CLOSED follows."""
        self._call.cancel(cygrpc.StatusCode.cancelled, "the client has ended the stream")

    def close(self) -> None:
        """Ends the stream and its channel; not the channel, if a thread was interrupted within gRPC."""
        self._is_closing = True
        self.cancel()
        while self._inside > 0:  # gRPC's queue must not end under a thread that reads it, or has called a handler there.
            time.sleep(0.01)
        end = time.monotonic() + CLOSE_SECONDS
        while self._due > 0 and time.monotonic() < end:
            self._due -= self._next().tag in self._tags
        if self._due == 0:
            self._channel.close()


class PublicStream:
    """The same by grpcio's public API."""

    def __init__(self, channel: Channel, method: str) -> None:
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._events: queue.SimpleQueue = queue.SimpleQueue()
        self._channel = channel
        self._call = channel.stream_stream(method)(iter(self._requests.get, None))
        threading.Thread(target=self._read, name="gluond-reader", daemon=True).start()

    def _read(self) -> None:
        try:
            for message in self._call:
                self._events.put((MESSAGE, message))
            code, details = grpc.StatusCode.OK, ""
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        self._requests.put(None)
        self._events.put((CLOSED, (code.value[0], details)))

    def write(self, message: bytes) -> None:
        """As Stream.write."""
        self._requests.put(message)
        self._events.put((WRITTEN, None))

    def next_event(self) -> Event:
        """As Stream.next_event."""
        return self._events.get()

    def finish(self) -> None:
        """As Stream.finish."""
        self._requests.put(None)

    def cancel(self) -> None:
        """As Stream.cancel."""
        self._call.cancel()

    def close(self) -> None:
        """As Stream.close."""
        self._channel.close()


def open_stream(channel: Channel, method: str) -> Union[Stream, PublicStream]:
    """The fastest stream that the installed grpcio has."""
    own = getattr(channel.plain, "_channel", None)
    if not _has_failed and all(hasattr(own, name) for name in _OF_CHANNEL) and all(
            hasattr(cygrpc, name) for name in _OF_MODULE):
        with contextlib.suppress(Exception):  # A closed channel refuses PublicStream as well.
            return Stream(channel, method)
    return PublicStream(channel, method)
