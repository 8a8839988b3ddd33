"""One stream of a server's method after the other: opened, written and read, and opened again.

    wire = Wire(new_stream, "/gluond.v1.SessionService/Run", speaker)
    wire.start()
    wire.send()             # the speaker has something to say
    wire.lead()             # a thread waits for an answer

A stream is the native module's, where any thread writes, and the thread that waits for an answer reads; or grpcio's, where there
is no such module (public_stream.py). The thread of the Wire opens and ends the streams, and attends to them whenever no other
thread does.

Before a fork a Wire leaves gRPC, with its channel: then a forked process has nothing of gRPC's that its parent has used.
After the fork it opens another stream.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Optional, Tuple

import grpc

from . import outside
from .native_stream import ENDED, WRITABLE

try:
    from typing import Protocol
except ImportError:
    Protocol = object  # type: ignore[assignment, misc]

# A message that does not hurry leaves within this time, in seconds.
DOZE_SECONDS = 0.02
# After the last message the thread dozes for so long.
DROWSY_SECONDS = 1.0
# A fork waits so long for a Wire to leave gRPC, and then goes on without.
LEAVE_SECONDS = 5.0
# A thread that waits for an answer lets signals be handled so often.
LEAD_SECONDS = 0.05
# No more is written while so many bytes have not left.
MOST_WAITING_BYTES = 4 << 20

End = Tuple[int, str]  # gRPC's code, and its text.


class Speaker(Protocol):
    """The user of a Wire. No method but `closed` may wait. A message may come twice, where an interrupt has cut `message` short."""

    def hello(self) -> bytes:
        """The first message of a new stream."""

    def say(self, write: Callable[[bytes], bool], alive: bool) -> None:
        """Writes what there is to say, until `write` returns False: the message has gone, and there is no room for more. alive:
        there must be something, as a sign of life. From any thread."""

    def message(self, data: Any) -> None:
        """A message has come, bytes-like. An error ends the stream. From any thread."""

    def pause(self) -> float:
        """For so many seconds after a message the thread of the Wire leaves the next one to threads that lead."""

    def closed(self, code: int, details: str) -> Optional[float]:
        """A stream has ended, with gRPC's code. The seconds until the next one; None: there will be none."""


