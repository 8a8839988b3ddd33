"""One stream of a server's method after the other, by grpcio's public API: opened, written and read, and opened again.

    wire = Wire(new_channel, "/gluond.v1.SessionService/Run", speaker)
    wire.start()
    wire.wake()             # speaker.next_message() has something to say

The program's own threads are never within gRPC, where an interrupt (Ctrl-C) would leave locks that nobody releases. They
leave messages where the speaker finds them and wake the Wire, whose threads do the rest: one opens and ends the streams, one
reads, and one of grpcio's own asks for the next message and writes it.

Before a fork a Wire leaves gRPC, with its channel: then a forked process has nothing of gRPC's that its parent has used.
After the fork it opens another stream.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Iterator, Optional, Tuple

import grpc

from . import outside
from .access import Channel

try:
    from typing import Protocol
except ImportError:
    Protocol = object  # type: ignore[assignment, misc]

# The writing thread: it works, or looks again soon for messages that do not hurry, or waits to be woken for any.
AWAKE, DOZING, ASLEEP = range(3)
# A message that does not hurry leaves within this time, in seconds.
DOZE_SECONDS = 0.02
# After the last message the writing thread dozes for so long.
DROWSY_SECONDS = 1.0
# A fork waits so long for a Wire to leave gRPC, and then goes on without.
LEAVE_SECONDS = 5.0

End = Tuple[int, str]  # gRPC's code, and its text.


class Speaker(Protocol):
    """The user of a Wire. No method but `closed` may wait."""

    def hello(self) -> bytes:
        """The first message of a new stream."""

    def next_message(self, alive: bool) -> Optional[bytes]:
        """The next message to write, if there is one. alive: there must be one, as a sign of life."""

    def message(self, data: bytes) -> None:
        """A message has come. An error ends the stream."""

    def closed(self, code: int, details: str) -> Optional[float]:
        """A stream has ended, with gRPC's code. The seconds until the next one; None: there will be none."""


