"""The command stream of one session: commands leave in order, each is applied exactly once, answers find who waits.

`submit` only appends; what is appended while a message is being written leaves with the next one, so a thousand commands go
together. A few small ones wait for the next, which is usually the question for their result: one message costs less than two. Where none
comes, the background thread sends them. Messages are kept until the server says that it has received them, and are sent
again over a new stream when the old one breaks.

There is no thread that must be woken for an answer: a thread that waits asks gRPC for the next event itself, if no
other thread does (it is then the link's `poller`). A background thread does it only where nobody else would: when something
is left to send while the program computes elsewhere, and in long pauses. Everything else is guarded by `_lock`, which is
never held while waiting or in gRPC; finalizers take no lock, they append to `dead_arrays` and `dead_calls`.

A KeyboardInterrupt may come anywhere in the program's main thread, also where grpcio holds a lock, which it then never
lets go. So a channel that was interrupted is given up, and over a new one the session is taken up again, with whatever is
in doubt. So it is where a signal's handler, or a finalizer, gives commands while its own thread waits here for an event, which
it may have in its hands already. While its thread appends, it gets an error.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import grpc

from ..base import MXNetError
from . import encoding
from .batches import BATCH_BYTES, Batches, leaves_at_once
from .encoding import CallFrame
from .link import ABORTED, RETRY, UNAVAILABLE, Link, Waiter, greet
from .responses import parse
from .source_lines import INSIDE
from .stream import CLOSED, MESSAGE, WRITTEN

# Commands that pile up behind a message under way before their thread looks whether it has left.
LOOK_EVERY = 64
# Bytes that are not known to be received; whoever adds more waits.
MOST_BYTES = 64 << 20
# Of a message, for what is around the values; of a very short one, half of it.
MARGIN = 4096
# For what is around a command that is alone in its message.
AROUND = 64
# So many small commands do not wait for others any more.
FEW = 8
# A graph that has been run, and the answer to what was asked next, together take no longer than this if it is light.
LIGHT_SECONDS = 0.001
# A parked background thread looks around so often, in seconds.
PARKED_SECONDS = 0.02
FIRST_CONTACT_SECONDS = 2.0
# A fork waits so long for threads to leave gRPC.
PAUSE_SECONDS = 2.0
# So long after a link was given up, its stream may still take the session over.
GIVEN_UP_SECONDS = 5.0


class Pipeline:
    """See above. new_channel: makes one, for this stream alone. lost: makes the error for a stream that ended for good,
    (gRPC code, details) -> exception. is_gone: whether the server is known to be there no more."""

    def __init__(self, new_channel: Callable[[], grpc.Channel], client_id: str,
                 lost: Callable[[int, str], Exception], is_gone: Callable[[], bool]) -> None:
        self.opened: Any = None
        self._batches = Batches()
        # Names of what nobody has any more; append() is all that a finalizer may do.
        self.dead_arrays, self.dead_calls = self._batches.dead_arrays, self._batches.dead_calls
        self._new_channel = new_channel
        self._link = Link(new_channel())
        self._client_id = client_id
        self._lost = lost
        self._is_gone = is_gone
        self._lock = threading.RLock()  # Not to be taken twice, but to know whose it is.
        self._pausing = False
        self._paused = False
        self._stopped: Optional[Exception] = None
        self._writing = True  # Until the stream stands.
        self._few = 0  # Commands that wait for others.
        self._graphs: List[Tuple[CallFrame, float]] = []  # Run since the last answer, and when they were given.
        self._waiters: Dict[int, Waiter] = {}
        self._replies = 0
        self._unacknowledged_bytes = 0
        self._events = 0
        self._gave_up = -math.inf
        self._last_write = time.monotonic()
        self._connect(self._link, FIRST_CONTACT_SECONDS)
        threading.Thread(target=self._watch, args=(self._link,), name="gluond-events", daemon=True).start()
        threading.Thread(target=self._beat, name="gluond-heartbeat", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Until it has stopped."""
        return self._stopped is None

    @property
    def most_bytes(self) -> int:
        """Of commands, or values, in a message."""
        most = self.opened.max_message_bytes
        return most - min(MARGIN, most // 2)

    # Commands.

    def submit(self, command: bytes, tail: Any = None, waiter: Optional[Waiter] = None, later: bool = False,
               graph: Optional[CallFrame] = None) -> None:
        """Appends a command. `tail`: bytes-like, the rest of it, copied before this returns. later: it may wait until another
        command leaves. graph: what the command runs, which leaves at once unless its answer has come at once before: the
        server has much to do, while this program gives more commands."""
        frame = sys._getframe(1)
        while INSIDE[frame.f_code.co_filename] and frame.f_back is not None:
            frame = frame.f_back
        self._check_not_inside()
        link = self._link
        if (link.poller or link.writer) and threading.get_ident() in (link.poller, link.writer):
            self._give_up(link)
        try:
            full, waiting = self._append(link, command, tail, waiter, frame, later, graph)
        except BaseException:
            if self._stopped is None:
                self._give_up(link)
            raise
        if full or waiting >= LOOK_EVERY and not waiting % LOOK_EVERY:
            self._look(full)

    def _check_not_inside(self) -> None:
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise MXNetError("A signal's handler, or a finalizer (__del__), has used gluond at a moment when gluond itself was "
                             "at work in this thread. Have it set a flag, and act where the program sees that.")

    def _append(self, link: Link, command: bytes, tail: Any, waiter: Optional[Waiter], frame: Any, later: bool,
                graph: Optional[CallFrame]) -> Tuple[bool, int]:
        """Appends a command, and writes what there is if nothing is being written. Whether there are too many bytes on their
        way, and how many commands wait in the batch."""
        with self._lock:
            if self._stopped is not None:
                raise self._stopped
            if waiter is not None:
                waiter.number = self._batches.next_number()
                self._waiters[waiter.number] = waiter
            waiting = self._batches.append(command, tail, frame)
            if graph is not None and len(self._graphs) < FEW:
                self._graphs.append((graph, time.perf_counter()))
            message = b""
            if not self._writing:
                if later:
                    pass
                elif (waiter is not None or self._few >= FEW or leaves_at_once(command, tail)
                      or graph is not None and not graph.is_light):
                    link, message = self._link, self._take()
                else:
                    self._few += 1
            elif link.parked and waiter is None:
                link.parked = False
                link.nudge.release()
            full = self._batches.closed_bytes > MOST_BYTES
        if message:
            self._write(link, message)
        return full, waiting

    def request(self, command: bytes, waiter: Optional[Waiter] = None) -> Any:
        """Submits a command and waits for its Reply. waiter: a new one, where an interrupted caller wants to know the number."""
        self._check_not_inside()
        waiter = waiter or Waiter()
        try:
            self.submit(command, None, waiter)
            return self._wait(waiter)
        except BaseException:
            self._end_polling(self._link)
            self._forget(waiter)
            raise

    def request_each(self, commands: Iterable[bytes]) -> Iterator[Any]:
        """Submits the commands, and then waits for one Reply after the other."""
        self._check_not_inside()
        waiters: List[Waiter] = []
        try:
            for command in commands:
                waiters.append(Waiter())
                self.submit(command, None, waiters[-1])
            for waiter in waiters:
                yield self._wait(waiter)
                waiter.reply = None  # It may be large.
        finally:
            for waiter in waiters:
                if not waiter.done:
                    self._end_polling(self._link)
                    self._forget(waiter)

    def _wait(self, waiter: Waiter) -> Any:
        while not waiter.done:
            link = self._link
            if self._begin_polling(link):
                while not waiter.done and not self._pausing and link is self._link:
                    self._poll(link)
                self._end_polling(link)
            else:
                waiter.signal.acquire()
        if waiter.reply is None:
            raise self._stopped or MXNetError("the session has ended")
        if self._graphs:
            self._judge_graphs()
        return waiter.reply

    def _judge_graphs(self) -> None:
        """An answer has come, behind all that was given before."""
        now = time.perf_counter()
        with self._lock:
            for graph, given in self._graphs:
                graph.is_light = now - given < LIGHT_SECONDS
            self._graphs.clear()

    def _forget(self, waiter: Waiter) -> None:
        with self._lock:
            for number in [number for number, each in self._waiters.items() if each is waiter]:
                del self._waiters[number]

    def _take(self, acknowledge: bool = False) -> bytes:
        """The next message, if there is one. Requires: none is being written; and _write() next.

        acknowledge: a message without commands, if there are none.
        """
        self._few = 0
        self._batches.append_free()
        message = b""
        if self._batches.something_to_send():
            message = self._batches.take(self._replies)
        elif acknowledge:
            message = encoding.received(self._replies)
        if message:
            self._writing = True
            self._link.writer = threading.get_ident()
            self._unacknowledged_bytes = 0
            self._last_write = time.monotonic()
        return message

    def _write(self, link: Link, message: bytes) -> None:
        """Starts to write what _take() gave. Not holding `_lock`."""
        if not message:
            return
        try:
            if link.stream is not None:
                link.stream.write(message)
            link.writer = None
        except BaseException as error:
            if not self._is_of_old(link, error):
                self._give_up(link)
                raise

    def _is_of_old(self, link: Link, error: BaseException) -> bool:
        """Whether something has failed because another thread has given the link up: there is a new one, which sends again."""
        return link is not self._link and isinstance(error, Exception)

    def _look(self, full: bool) -> None:
        """Writes what has piled up, if the message before it has left; waits for room where there is none."""
        while True:
            link = self._link
            try:
                if self._begin_polling(link):
                    if self._writing and not self._pausing:
                        self._poll(link)
                    self._end_polling(link)
                elif full:
                    time.sleep(0.001)
            except BaseException:
                self._end_polling(link)
                raise
            if not full or self._stopped is not None or self._batches.closed_bytes <= MOST_BYTES:
                return

    # Events.

    def _begin_polling(self, link: Link) -> bool:
        """Whether this thread may call _poll() now; then _end_polling() is due."""
        me = threading.get_ident()
        with self._lock:
            if link.poller not in (None, me) or link is not self._link:
                return False
            link.poller = me
            return True

    def _end_polling(self, link: Link) -> None:
        """Lets others poll: the background thread, if somebody waits."""
        with self._lock:
            if link.poller == threading.get_ident():
                link.poller = None
            if self._waiters and self._link.parked:
                self._link.parked = False
                self._link.nudge.release()

    def _poll(self, link: Link) -> None:
        """Waits for one event and does what it asks for. As the link's poller."""
        if self._stopped is not None:
            return
        try:
            if link.stream is None:
                self._connect(link, self.opened.lease_seconds)
                return
            kind, value = link.stream.next_event()
            self._events += 1
            if kind is WRITTEN:
                with self._lock:
                    if link is not self._link:
                        return
                    self._writing = False
                    message = self._take()
                self._write(link, message)
            elif kind is MESSAGE:
                self._receive(link, parse(value), len(value))
            elif kind is CLOSED:
                self._broken(link, *value)
        except BaseException as error:
            if not self._is_of_old(link, error):
                self._give_up(link)
                raise

    def _receive(self, link: Link, response: Any, size: int) -> None:
        with self._lock:
            self._batches.drop_received(response.received)
            for reply in response.replies:
                if reply.index > self._replies:  # Else it came before, over another stream.
                    waiter = self._waiters.get(reply.number)
                    if waiter is not None:
                        waiter.finish(reply)
                        del self._waiters[reply.number]  # Not before: an interrupt may come in between.
                    self._replies = reply.index
            self._unacknowledged_bytes += size
            message = b""
            if self._unacknowledged_bytes > BATCH_BYTES and not self._writing and link is self._link:
                message = self._take(acknowledge=True)
        self._write(link, message)

    # Connections.

    def _broken(self, link: Link, code: int, details: str) -> None:
        with self._lock:
            if link is not self._link:
                return
            self._writing = True
            link.stream = None
        # A link that was given up while it said hello may have come after this one.
        came_late = code == ABORTED and time.monotonic() - self._gave_up < GIVEN_UP_SECONDS
        if code not in RETRY and not came_late:
            self.stop(self._lost(code, details))

    def _give_up(self, link: Link) -> None:
        """Goes on over a new link, if this is the one of now."""
        if link is not self._link or self._stopped is not None:
            return
        new = Link(self._new_channel())
        with self._lock:
            if link is not self._link or self._stopped is not None:
                return
            self._link = new
            self._writing = True
            self._gave_up = time.monotonic()
        threading.Thread(target=self._watch, args=(new,), name="gluond-events", daemon=True).start()
        close = link.stream.close if link.stream is not None else link.channel.close
        threading.Thread(target=close, name="gluond-close", daemon=True).start()

    def _connect(self, link: Link, seconds: float) -> None:
        """Opens a stream and resumes the session, trying for so long; then stops with the last error."""
        deadline = time.monotonic() + seconds
        pause = 0.05
        while self._stopped is None and link is self._link:
            code, details = self._open(link)
            if code == 0:
                return
            if code not in RETRY or time.monotonic() + pause > deadline or self._is_gone():
                self.stop(self._lost(code, details))
                break
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        if self.opened is None:
            raise self._stopped or MXNetError("the session has ended")

    def _open(self, link: Link) -> Tuple[int, str]:
        """Says hello; (0, "") when the session stands, else why not."""
        stream, response, code, details = greet(link.channel, self.opened.session if self.opened else "", self._client_id)
        if code != 0:
            return code, details
        with self._lock:
            if link is not self._link:
                stream.cancel()
                return UNAVAILABLE, "given up"
            self.opened = response.opened
            self._batches.most_bytes = self.most_bytes
            self._batches.longest = self.opened.max_message_bytes - AROUND
            self._batches.drop_received(response.received)
            self._batches.send_again()
            link.stream = stream
            self._writing = False
            message = self._take()
        self._write(link, message)
        self._receive(link, response, 0)
        return 0, ""

    def stop(self, error: Exception) -> None:
        """Ends the session for this client: everybody who waits, and every later command, gets the error."""
        with self._lock:
            if self._stopped is None:
                self._stopped = error
            waiters = list(self._waiters.values())
            self._waiters.clear()
            stream = self._link.stream
        for waiter in waiters:
            waiter.finish(None)
        if stream is not None:
            stream.cancel()

    def finish(self, seconds: float) -> None:
        """Lets the server end the session now rather than with its lease, if that takes no longer."""
        link = self._link
        if self._stopped is not None or link.stream is None:
            return
        link.stream.finish()
        end = time.monotonic() + seconds
        while link.stream is not None and time.monotonic() < end:
            time.sleep(0.001)
        self.stop(MXNetError("the session has ended"))

    def line_of(self, number: int) -> str:
        """Where a command was given, as a traceback prints it."""
        with self._lock:
            self._batches.close()
            return self._batches.lines.describe(number)

    # A fork copies gRPC's state, which is whole only while no thread is in it.

    def pause(self) -> None:
        """Before a fork: returns when nothing is being written and no thread polls; none will before resume()."""
        self._pausing = True
        link = self._link
        end = time.monotonic() + PAUSE_SECONDS
        if not self._begin_polling(link):
            self._say_something()  # The end of that wakes the thread that polls.
            while not self._begin_polling(link) and time.monotonic() < end:
                time.sleep(0.0005)
        while self._writing and link.stream is not None and time.monotonic() < end:
            self._poll(link)
        time.sleep(PARKED_SECONDS)  # From then on the background thread is parked until resume().

    def resume(self) -> None:
        """After a fork, in the parent."""
        self._pausing = False
        with self._lock:
            if self._link.parked:
                self._link.parked = False
                self._link.nudge.release()
        self._end_polling(self._link)

    def abandon(self, error: Exception) -> None:
        """After a fork, in the child: the stream and its locks belong to threads that are not here."""
        self._lock = threading.RLock()
        self._stopped = error

    # Background threads.

    def _watch(self, link: Link) -> None:
        """Polls where nobody else does."""
        while self._stopped is None and link is self._link:
            seen = self._events
            with self._lock:
                link.parked = self._pausing or link.poller is not None or not (
                    self._waiters or link.stream is None or self._writing and self._batches.something_to_send())
                parked = link.parked
            if parked:
                nudged = link.nudge.acquire(timeout=-1 if self._pausing else PARKED_SECONDS)
                with self._lock:
                    if not nudged and not link.parked:
                        link.nudge.acquire()  # It was released at this moment.
                    link.parked = False
                if not nudged and self._few:
                    self._send_few(link)
                if not nudged and seen != self._events:
                    continue
            if not self._pausing and self._begin_polling(link):
                if not self._pausing:
                    self._poll(link)
                self._end_polling(link)

    def _send_few(self, link: Link) -> None:
        with self._lock:
            message = self._take() if self._few and not self._writing and not self._pausing and link is self._link else b""
        self._write(link, message)

    def _beat(self) -> None:
        """A sign of life, where nothing else has been sent for a third of the lease."""
        pause = max(1.0, self.opened.lease_seconds / 3)
        while self._stopped is None:
            time.sleep(pause)
            if time.monotonic() - self._last_write > pause:
                self._say_something()

    def _say_something(self) -> None:
        """Writes a message, be it an empty one, unless one is being written."""
        with self._lock:
            if self._stopped is not None or self._writing:
                return
            link, message = self._link, self._take(acknowledge=True)
        self._write(link, message)
