"""Messages on their way to the server, over one stream after the other, in their order."""

from __future__ import annotations

import collections
from typing import Callable, Deque, Optional

# So many messages wait at most: then the stream is ended.
MOST_WAITING = 1 << 17


class Outgoing:
    """Not thread-safe: its user has a lock. wake: has a message taken. cut: ends the stream."""

    def __init__(self, wake: Callable[[], None], cut: Callable[[], None]) -> None:
        self.is_on = False  # Whether there is a stream.
        self.waiting_bytes = 0
        self._waiting: Deque[bytes] = collections.deque()
        self._wake = wake
        self._cut = cut

    def begin(self) -> None:
        """Sends over a new stream. Messages that waited for another are of no use to it."""
        self.end()
        self.is_on = True

    def end(self) -> None:
        """No messages are taken from now on."""
        self.is_on = False
        self.waiting_bytes = 0
        self._waiting.clear()

    def write(self, message: bytes) -> None:
        """Sends a message in its turn, if there is a stream."""
        if not self.is_on:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._cut()
            return
        self._waiting.append(message)
        self.waiting_bytes += len(message)
        self._wake()

    def take(self) -> Optional[bytes]:
        """The next message."""
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self.waiting_bytes -= len(message)
        return message
