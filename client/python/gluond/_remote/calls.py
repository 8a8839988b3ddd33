"""Unary calls of the server that a session belongs to: deadlines, retries, and sequence numbers.

    caller = calls.current()
    caller.call(GET_MODEL, model_pb2.GetModelRequest(model="digits"))           # Changes no model.
    caller.apply(TRAIN_STEP, training_pb2.TrainStepRequest(model="digits"))     # Changes one, exactly once.

A call is sent again while the server is away, or asks for patience, and RETRY_SECONDS last. One that changes a model
carries the same number each time, so that the server applies it once however often it comes.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

import grpc

from .._wire import at_fork, connect, errors
from .._wire.session import Session
from ..base import MXNetError
from . import methods
from .methods import Method

# The deadline of a call, retries included.
TIMEOUT_SECONDS = 300.0
RETRY_SECONDS = 10.0
PAGE_SIZE = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_STATUS = grpc.StatusCode


class CallError(MXNetError):
    """A call that the server has refused, or not answered. code: grpc.StatusCode. reason, metadata: of the ErrorInfo
    (docs/wire.md); empty where there is none. retry_after: the seconds after which the server asks for another attempt; 0:
    it does not."""

    def __init__(self, text: str, code: Any, reason: str = "", metadata: Optional[Mapping[str, str]] = None,
                 retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.code, self.reason, self.metadata, self.retry_after = code, reason, dict(metadata or {}), retry_after

    @property
    def may_be_back(self) -> bool:
        """Whether another attempt may do better: the server cannot be reached, stops or starts, or says so."""
        return self.retry_after > 0 or self.code is _STATUS.UNAVAILABLE and self.reason in ("", "DRAINING", "LOADING")


class _Within(NamedTuple):
    """The time of a call. deadline: by time.monotonic(). patience: seconds from the first attempt to the last."""

    deadline: float
    patience: float

    @classmethod
    def of(cls, timeout: float, patience: Optional[float]) -> "_Within":
        return cls(time.monotonic() + timeout, RETRY_SECONDS if patience is None else patience)


class _Line:
    """The calls of this client that change one model: one at a time, in the order of their beginning."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1
        self.in_doubt = False  # Whether the server alone knows `next`.


