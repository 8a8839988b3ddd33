"""The calls of the server that are under way in this process: each in a thread of its own, up to a limit; others wait.

A call's code may need another call of this process: it waits for values that the server computes with one. So if every
thread waits for the server and no call has ended for a while, calls that wait for a thread are refused, and the error
ends the chain. The limits protect against a server, or other clients of a shared operator, that ask for more than a
program expects.
"""

from __future__ import annotations

import collections
import contextlib
import queue
import threading
import time
from typing import Any, Callable, Deque, Iterator, List, Optional

from .._wire.frame import change

# Calls at a time.
MOST_THREADS = 128
# Calls that wait for a thread, and their bytes.
MOST_WAITING = 1 << 16
MOST_WAITING_BYTES = 1 << 30
# Threads that wait for the next call, at most.
MOST_IDLE = 3
# How long every thread waits for the server before calls that wait for a thread are refused.
STALL_SECONDS = 5.0


class Pool:
    """Thread-safe. run: answers a call, in a thread of its own. refuse: answers with the reason why it is not run. lead: receives
    the next calls and takes them; False: another thread does.

    A thread that has no call leads, and runs the first call that it receives: no other thread is woken for it.
    """

    def __init__(self, run: Callable[[Any], None], refuse: Callable[[Any, str], None], lead: Callable[[], bool]) -> None:
        self._run = run
        self._refuse = refuse
        self._lead = lead
        self._leader = 0  # The thread that leads, ...
        self._led: Any = None  # ... and the call that it has received.
        self._lock = threading.Lock()
        self._waiting: Deque[Any] = collections.deque()
        self._waiting_bytes = 0
        self._idle = 0  # Threads that wait for a call of _next.
        self._next: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._threads = 0  # That run calls,
        self._blocked = 0  # and those of them that wait for the server.
        self._moved = time.monotonic()  # When one began or ended, or the server's answer came.

    def take(self, calls: List[Any]) -> None:
        """Starts these calls, or has them wait."""
        if not calls:
            return
        begun, refused = [], []
        with self._lock:
            for call in calls:
                if self._threads < MOST_THREADS:
                    self._threads += 1
                    begun.append(call)
                elif len(self._waiting) < MOST_WAITING and self._waiting_bytes + call.ByteSize() <= MOST_WAITING_BYTES:
                    self._waiting.append(call)
                    self._waiting_bytes += call.ByteSize()
                else:
                    refused.append(call)
        for call in refused:
            self._refuse(
                call,
                f"this process computes {MOST_THREADS} calls of custom operators at a time, and as many as may "
                "wait for a thread do; ask for fewer at once",
            )
        for call in begun:
            self._start(call)

    def _start(self, call: Any) -> None:
        if self._leader == threading.get_ident() and self._led is None:
            self._led = call
            return
        with self._lock:
            has_thread = self._idle > 0
            self._idle -= has_thread
        if has_thread:
            self._next.put(call)
            return
        try:
            threading.Thread(target=self._work, args=(call,), name="gluond-custom", daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._threads -= 1
            self._refuse(call, f"this process has {threading.active_count()} threads, and gets no other one: {error}")

    def _work(self, call: Any) -> None:
        """Runs the call, then those that wait, and then the next ones that come, in this thread."""
        change(around_wait=self.blocked)
        while call is not None:
            try:
                self._run(call)
            except BaseException:
                following = self._following()
                if following is not None:
                    self._start(following)
                raise
            del call
            call = self._following() or self._wait_for_next()

    def _wait_for_next(self) -> Any:
        """The next call; None: enough threads wait for one."""
        call = self._receive()
        if call is not None:
            return call
        with self._lock:
            if self._idle >= MOST_IDLE:
                return None
            self._idle += 1
        return self._next.get()

    def _receive(self) -> Any:
        """Leads until a call has come for this thread; None: another thread leads."""
        with self._lock:
            if self._leader:
                return None
            self._leader = threading.get_ident()
        while self._led is None and self._lead():
            pass
        call, self._led, self._leader = self._led, None, 0
        return call

    def _following(self) -> Any:
        """The next call for a thread whose call has ended; None: the thread has left the pool."""
        with self._lock:
            self._moved = time.monotonic()
            call = self._pop()
            self._threads -= call is None
        return call

    def _pop(self) -> Any:
        if not self._waiting:
            return None
        call = self._waiting.popleft()
        self._waiting_bytes -= call.ByteSize()
        return call

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """Around a call's wait for the server."""
        with self._lock:
            self._blocked += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1
                self._moved = time.monotonic()

    def refuse_if_stalled(self) -> None:
        """Refuses waiting calls after a stall. The host calls this now and then."""
        with self._lock:
            stalled = self._waiting and self._blocked >= self._threads and time.monotonic() - self._moved > STALL_SECONDS
            refused = [self._pop() for _ in range(len(self._waiting))] if stalled else []
        for call in refused:
            self._refuse(
                call,
                f"{MOST_THREADS} calls of custom operators are under way in this process, and each has waited "
                f"for the server for {STALL_SECONDS:g} s: perhaps for one like this, which there is no thread "
                "for. Nest operators less deeply, or ask for fewer at once",
            )
