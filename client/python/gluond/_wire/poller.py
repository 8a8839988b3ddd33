"""The thread that asks gRPC for events.

There is no thread that must be woken for an answer: a thread that waits asks gRPC for the next event itself, if no
other thread does (it is then the link's `poller`). A background thread does so only if no other would: when commands
are left to send while the program computes elsewhere, and in long pauses.
"""

from __future__ import annotations

import threading
import time

from .connection import Connection
from .link import Link
from .responses import parse
from .stream import CLOSED, MESSAGE, WRITTEN

# A parked background thread looks around so often, in seconds.
PARKED_SECONDS = 0.02
# A fork waits so long for threads to leave gRPC.
PAUSE_SECONDS = 2.0


class Poller(Connection):
    """A Connection that gets its events."""

    _events = 0
    _pausing = False

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
        """Waits for one event and handles it. Requires: this thread is the link's poller."""
        if self._stopped is not None:
            return
        try:
            if link.stream is None:
                self._connect(link, max(self.opened.lease.ToTimedelta().total_seconds(), self.patience))
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