class Caller:
    """The calls over one session's channel. Thread-safe. `client_id`: its name for sequence numbers and uploads."""

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._channel = session.channel
        self.address = session.address
        self.client_id = f"python-{secrets.token_hex(16)}"
        self._lock = threading.Lock()
        self._lines: Dict[str, _Line] = {}
        self._limits: Any = None

    @property
    def limits(self) -> Any:
        """The server's limits (Limits of server.proto); asked for once."""
        if self._limits is None:
            self._limits = self.call(methods.GET_SERVER_INFO, methods.GET_SERVER_INFO.request()).limits
        return self._limits

    def call(self, method: Method, request: Any, timeout: float = TIMEOUT_SECONDS,
             patience: Optional[float] = None) -> Any:
        """The answer of a method that changes no model. patience: instead of RETRY_SECONDS."""
        return self._run(method, request, _Within.of(timeout, patience), lambda: None)

    def delete(self, method: Method, request: Any) -> None:
        """Calls a method that deletes, and has no numbers. A repetition that finds nothing tells that an earlier attempt
        has deleted it, and only its answer was lost."""
        attempts = [1]
        try:
            self._run(method, request, _Within.of(TIMEOUT_SECONDS, None), lambda: attempts.append(1))
        except CallError as error:
            if len(attempts) == 1 or error.code is not _STATUS.NOT_FOUND:
                raise

    def pages(self, method: Method, request: Any) -> Iterator[Any]:
        """The answers of a method that lists, page after page. Sets page_size and page_token."""
        request.page_size = PAGE_SIZE
        while True:
            answer = self.call(method, request)
            yield answer
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    def apply(self, method: Method, request: Any, timeout: float = TIMEOUT_SECONDS,
              patience: Optional[float] = None) -> Any:
        """The answer of a method that changes `request.model`, which it does once. Sets client_id and sequence.

        A call that an interrupt cuts short may have been applied or not: the next one asks the server. CallError with the
        reason REWOUND: the server was started anew, without the last calls on the model, whichever they were.
        """
        within = _Within.of(timeout, patience)
        line = self._line(request.model)
        with line.lock:
            was_in_doubt = line.in_doubt
            if was_in_doubt:
                line.next = self._check_not_forgotten(request.model, within, line).last + 1
            try:
                return self._apply(method, request, within, line)
            except CallError as error:
                if not was_in_doubt or error.reason != "SEQUENCE_REUSED":
                    raise
                last = self._place(request.model, within).last
                if last < line.next:
                    raise
                # The call that was cut short ended only now, under the same number, for which this one was refused.
                line.next = last + 1
                return self._apply(method, request, within, line)

    def check(self, model: str, patience: Optional[float] = None) -> Any:
        """The GetSequenceResponse for this client. CallError as apply()'s: the server has lost calls."""
        line = self._line(model)
        with line.lock:
            return self._check_not_forgotten(model, _Within.of(TIMEOUT_SECONDS, patience), line)

    def _line(self, model: str) -> _Line:
        with self._lock:
            return self._lines.setdefault(model, _Line())

    def _apply(self, method: Method, request: Any, within: _Within, line: _Line) -> Any:
        """Calls under the line's next number. Holding the line's lock."""
        request.call.client_id, request.call.sequence = self.client_id, line.next
        line.in_doubt = True
        try:
            answer = self._run(method, request, within, lambda: self._check_not_forgotten(request.model, within, line))
        except CallError as error:
            if error.reason == "ANSWER_FORGOTTEN":  # The server has applied it.
                line.next += 1
                line.in_doubt = False
            elif error.reason in ("SEQUENCE_GAP", "REWOUND"):  # The server may have lost this client's calls.
                self._check_not_forgotten(request.model, within, line)
            raise
        line.next += 1
        line.in_doubt = False
        return answer

    def _run(self, method: Method, request: Any, within: _Within, resume: Callable[[], Any]) -> Any:
        """Calls, and while another attempt may do better and time is left, `resume` and calls again."""
        give_up = min(within.deadline, time.monotonic() + within.patience)
        pause = _FIRST_PAUSE
        while True:
            try:
                send = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
                return send(request, timeout=max(within.deadline - time.monotonic(), 0.001))
            except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed.
                refused = self._error(method, error)
            except BaseException:
                self._renew_channel()
                raise
            # Clients that were cut off together do not come back together.
            spread = random.uniform(0.5, 1.0)
            wait = max(pause * spread, refused.retry_after + _FIRST_PAUSE * spread)
            if not refused.may_be_back or time.monotonic() + wait >= give_up or self._is_gone():
                raise refused
            try:
                self._pause(wait)
            except BaseException:
                self._renew_channel()
                raise
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                resume()
            except CallError as error:
                if not error.may_be_back:
                    raise

    def _pause(self, seconds: float) -> None:
        """Sleeps while the channel connects anew: gRPC goes on with that only while somebody waits for it, and else looks
        every 5 seconds."""
        def ignore(_: Any) -> None:
            pass

        self._channel.subscribe(ignore, try_to_connect=True)
        try:
            time.sleep(seconds)
        finally:
            self._channel.unsubscribe(ignore)

    def _renew_channel(self) -> None:
        """After an interrupt, which may have come while grpcio held a lock of the channel, and never releases it."""
        session = self._session()
        if session is not None:
            self._channel = session.new_channel()

    def _error(self, method: Method, error: Exception) -> CallError:
        if not isinstance(error, grpc.RpcError):
            return CallError(f"{method.name}: {error}", _STATUS.CANCELLED)
        code, details, facts = error.code(), error.details(), errors.details_of_call(error)
        info, retry = facts.get("ErrorInfo"), facts.get("RetryInfo")
        reason = info.reason if info is not None else ""
        if code is _STATUS.UNAVAILABLE and not reason:
            return CallError(f"{method.name}: no answer from {self.address}: {details}. Is the server running there? "
                             "`gluond serve` starts one.", code)
        if code is _STATUS.UNIMPLEMENTED:
            return CallError(f"{method.name}: the server at {self.address} does not know this call: it is older than this "
                             f"client, or no gluond-server. ({details})", code)
        return CallError(details if details.startswith(method.name) else f"{method.name}: {details}", code, reason,
                         info.metadata if info is not None else None,
                         retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9 if retry is not None else 0.0)

    def _is_gone(self) -> bool:
        session = self._session()
        return session is not None and session.local is not None and session.local.exit_code() is not None

    def _place(self, model: str, within: _Within) -> Any:
        asked = methods.GET_SEQUENCE.request(client_id=self.client_id, model=model)
        return self._run(methods.GET_SEQUENCE, asked, within, lambda: None)

    def _check_not_forgotten(self, model: str, within: _Within, line: _Line) -> Any:
        """The server's GetSequenceResponse. CallError (ABORTED): it lacks calls that it has answered."""
        place = self._place(model, within)
        if line.next - 1 <= place.last <= line.next:
            return place
        expected, line.next = line.next - 1, place.last + 1
        raise CallError(f"model '{model}': {self.address} was started anew and knows of {place.last} calls by this client, "
                        f"expected {expected}; the model's trainer has taken {place.step} steps: go on with step "
                        f"{place.step + 1}. Load a checkpoint or define the model again where it is not as you need it.",
                        _STATUS.ABORTED, "REWOUND",
                        {"last": str(place.last), "expected": str(expected), "step": str(place.step)})


_lock = threading.Lock()
_callers: "weakref.WeakKeyDictionary[Session, Caller]" = weakref.WeakKeyDictionary()


def of(session: Session) -> Caller:
    """The calls that go the way of this session."""
    with _lock:
        caller = _callers.get(session)
        if caller is None:
            caller = _callers[session] = Caller(session)
        return caller


def current() -> Caller:
    """The calls that go the way of the session that new arrays belong to."""
    return of(connect.current())


@at_fork.in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
