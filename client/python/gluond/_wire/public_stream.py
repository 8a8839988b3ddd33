"""A stream of grpcio's public API, with the functions of NativeStream: for machines that have no native module.

No thread of the program is ever within gRPC, where an interrupt (Ctrl-C) would leave locks that nobody releases: they leave
messages and take answers. One of grpcio's threads asks for the next message and writes it, and one of ours reads.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Iterator, Optional, Set, Tuple

import grpc

from .access import Channel
from .native_stream import BUSY, ENDED, NOTHING, WRITABLE

# An end waits so long for grpcio's thread.
LEAVE_SECONDS = 5.0


class PublicStream:
    """A stream of grpcio. `attend`, `message`, `drop`, `end` and `close` are for one thread, the others for any."""

    def __init__(self, channel: Channel, method: str, hello: bytes) -> None:
        self.threads: Set[int] = set()  # Those in which the stream lives.
        self._channel = channel
        self._requests: "queue.SimpleQueue[Optional[bytes]]" = queue.SimpleQueue()
        self._events: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        self._messages: "queue.SimpleQueue[bytes]" = queue.SimpleQueue()  # One for each event that is a size.
        self._given = self._taken = 0  # Bytes.
        self._tells = False  # Whether WRITABLE is wanted.
        self._event = NOTHING  # A message that has not been dropped.
        self._message = b""
        self._number = 0
        self._end: Tuple[int, str] = grpc.StatusCode.UNAVAILABLE.value[0], "the server ended the stream"
        self._writer_has_left = threading.Event()
        self.write(hello)
        self._call: Any = channel.stream_stream(method, None, self._note)(self._write())
        self._reader = threading.Thread(target=self._read, name="gluond-reader", daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> int:
        """As NativeStream's."""
        self._given += len(data)
        self._requests.put(data)
        return self._given - self._taken

    def say_when_written(self) -> None:
        """As NativeStream's."""
        self._tells = True
        if self._given == self._taken:
            self._events.put(WRITABLE)

    def finish(self) -> None:
        """As NativeStream's."""
        self._requests.put(None)

    def cancel(self) -> None:
        """As NativeStream's, for the thread that attends."""
        self._call.cancel()

    def kick(self) -> None:
        """As NativeStream's."""
        self._events.put(NOTHING)

    def lead(self, _: float) -> int:
        """No thread of the program is within gRPC."""
        return BUSY

    def attend(self, seconds: float, _: float) -> int:
        """As NativeStream's."""
        if self._event != NOTHING:
            return self._event
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return NOTHING
        if event == WRITABLE:
            self._tells = False
        if event >= 0:
            self._event, self._message, self._number = event, self._messages.get(), self._number + 1
        return event

    def message(self, _: int) -> Tuple[bytes, int]:
        """As NativeStream's."""
        return self._message, self._number

    def drop(self, _: int) -> None:
        """As NativeStream's."""
        self._event, self._message = NOTHING, b""

    def end(self) -> Tuple[int, str]:
        """As NativeStream's."""
        return self._end

    def close(self) -> None:
        """As NativeStream's."""
        self._call.cancel()
        self._requests.put(None)
        self._writer_has_left.wait(LEAVE_SECONDS)
        self._reader.join(LEAVE_SECONDS)
        self._call = None  # It is in gRPC until nobody has it.
        self._channel.close()

    # The threads of the stream.

    def _note(self, data: bytes) -> bytes:
        """Stands in the place of a deserializer: grpcio calls it in a thread that must not wait, either."""
        self.threads.add(threading.get_ident())
        return data

    def _read(self) -> None:
        self.threads.add(threading.get_ident())
        try:
            for data in self._call:
                self._messages.put(data)
                self._events.put(len(data))
        except grpc.RpcError as error:
            self._end = error.code().value[0], error.details()
        self._events.put(ENDED)

    def _write(self) -> Iterator[bytes]:
        """The messages; grpcio asks for the next one when one has been written."""
        self.threads.add(threading.get_ident())
        self._channel.note_thread()
        try:
            for data in iter(self._requests.get, None):
                yield data
                self._taken += len(data)
                if self._tells and self._given == self._taken:
                    self._events.put(WRITABLE)
        finally:
            self._writer_has_left.set()
