"""Messages on their way to the server, over one stream after the other, in their order."""

from __future__ import annotations

import collections
from typing import Callable, Deque

# So many messages wait at most: then the stream is ended.
MOST_WAITING = 1 << 17


class Outgoing:
    """Not thread-safe: its user has a lock. cut: ends the stream."""

    def __init__(self, cut: Callable[[], None]) -> None:
        self.is_on = False  # Whether there is a stream.
        self.waiting_bytes = 0
        self._waiting: Deque[bytes] = collections.deque()
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
        """Has a message sent in its turn, if there is a stream."""
        if not self.is_on:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._cut()
            return
        self._waiting.append(message)
        self.waiting_bytes += len(message)

    def send(self, write: Callable[[bytes], bool]) -> bool:
        """Writes messages until `write` has no room for more. Returns whether there was one."""
        was_one, has_room = False, True
        while self._waiting and has_room:
            has_room = write(self._waiting[0])
            self.waiting_bytes -= len(self._waiting.popleft())
            was_one = True
        return was_one
