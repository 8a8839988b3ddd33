"""The command stream of one session: commands leave in order, each is applied exactly once, answers find who waits.

`submit` only appends. Commands appended while a message is being written leave with the next one, so a thousand
commands go together. A few small commands wait for the next one, which usually asks for their result: one message costs
less than two. If none comes, the background thread sends them. While the program's thread appends, a signal's handler
or a finalizer that gives commands gets an error.

poller.py decides which thread asks gRPC for the answers; connection.py replaces a broken link, and ends waits with an
error.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from ..base import MXNetError
from . import heartbeat
from .access import Channel
from .batches import leaves_at_once
from .encoding import CallFrame
from .link import Link, Waiter
from .poller import Poller
from .source_lines import INSIDE

# Commands that pile up behind a message under way before their thread looks whether it has left.
LOOK_EVERY = 64
# Bytes that are not known to be received; a thread that adds more waits.
MOST_BYTES = 64 << 20
# So many small commands leave without waiting for more.
FEW = 8
# A graph is light if its run and the next answer together take no longer than this.
LIGHT_SECONDS = 0.001
FIRST_CONTACT_SECONDS = 2.0


class Pipeline(Poller):
    """See above, and its bases Poller and Connection. It connects when it is made."""

    def __init__(self, new_channel: Callable[[], Channel], client_id: str,
                 lost: Callable[[int, str], Exception], is_gone: Callable[[], bool]) -> None:
        super().__init__(new_channel, client_id, lost, is_gone)
        self._graphs: List[Tuple[CallFrame, float]] = []  # Run since the last answer, and when they were given.
        self._connect(self._link, FIRST_CONTACT_SECONDS)
        threading.Thread(target=self._watch, args=(self._link,), name="gluond-events", daemon=True).start()
        heartbeat.start("gluond-heartbeat", self._beat)

    def _beat(self) -> Optional[float]:
        """Says something where nothing else has been sent for a third of the lease."""
        if self._stopped is not None:
            return None
        pause = max(1.0, self.opened.lease.ToTimedelta().total_seconds() / 3)
        if time.monotonic() - self._last_write > pause:
            self._say_something()
        return pause

    def submit(self, command: bytes, tail: Any = None, waiter: Optional[Waiter] = None, later: bool = False,
               graph: Optional[CallFrame] = None) -> None:
        """Appends a command. `tail`: the rest of it, bytes-like, copied before this returns. later: the command may
        wait until another one leaves. graph: the graph that the command runs. The command leaves at once unless the
        graph is known to be light: the server then computes while this program gives more commands."""
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
        """Appends a command, and starts to write if nothing is being written. Returns whether too many bytes are on
        their way, and how many commands wait in the batch."""
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

    def request_within(self, command: bytes, seconds: float) -> Any:
        """The Reply to a command, or None if it has not come after so many seconds."""
        waiter = Waiter()
        self.submit(command, None, waiter)
        waiter.signal.acquire(timeout=seconds)
        if not waiter.done:
            self._forget(waiter)
        return waiter.reply

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
        """Called when an answer has come, and so all earlier commands have ended: decides which graphs are light."""
        now = time.perf_counter()
        with self._lock:
            for graph, given in self._graphs:
                graph.is_light = now - given < LIGHT_SECONDS
            self._graphs.clear()

    def _forget(self, waiter: Waiter) -> None:
        with self._lock:
            for number in [number for number, each in self._waiters.items() if each is waiter]:
                del self._waiters[number]

    def _look(self, full: bool) -> None:
        """Writes the waiting commands, if the message before them has left. full: waits for room."""
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

    def line_of(self, number: int) -> str:
        """The line that gave a command, as a traceback prints it."""
        with self._lock:
            self._batches.close()
            return self._batches.lines.describe(number)