class Wire:
    """The streams of one method, and the thread that serves them. Thread-safe. new_stream: opens one, (method, hello).

    beat_seconds: the time after the last message in which the server expects a sign of life.
    """

    def __init__(self, new_stream: Callable[[str, bytes], Any], method: str, speaker: Speaker) -> None:
        self.beat_seconds = 20.0
        self.is_asleep = False  # Whether the Wire's thread looks for no message before it is woken.
        self._new_stream = new_stream
        self._method = method
        self._speaker = speaker
        self._stream: Any = None
        self._last = 0.0  # When the last message was written.
        self._thread = 0
        self._orders: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # Wakes the thread of the Wire between two streams.
        self._failure: Optional[End] = None  # Why this end has ended the stream.
        self._is_cut = False
        self._is_full = False  # Whether nothing is to be written before the rest has left.
        self._finishes = False
        self._ended = False
        self._has_left = threading.Event()  # No thread is within gRPC.

    def start(self) -> None:
        """Opens the first stream, with the thread of the Wire."""
        outside.join(self)
        threading.Thread(target=self._live, name="gluond-wire", daemon=True).start()

    def is_inside(self) -> bool:
        """Whether this thread is one in which the stream lives: it must not wait for an answer."""
        me, stream = threading.get_ident(), self._stream
        return me == self._thread or stream is not None and me in stream.threads

    def send(self) -> None:
        """Has the speaker say what it has to say, in this thread, if there is a stream."""
        if self._stream is not None and not self._is_full:
            self._speaker.say(self._write, False)

    def lead(self, seconds: float = LEAD_SECONDS) -> bool:
        """Waits a while for the next event, and takes it. False: another thread does, so that the answer will come without this."""
        stream = self._stream
        if stream is None:
            return False
        event = stream.lead(seconds)
        if event >= 0:
            self._take(stream, event)
        elif event == WRITABLE:
            self._go_on()
        return event >= WRITABLE

    def wake(self) -> None:
        """Has the thread of the Wire call on the speaker now."""
        self.is_asleep = False
        stream = self._stream
        if stream is not None:
            stream.kick()

    def finish(self) -> None:
        """Says that no message will follow; the server then ends the stream."""
        self._finishes = True
        self.wake()

    def cut(self) -> None:
        """Ends the stream that stands."""
        self._is_cut = True
        self.wake()

    def end(self) -> None:
        """Ends the stream; there will be no other one."""
        self._ended = True
        self._orders.put(None)
        self.wake()

    def join(self, seconds: float) -> None:
        """After end(): returns when no thread is within gRPC, or so long a time has passed."""
        self._has_left.wait(seconds)

    def leave(self) -> None:
        """Before a fork: returns when the Wire has left gRPC."""
        self._orders.put(None)
        self.wake()
        self._has_left.wait(LEAVE_SECONDS)

    def abandon(self) -> None:
        """After a fork, in the child: the threads are not here."""

    def _write(self, data: bytes) -> bool:
        stream = self._stream
        if stream is None:
            return False
        self._last = time.monotonic()
        if stream.write(data) <= MOST_WAITING_BYTES:
            return True
        self._is_full = True
        stream.say_when_written()
        return False

    def _go_on(self) -> None:
        """All has left that was to be written."""
        self._is_full = False
        self.send()

    def _take(self, stream: Any, size: int) -> None:
        data, number = stream.message(size)
        if not number:
            return
        try:
            self._speaker.message(data)
        except Exception as error:  # pylint: disable=broad-except  # The speaker raised it.
            self._failure = grpc.StatusCode.INTERNAL.value[0], str(error)
            self.cut()
        stream.drop(number)

    # The thread of the Wire.

    def _live(self) -> None:
        self._thread = threading.get_ident()
        outside.wait()
        pause: Optional[float] = 0.0
        while pause is not None and not self._ended:
            if outside.is_due():
                self._has_left.set()
                outside.wait()
                self._has_left.clear()
            elif not self._must_end_within(pause):
                pause = self._speaker.closed(*self._run_stream())
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

    def _run_stream(self) -> End:
        """Opens a stream and attends to it until its end; returns that."""
        self._failure, self._is_cut, self._is_full = None, False, False
        self._last = time.monotonic()
        try:
            stream = self._new_stream(self._method, self._speaker.hello())
        except Exception as error:  # pylint: disable=broad-except  # No thread is to be had, say: there may be one later.
            return grpc.StatusCode.UNAVAILABLE.value[0], str(error)
        self._stream = stream
        try:
            self._attend(stream)
        finally:
            self._stream = None
            stream.close()
        return self._failure or stream.end()

    def _attend(self, stream: Any) -> None:
        has_cut = has_finished = False
        while True:
            since = time.monotonic() - self._last
            dozes = since < DROWSY_SECONDS
            self.is_asleep = not dozes
            # A message may have been left before its thread could see that this one sleeps.
            if not self._is_full:
                self._speaker.say(self._write, since >= self.beat_seconds)
            if self._finishes and not has_finished:
                has_finished = True
                stream.finish()
            if not has_cut and (self._is_cut or self._ended or outside.is_due()):
                has_cut = True
                stream.cancel()
            seconds = DOZE_SECONDS if dozes else max(DOZE_SECONDS, self.beat_seconds - since)
            event = stream.attend(seconds, self._speaker.pause())
            self.is_asleep = False
            if event == ENDED:
                return
            if event >= 0:
                self._take(stream, event)
            elif event == WRITABLE:
                self._is_full = False