class Wire:
    """The streams of one method, and the threads that serve them. Thread-safe.

    beat_seconds: the time after the last message in which the server expects a sign of life.
    """

    def __init__(self, new_channel: Callable[[], Channel], method: str, speaker: Speaker) -> None:
        self.channel: Any = None
        self.beat_seconds = 20.0
        self.asleep = AWAKE
        self.threads = [0, 0, 0, 0]  # Those in which the stream lives: they must not wait for an answer.
        self._new_channel = new_channel
        self._method = method
        self._speaker = speaker
        self._orders: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # Wakes the thread of the streams.
        self._wakes: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # Wakes the writing thread.
        self._end: Optional[End] = None  # The end of the last stream.
        self._is_cut = False
        self._finishes = False
        self._ended = False
        self._has_left = threading.Event()  # No thread is within gRPC.

    def start(self) -> None:
        """Opens the first stream, with the threads of the Wire."""
        outside.join(self)
        threading.Thread(target=self._live, name="gluond-wire", daemon=True).start()

    def wake(self) -> None:
        """Has the next message written now."""
        self.asleep = AWAKE
        self._wakes.put(None)

    def finish(self) -> None:
        """Says that no message will follow; the server then ends the stream."""
        self._finishes = True
        self.wake()

    def cut(self) -> None:
        """Ends the stream that stands."""
        self._is_cut = True
        self._orders.put(None)

    def end(self) -> None:
        """Ends the stream; there will be no other one."""
        self._ended = True
        self._orders.put(None)

    def leave(self) -> None:
        """Before a fork: returns when the Wire has left gRPC."""
        self._orders.put(None)
        self._has_left.wait(LEAVE_SECONDS)

    def abandon(self) -> None:
        """After a fork, in the child: the threads are not here."""

    # The thread of the streams.

    def _live(self) -> None:
        self.threads[0] = threading.get_ident()
        outside.wait()
        pause: Optional[float] = 0.0
        while pause is not None and not self._ended:
            if outside.is_due():
                self._stand_by()
            elif not self._must_end_within(pause):
                pause = self._speaker.closed(*self._run_stream())
        self._close()
        self._has_left.set()
        outside.part(self)

    def _must_end_within(self, seconds: float) -> bool:
        """Waits for so long; true, and at once, if there is to be no stream."""
        end = time.monotonic() + seconds
        while not (self._ended or outside.is_due()):
            try:
                self._orders.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return False
        return True

    def _stand_by(self) -> None:
        self._close()
        self._has_left.set()
        outside.wait()
        self._has_left.clear()

    def _close(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def _run_stream(self) -> End:
        """Opens a stream and has it read to its end; returns that."""
        self._end, self._is_cut = None, False
        wakes: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self._wakes = wakes
        writer_has_left = threading.Event()
        try:
            if self.channel is None:
                self.channel = self._new_channel()
            call = self.channel.stream_stream(self._method, None, self._note)(self._messages(wakes, writer_has_left))
            reader = threading.Thread(target=self._read, args=(call,), name="gluond-reader", daemon=True)
            reader.start()
        except Exception as error:  # pylint: disable=broad-except  # No thread is to be had, say: there may be one later.
            return grpc.StatusCode.UNAVAILABLE.value[0], str(error)
        while self._end is None:
            self._orders.get()
            if self._is_cut or self._ended or outside.is_due():
                call.cancel()
        wakes.put(None)
        writer_has_left.wait(LEAVE_SECONDS)  # It could take a message of the next stream with it.
        reader.join(LEAVE_SECONDS)  # It has the call, which is in gRPC until nobody has it.
        self.threads[1:] = [0, 0, 0]  # Another thread may get the number of one that has ended.
        return self._end

    # The threads of one stream.

    def _note(self, data: bytes) -> bytes:
        """Stands in the place of a deserializer: grpcio calls it in a thread that must not wait, either."""
        self.threads[1] = threading.get_ident()
        return data

    def _read(self, call: Any) -> None:
        self.threads[2] = threading.get_ident()
        end = grpc.StatusCode.UNAVAILABLE.value[0], "the server ended the stream"
        try:
            for data in call:
                self._speaker.message(data)
        except grpc.RpcError as error:
            end = error.code().value[0], error.details()
        except Exception as error:  # pylint: disable=broad-except  # The speaker raised it.
            call.cancel()
            end = grpc.StatusCode.INTERNAL.value[0], str(error)
        self._end = end
        self._orders.put(None)

    def _messages(self, wakes: "queue.SimpleQueue[None]", has_left: threading.Event) -> Iterator[bytes]:
        """The messages of a stream; grpcio asks for the next one when one has been written."""
        self.threads[3] = threading.get_ident()
        self.channel.note_thread()
        try:
            yield from self._written(wakes)
        finally:
            has_left.set()

    def _written(self, wakes: "queue.SimpleQueue[None]") -> Iterator[bytes]:
        yield self._speaker.hello()
        last = time.monotonic()
        while self._end is None:
            message = self._speaker.next_message(time.monotonic() - last >= self.beat_seconds)
            if message is None:
                if self._finishes:
                    return
                message = self._await(wakes, last)
            if message is not None:
                last = time.monotonic()
                yield message

    def _await(self, wakes: "queue.SimpleQueue[None]", last: float) -> Optional[bytes]:
        """Sleeps until there may be a message. One may have been left before its thread could see that this one sleeps."""
        since = time.monotonic() - last
        dozes = since < DROWSY_SECONDS
        self.asleep = DOZING if dozes else ASLEEP
        message = self._speaker.next_message(False)
        if message is None:
            try:
                wakes.get(timeout=DOZE_SECONDS if dozes else max(0.0, self.beat_seconds - since))
            except queue.Empty:
                pass
        self.asleep = AWAKE
        return message
