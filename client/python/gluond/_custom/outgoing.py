"""Messages on their way to the server, over one stream after the other: one is being written, the others wait."""

from __future__ import annotations

import collections
from typing import Any, Deque

# So many messages wait at most: then the stream is ended.
MOST_WAITING = 1 << 17


class Outgoing:
    """Not thread-safe: its user has a lock."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.is_writing = False
        self.waiting_bytes = 0
        self._waiting: Deque[bytes] = collections.deque()

    def begin(self, stream: Any) -> None:
        """Sends over this stream from now on. Messages that waited for another are of no use to it."""
        self.stream = stream
        self.is_writing = False
        self.waiting_bytes = 0
        self._waiting.clear()

    def end(self) -> Any:
        """No messages are taken from now on; the stream, if there was one."""
        stream, self.stream = self.stream, None
        return stream

    def write(self, message: bytes) -> None:
        """Sends a message in its turn, if there is a stream."""
        if self.stream is None:
            return
        if not self.is_writing:
            self.is_writing = True
            self.stream.write(message)
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append(message)
            self.waiting_bytes += len(message)
        else:
            self.stream.cancel()

    def written(self) -> bool:
        """One has been written. Whether another has taken its turn: then there is room for one more to wait."""
        self.is_writing = False
        if not self._waiting:
            return False
        message = self._waiting.popleft()
        self.waiting_bytes -= len(message)
        self.write(message)
        return True

    def say_something(self) -> None:
        """Writes an empty message, unless one is being written."""
        if not self.is_writing:
            self.write(b"")
