"""The stream over which the server calls this process: OperatorService.HostOperators.

Each server has one stream, opened at the first need and again when it breaks, each time with all offers. Many calls may
be under way, each in a thread of its own (pool.py has the limits): an operator's code may wait for values, and for other
custom operators.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import grpc

from .._proto import custom_operator_pb2 as pb
from .._wire.credential import scope_of
from .._wire import connect, operator_errors
from .._wire.waiter import client_id
from .._wire.wire import Wire
from ..base import MXNetError
from .outgoing import Outgoing
from .pool import Pool

METHOD = "/gluond.v1.OperatorService/HostOperators"
# How long an offer waits for the stream, and for the server's confirmation.
OPEN_SECONDS = 30.0
# A name that is another client's is asked for so long, so often: that client may have just ended, unnoticed as yet.
CLAIM_SECONDS, CLAIM_PAUSE_SECONDS = 5.0, 0.2
# Answers that wait until the server reads: a thread that has more to say waits, too.
MOST_OUTGOING_BYTES = 64 << 20
WATCH_SECONDS = 0.5
# A call that takes longer has its successor received by the thread of the Wire, not by its own.
LEAD_PAUSE_SECONDS = 0.001
# A thread without a call leads for so long.
IDLE_LEAD_SECONDS = 10.0
# A fork waits so long for calls that are under way.
SETTLE_SECONDS = 2.0

_FATAL = {
    grpc.StatusCode.UNIMPLEMENTED.value[0],
    grpc.StatusCode.INVALID_ARGUMENT.value[0],
    grpc.StatusCode.PERMISSION_DENIED.value[0],
    grpc.StatusCode.UNAUTHENTICATED.value[0],
}


class Host:
    """See above. Thread-safe. key: see scope_of. answer(call, find_session): the HostRequest that answers a call,
    computed with arrays of the session. release: forgets functions that no backward pass can reach any more."""

    def __init__(
        self, session: Any, key: str, answer: Callable[[Any, Callable[[], Any]], bytes], release: Callable[[Sequence[int]], None]
    ) -> None:
        self.scope = scope_of(key)
        self._key = key
        self._compute = answer
        self._release = release
        self.address = session.address
        self._sessions: "weakref.WeakSet[Any]" = weakref.WeakSet([session])
        self._most_bytes = session.max_tensor_bytes
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._offered: Dict[str, bool] = {}  # By name: whether it is shared.
        self._known: Set[str] = set()  # The offers that the server has confirmed.
        self._refused: Dict[str, str] = {}  # Why it has not.
        self._asked: Set[str] = set()  # The names whose offer somebody waits for.
        self._running: Set[int] = set()
        self._pool = Pool(self._answer, self._refuse, self._lead)
        self._is_open = False
        self._settles = False  # From settle() to the next stream.
        self._pause = 0.1
        self._problem = ""
        self._ended = False
        self._wire = Wire(session.new_stream, METHOD, self)
        self._outgoing = Outgoing(self._wire.cut)
        self._wire.start()
        threading.Thread(target=self._watch, name="gluond-custom-watch", daemon=True).start()

    # The interface.

    @property
    def is_open(self) -> bool:
        """Whether the server can call."""
        return self._is_open

    @property
    def has_ended(self) -> bool:
        """Whether the server can never call again."""
        return self._ended

    def add_session(self, session: Any) -> None:
        """Another session with this server."""
        self._sessions.add(session)

    def session(self) -> Any:
        """The session of operators' arrays."""
        current = connect.current()
        return current if current.address == self.address else next(iter(self._sessions), current)

    def offer(self, op_types: Dict[str, bool]) -> None:
        """Returns when the server knows that this process computes these (name: whether it is shared)."""
        if self._is_open and all(name in self._known and self._offered.get(name) == shared for name, shared in op_types.items()):
            return
        end = time.monotonic() + CLAIM_SECONDS
        while not self._try_offer(op_types, time.monotonic() >= end):
            time.sleep(CLAIM_PAUSE_SECONDS)

    def _try_offer(self, op_types: Dict[str, bool], is_last: bool) -> bool:
        """Whether the server takes the offers; is_last: MXNetError where it does not."""
        with self._lock:
            self._asked.update(op_types)
            for name, shared in op_types.items():
                if self._offered.get(name) != shared:
                    self._offered[name] = shared
                    self._known.discard(name)
                    self._refused.pop(name, None)
                    self._outgoing.write(_offer(name, shared))
            self._wire.wake()
            self._wait_until(
                lambda: self._is_open and all(name in self._known or name in self._refused for name in op_types), OPEN_SECONDS
            )
            self._asked.difference_update(op_types)
            refused = [name for name in op_types if name in self._refused]
            for name in refused:
                self._offered.pop(name, None)
            if self._is_open and self._known.issuperset(op_types):
                return True
            if refused and not is_last:
                return False
            raise MXNetError(
                f"The server at {self.address} cannot be offered custom operators: "
                + (self._refused[refused[0]] if refused else self._problem or "it does not answer")
            )

    def renew(self, name: str, shared: bool) -> None:
        """Offers a replaced operator again: the server forgets the shapes that it was told."""
        with self._lock:
            if name in self._offered and self._outgoing.is_on:
                if self._offered[name] and not shared:
                    self._outgoing.write(pb.HostRequest(release=pb.ReleaseOperator(op_type=name)).SerializeToString())
                self._offered[name] = shared
                self._outgoing.write(_offer(name, shared))
                self._wire.wake()

    def _wait_until(self, is_true: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not is_true() and not self._ended and time.monotonic() < end:
            self._changed.wait(end - time.monotonic())
        return is_true()

    # Calls.

    def _answer(self, call: Any) -> None:
        if call.call not in self._running:  # It has been cancelled while it waited.
            return
        message = self._compute(call, self.session)
        if len(message) > self._most_bytes:
            message = failure(
                call.call,
                MXNetError(
                    f"the values that it computed have {len(message)} bytes, more than the {self._most_bytes} that the server "
                    "takes in one message (--max_message_bytes)"
                ),
            )
        with self._lock:
            while call.call in self._running and self._outgoing.waiting_bytes > MOST_OUTGOING_BYTES:
                self._changed.wait()
            if call.call in self._running:  # Else nobody waits for it any more.
                self._running.discard(call.call)
                self._outgoing.write(message)
        self._wire.send()

    def _lead(self) -> bool:
        return self._wire.lead(IDLE_LEAD_SECONDS)

    def _refuse(self, call: Any, why: str) -> None:
        message = failure(call.call, MXNetError(why))
        with self._lock:
            if call.call in self._running:
                self._running.discard(call.call)
                self._outgoing.write(message)
        self._wire.send()

    # Messages, called by the threads of the Wire.

    def hello(self) -> bytes:
        """Begins a stream, and repeats the offers."""
        with self._lock:
            self._settles = False
            self._outgoing.begin()
            self._known.clear()
            for name, shared in self._offered.items():
                self._outgoing.write(_offer(name, shared))
        return pb.HostRequest(open=pb.OpenHost(scope=self.scope, key=self._key, client_id=client_id())).SerializeToString()

    def say(self, write: Callable[[bytes], bool], alive: bool) -> None:
        """Sends offers and answers."""
        with self._lock:
            if self._outgoing.send(write):
                self._changed.notify_all()
            elif alive:
                write(b"")

    def pause(self) -> float:
        """A thread that has ended its call leads."""
        return LEAD_PAUSE_SECONDS

    def message(self, data: bytes) -> None:
        """Calls, and words about offers."""
        self._pool.take(self._receive(pb.HostResponse.FromString(data)))

    def _receive(self, response: Any) -> List[Any]:
        calls = list(response.callbacks)
        with self._lock:
            if response.HasField("opened"):
                self._is_open = True
                self._pause = 0.1
                self._wire.beat_seconds = max(1.0, response.opened.lease.ToTimedelta().total_seconds()) / 3
            self._running.update(call.call for call in calls)
            self._running.difference_update(response.cancelled)
            self._known.update(response.offered)
            for refused in response.refused:
                self._refused[refused.op_type] = refused.reason
            unexpected = [refused for refused in response.refused if refused.op_type not in self._asked]
            self._changed.notify_all()
            is_ready = self._is_open and not self._settles and not self._offered.keys() - self._known - self._refused.keys()
        if is_ready:
            self._go_on()
        if response.released:
            self._release(response.released)
        for refused in unexpected:
            print(f"gluond: {refused.reason}", file=sys.stderr)
        for name in response.taken_over:
            print(f"gluond: another client computes the shared operator '{name}' from now on", file=sys.stderr)
        return calls

    def closed(self, code: int, details: str) -> Optional[float]:
        """Has another stream opened, unless the server can never call again."""
        with self._lock:
            self._outgoing.end()
            self._is_open = False
            self._running.clear()
            self._problem = details
            if code in _FATAL or not any(session.is_open for session in self._sessions):
                self._ended = True
            self._changed.notify_all()
        if self._ended:
            self._go_on()
        pause, self._pause = self._pause, min(2 * self._pause, 2.0)
        return None if self._ended else pause

    def _watch(self) -> None:
        while not self._ended:
            self._pool.refuse_if_stalled()
            time.sleep(WATCH_SECONDS)

    def abandon(self) -> None:
        """After a fork, in the child: the stream is the parent's."""
        self._ended = True

    def end(self) -> None:
        """Ends the stream: graphs that need this process fail from now on."""
        with self._lock:
            self._ended = True
            self._outgoing.end()
            self._running.clear()
            self._changed.notify_all()
        self._wire.end()

    def settle(self) -> None:
        """Before a fork, which ends the stream: returns when no call of this program's is under way. There will be none until the
        server knows the offers again."""
        self._settles = True
        for session in list(self._sessions):
            session.settle(SETTLE_SECONDS)

    def _go_on(self) -> None:
        for session in list(self._sessions):
            session.go_on()


def _offer(name: str, shared: bool) -> bytes:
    return pb.HostRequest(offer=pb.OfferOperator(op_type=name, shared=shared)).SerializeToString()


def failure(call: int, error: BaseException, seconds: float = 0.0) -> bytes:
    """HostRequest that says why there is no answer."""
    original, where = operator_errors.origin(error)
    told = {"type": type(original).__name__, "message": f"{original}{where}", "traceback": operator_errors.own_traceback(error)}
    return pb.HostRequest(result=pb.CallbackResult(call=call, failure=told, seconds=seconds)).SerializeToString()
