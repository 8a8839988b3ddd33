"""The calls of one server that are no session's stream, from any thread, over a channel of their own.

A signal's handler that raises (Ctrl-C) may not meet grpcio, which would keep its locks for ever. So calls of the main thread,
which alone runs handlers, are made by another one. After an interrupt, and before a fork, the channel is closed; whoever else
had a call under way is told that the server is UNAVAILABLE, and the next call opens another channel.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import Any, Callable, Generator, Optional

import grpc

from .. import _side_effects
from . import outside
from .access import Channel

# Before a fork, answers that are under way get so long to come.
_ANSWER_SECONDS = 1.0
_END = object()
_LIGHT = "/gluond.v1.ServerService/GetServerInfo"


class Interrupted(grpc.RpcError):
    """The channel of a call was closed: another attempt may do better."""

    def code(self) -> grpc.StatusCode:
        """As grpc.Call's."""
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        """As grpc.Call's."""
        return "its connection was closed, by an interrupt or a fork"

    def trailing_metadata(self) -> Any:
        """As grpc.Call's."""
        return ()


class Calls:
    """The channel of these calls, and the calls under way. Thread-safe."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._lock = threading.Lock()
        self._channel: Optional[Channel] = None
        self._answers = self._streams = 0  # Under way.
        self._closing = 0

    def unary_unary(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""

        def call(request: Any, timeout: Optional[float] = None) -> Any:
            return self._apart(lambda: self._use(lambda channel: channel.unary_unary(*method)(request, timeout=timeout)))

        return call

    def unary_stream(self, *method: Any) -> Callable[[Any], Generator[Any, None, None]]:
        """As grpc.Channel's. Closing the iterator, or an error in who uses it, ends the call."""

        def call(request: Any) -> Generator[Any, None, None]:
            messages: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
            threading.Thread(target=self._listen, args=(method, request, messages), name="gluond-calls", daemon=True).start()
            is_over = False
            try:
                while True:
                    message, error = messages.get()
                    if error is not None or message is _END:
                        is_over = True
                        if error is not None:
                            raise error
                        return
                    yield message
            finally:
                if not is_over:
                    self.close()

        return call

    def sleep(self, seconds: float) -> None:
        """Waits while the channel connects anew: gRPC goes on with that only while somebody waits for it, and else looks every
        5 seconds."""

        def wait(channel: Channel) -> None:
            with contextlib.suppress(grpc.RpcError, ValueError):
                channel.unary_unary(_LIGHT)(b"", timeout=seconds, wait_for_ready=True)

        end = time.monotonic() + seconds
        self._apart(lambda: self._use(wait, is_stream=True))
        time.sleep(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Ends all calls, and the channel; the next call opens another one."""
        with self._lock:
            channel, self._channel = self._channel, None
            self._closing += channel is not None
        if channel is not None:
            threading.Thread(target=self._close, args=(channel,), name="gluond-close", daemon=True).start()

    def _close(self, channel: Channel) -> None:
        channel.close()
        with self._lock:
            self._closing -= 1
            if self._channel is None and not self._closing:
                outside.part(self)

    def _apart(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, which the main thread has another one do."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        results: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        _thread_for(lambda: _put_result(results, work))
        try:
            result, error = results.get()
        except BaseException:
            self.close()
            raise
        if error is not None:
            raise error
        return result

    def _use(self, work: Callable[[Channel], Any], is_stream: bool = False) -> Any:
        """The result of work(channel). Not in the main thread."""
        channel = self._enter(is_stream)
        try:
            return work(channel)
        except (grpc.RpcError, ValueError):
            if channel is not self._channel:
                raise Interrupted() from None
            raise
        finally:
            with self._lock:
                self._streams -= is_stream
                self._answers -= not is_stream

    def _enter(self, is_stream: bool) -> Channel:
        while True:
            outside.wait()
            with self._lock:
                if not outside.is_due():
                    if self._channel is None:
                        self._channel = self._new_channel()
                        outside.join(self)
                    self._streams += is_stream
                    self._answers += not is_stream
                    return self._channel

    def _listen(self, method: Any, request: Any, messages: "queue.SimpleQueue[Any]") -> None:
        def pass_on(channel: Channel) -> Any:
            for message in channel.unary_stream(*method)(request):
                messages.put((message, None))
            return _END

        _put_result(messages, lambda: self._use(pass_on, is_stream=True))

    def leave(self) -> None:
        """Before a fork."""
        end = time.monotonic() + _ANSWER_SECONDS
        while self._answers and time.monotonic() < end:
            time.sleep(0.001)
        self.close()
        end = time.monotonic() + _ANSWER_SECONDS
        while (self._answers or self._streams or self._closing) and time.monotonic() < end:
            time.sleep(0.001)

    def abandon(self) -> None:
        """After a fork, in the child: the next call opens a channel of its own."""
        self._lock = threading.Lock()
        self._channel = None
        self._answers = self._streams = self._closing = 0


def _put_result(results: "queue.SimpleQueue[Any]", work: Callable[[], Any]) -> None:
    try:
        results.put((work(), None))
    except BaseException as error:  # pylint: disable=broad-except  # For the thread that asked.
        results.put((None, error))


_idle: "queue.SimpleQueue[queue.SimpleQueue[Any]]" = queue.SimpleQueue()  # Threads that wait for work of the main thread.


def _thread_for(work: Callable[[], None]) -> None:
    """Has a thread do this."""
    try:
        jobs = _idle.get(block=False)
    except queue.Empty:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="gluond-calls", daemon=True).start()
    jobs.put(work)


def _work(jobs: "queue.SimpleQueue[Any]") -> None:
    while True:
        jobs.get()()
        _idle.put(jobs)


@_side_effects.in_child
def _after_fork() -> None:
    global _idle
    _idle = queue.SimpleQueue()
