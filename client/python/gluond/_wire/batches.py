"""Commands on their way: collected in batches, kept until the server has received them.

A batch is one message. Its commands are numbered from `first`, so a batch that is sent twice is applied once. A
KeyboardInterrupt may cut every step here short: an appended command is then in some batch, and a batch perhaps in two
lists.
"""

from __future__ import annotations

import collections
from typing import Any, Deque, List, Optional

from ..base import MXNetError
from . import encoding
from .source_lines import Origin, SourceLines

# A batch is closed at this size, so that the server begins while the rest is still being made.
BATCH_BYTES = 1 << 20
BATCH_COMMANDS = 4096
# From this length on, the bytes that follow a command travel in a message of their own, and a command does not wait for others.
# Shorter ones are copied faster than a message is sent.
LONG_BYTES = 1 << 16
# Temporaries that wait for their Free, at most.
DEAD_ARRAYS = 8
# Bytes that a name takes in a Free, with its share of the bytes around the names.
_FREED_BYTES = 32


def leaves_at_once(command: bytes, tail: Any) -> bool:
    """Whether a command, with the tail that follows it, does not wait for other commands."""
    return len(command) >= LONG_BYTES or tail is not None and tail.nbytes >= LONG_BYTES


class Batch:
    """Commands that travel together."""

    __slots__ = ("first", "commands", "size", "origins")

    def __init__(self, first: int) -> None:
        self.first = first
        self.commands: List[Any] = []  # Each is bytes, or can be joined to bytes.
        self.size = 0
        self.origins: List[Optional[Origin]] = []  # None: the package has given the command for itself.

    @property
    def last(self) -> int:
        """Number of its last command."""
        return self.first + len(self.commands) - 1

    def message(self, replies: int) -> bytes:
        """The batch as a message. `replies`: the number of the last reply that has arrived."""
        return encoding.request(self.first, (encoding.received(replies), *self.commands))


class LongBatch(Batch):
    """Another batch's commands and a long command in two pieces, which are copied at once: the second may be as large
    as a message."""

    __slots__ = ("_body",)

    def __init__(self, before: Batch, command: bytes, tail: Any, origin: Origin) -> None:
        super().__init__(before.first)
        self.commands = [None] * (len(before.commands) + 1)
        self.size = before.size + len(command) + tail.nbytes
        self.origins = [*before.origins, origin]
        self._body = encoding.request(self.first, (*before.commands, command, tail))

    def message(self, replies: int) -> bytes:
        return self._body


class Batches:
    """The batches that are not sent, of which the last is open, and those not known to be received. Not thread-safe."""

    def __init__(self) -> None:
        self.unsent: Deque[Batch] = collections.deque((Batch(1),))
        self.kept: Deque[Batch] = collections.deque()
        self.closed_bytes = 0
        # The most bytes of a message, and of a command alone in one; set when the server has told them.
        self.most_bytes = self.longest = BATCH_BYTES
        self.lines = SourceLines()
        # Names that are to be freed. Finalizers append to them, at any time, in any thread.
        self.dead_arrays: Deque[bytes] = collections.deque()
        self.dead_calls: Deque[int] = collections.deque()
        self.dead_optimizers: Deque[int] = collections.deque()

    def next_number(self) -> int:
        """The next command's number."""
        batch = self.unsent[-1]
        return batch.first + len(batch.commands)

    def append(self, command: bytes, tail: Any, origin: Origin) -> int:
        """Adds a command and returns the number of commands in the batch. `tail`: the rest of the
        command, bytes-like, or None. MXNetError: the command is longer than a message may be."""
        if tail is not None:
            if tail.nbytes >= LONG_BYTES:
                self.append_long(command, tail, origin)
                return 0
            command += tail
        batch = self.unsent[-1]
        size = batch.size + len(command)
        if size > BATCH_BYTES or size > self.most_bytes:
            self._check_fits(command)
            self.close()
            batch = self.unsent[-1]
            size = len(command)
        batch.origins.append(origin)
        batch.size = size
        commands = batch.commands
        commands.append(command)
        if len(self.dead_arrays) >= DEAD_ARRAYS:
            self._append_free(batch)
        waiting = len(commands)
        if waiting >= BATCH_COMMANDS:
            self.close()
        return waiting

    def _check_fits(self, command: bytes) -> None:
        if len(command) > self.longest:
            raise MXNetError(
                f"the call takes {len(command)} bytes on its way to the server, which takes {self.longest} in one "
                "message (--max_message_bytes); give it fewer arrays or attributes, or a graph in parts"
            )

    def append_free(self) -> None:
        """Adds a command that frees dead arrays, if it can leave with the next message."""
        if len(self.unsent) == 1 and (self.dead_arrays or self.dead_calls or self.dead_optimizers):
            self._append_free(self.unsent[0])

    def _append_free(self, batch: Batch) -> None:
        arrays, calls, optimizers = self.dead_arrays, self.dead_calls, self.dead_optimizers
        room = (self.most_bytes - batch.size) // _FREED_BYTES
        if room <= 0:
            return
        names = [arrays.popleft() for _ in range(min(room, len(arrays)))]
        room -= len(names)
        dead_calls = [calls.popleft() for _ in range(min(room, len(calls)))]
        room -= len(dead_calls)
        command = encoding.free(names, dead_calls, [optimizers.popleft() for _ in range(min(room, len(optimizers)))])
        batch.origins.append(None)
        batch.size += len(command)
        batch.commands.append(command)

    def close(self) -> None:
        """Ends the open batch, if there is something in it."""
        batch = self.unsent[-1]
        if batch.commands:
            self.closed_bytes += batch.size
            self.lines.add(batch)
            self.unsent.append(Batch(batch.last + 1))

    def append_long(self, command: bytes, tail: Any, origin: Origin) -> None:
        """Adds one large command, and ends the batch. `tail` is bytes-like."""
        if self.unsent[-1].size + len(command) + tail.nbytes > self.most_bytes:
            self.close()
        self.unsent[-1] = LongBatch(self.unsent[-1], command, tail, origin)
        self.close()

    def something_to_send(self) -> bool:
        """Whether a command waits."""
        return bool(self.unsent[0].commands)

    def next_message(self, replies: int) -> bytes:
        """The next message, until note_sent(). Requires: something_to_send()."""
        if len(self.unsent) == 1:
            self.close()
        return self.unsent[0].message(replies)

    def note_sent(self) -> None:
        """The next message has been sent; it is kept from now on."""
        self.kept.append(self.unsent[0])
        self.unsent.popleft()

    def drop_received(self, number: int) -> None:
        """Forgets the commands that the server has: all up to this number."""
        while self.kept and self.kept[0].last <= number:
            self.closed_bytes -= self.kept[0].size
            self.kept.popleft()

    def send_again(self) -> None:
        """Has all kept batches sent once more."""
        while self.kept:
            self.unsent.appendleft(self.kept[-1])
            self.kept.pop()
