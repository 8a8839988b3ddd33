"""Commands on their way: collected in batches, kept until the server has received them.

A batch is one message. Its commands are numbered from `first`, so a batch that is sent twice is applied once, and every
step here may be cut short by a KeyboardInterrupt: what has been appended is in some batch, perhaps in two lists.
"""

from __future__ import annotations

import collections
from typing import Any, Deque, List

from .encoding import varint
from .source_lines import SourceLines


class Batch:
    """Commands that travel together."""

    __slots__ = ("first", "commands", "size", "codes", "offsets")

    def __init__(self, first: int) -> None:
        self.first = first
        self.commands: List[Any] = []  # Each bytes, or what can be joined to bytes.
        self.size = 0
        self.codes: List[Any] = []
        self.offsets: List[int] = []

    @property
    def last(self) -> int:
        """Number of its last command."""
        return self.first + len(self.commands) - 1

    def message(self, replies: int) -> bytes:
        """As it travels. `replies`: the last one that has arrived."""
        return b"".join((b"\x10", varint(self.first), b"\x20", varint(replies), *self.commands))


class LongBatch(Batch):
    """One command in two pieces, copied when it is made: the second may be as large as a message."""

    __slots__ = ("_body",)

    def __init__(self, first: int, command: bytes, tail: Any) -> None:
        super().__init__(first)
        self.commands.append(None)
        self.size = len(command) + tail.nbytes
        self._body = b"".join((b"\x10", varint(first), command, tail))

    def message(self, replies: int) -> bytes:
        return self._body


class Batches:
    """Those that are not sent, the last of which is open, and those that are not known to be received. Not thread-safe."""

    def __init__(self) -> None:
        self.unsent: Deque[Batch] = collections.deque((Batch(1),))
        self.kept: Deque[Batch] = collections.deque()
        self.closed_bytes = 0
        self.lines = SourceLines()

    def close(self) -> None:
        """Ends the open batch, if there is something in it."""
        batch = self.unsent[-1]
        if batch.commands:
            self.closed_bytes += batch.size
            self.lines.add(batch)
            self.unsent.append(Batch(batch.last + 1))

    def append_long(self, command: bytes, tail: Any, frame: Any) -> None:
        """Adds one large command as a batch of its own. `tail` is bytes-like."""
        self.close()
        batch = LongBatch(self.unsent[-1].first, command, tail)
        batch.codes.append(frame.f_code)
        batch.offsets.append(frame.f_lasti)
        self.unsent[-1] = batch
        self.close()

    def something_to_send(self) -> bool:
        """Whether a command waits."""
        return bool(self.unsent[0].commands)

    def take(self, replies: int) -> bytes:
        """The next message; it is kept from now on. Requires: something_to_send()."""
        if len(self.unsent) == 1:
            self.close()
        batch = self.unsent[0]
        message = batch.message(replies)
        self.kept.append(batch)
        self.unsent.popleft()
        return message

    def drop_received(self, number: int) -> None:
        """Forgets what the server has: everything up to this number."""
        while self.kept and self.kept[0].last <= number:
            self.closed_bytes -= self.kept[0].size
            self.kept.popleft()

    def send_again(self) -> None:
        """Everything that is kept is to be sent once more."""
        while self.kept:
            self.unsent.appendleft(self.kept[-1])
            self.kept.pop()
