"""Unary calls of the server that a session belongs to: deadlines, retries, and sequence numbers.

    caller = calls.current()
    caller.call(GET_MODEL, model_pb2.GetModelRequest(model="digits"))           # Changes no model.
    caller.apply(TRAIN_STEP, training_pb2.TrainStepRequest(model="digits"))     # Changes one, exactly once.

A call is sent again while the server is away and RETRY_SECONDS last. One that changes a model carries the same number
each time, so that the server applies it once however often it comes.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator

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
    """A call that the server has refused, or not answered. `code`: grpc.StatusCode; `reason`: as errors.reason_of()."""

    def __init__(self, text: str, code: Any, reason: str = "") -> None:
        super().__init__(text)
        self.code, self.reason = code, reason

    @property
    def may_be_back(self) -> bool:
        """Whether the server cannot be reached, or stops or starts: another attempt may find it."""
        return self.code is _STATUS.UNAVAILABLE and self.reason in ("", "DRAINING", "LOADING")


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

    def call(self, method: Method, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        """The answer of a method that changes no model."""
        return self._run(method, request, time.monotonic() + timeout, lambda: None)

    def pages(self, method: Method, request: Any) -> Iterator[Any]:
        """The answers of a method that lists, page after page. Sets page_size and page_token."""
        request.page_size = PAGE_SIZE
        while True:
            answer = self.call(method, request)
            yield answer
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    def apply(self, method: Method, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        """The answer of a method that changes `request.model`, which it does once. Sets client_id and sequence.

        A call that an interrupt cuts short may have been applied or not: the next one asks the server.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            line = self._lines.setdefault(request.model, _Line())
        with line.lock:
            was_in_doubt = line.in_doubt
            if was_in_doubt:
                line.next = self._last_applied(request.model, deadline) + 1
            try:
                return self._apply(method, request, deadline, line)
            except CallError as error:
                if not was_in_doubt or error.reason != "SEQUENCE_REUSED":
                    raise
                last = self._last_applied(request.model, deadline)
                if last < line.next:
                    raise
                # The call that was cut short ended only now, under the same number, for which this one was refused.
                line.next = last + 1
                return self._apply(method, request, deadline, line)

    def _apply(self, method: Method, request: Any, deadline: float, line: _Line) -> Any:
        """Calls under the line's next number. Holding the line's lock."""
        request.call.client_id, request.call.sequence = self.client_id, line.next
        line.in_doubt = True
        try:
            answer = self._run(method, request, deadline, lambda: self._check_not_forgotten(request.model, deadline, line))
        except CallError as error:
            if error.reason in ("SEQUENCE_GAP", "REWOUND"):  # The server may have lost this client's calls.
                self._check_not_forgotten(request.model, deadline, line)
            raise
        line.next += 1
        line.in_doubt = False
        return answer

    def _run(self, method: Method, request: Any, deadline: float, resume: Callable[[], None]) -> Any:
        """Calls, and while the call ends UNAVAILABLE and time is left, `resume` and calls again."""
        give_up = min(deadline, time.monotonic() + RETRY_SECONDS)
        pause = _FIRST_PAUSE
        while True:
            try:
                send = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
                return send(request, timeout=max(deadline - time.monotonic(), 0.001))
            except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed.
                refused = self._error(method, error)
            except BaseException:
                self._renew_channel()
                raise
            # Clients that were cut off together do not come back together.
            wait = pause * random.uniform(0.5, 1.0)
            if not refused.may_be_back or time.monotonic() + wait >= give_up or self._is_gone():
                raise refused
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                resume()
            except CallError as error:
                if not error.may_be_back:
                    raise

    def _renew_channel(self) -> None:
        """After an interrupt, which may have come while grpcio held a lock of the channel, and never releases it."""
        session = self._session()
        if session is not None:
            self._channel = session.new_channel()

    def _error(self, method: Method, error: Exception) -> CallError:
        if not isinstance(error, grpc.RpcError):
            return CallError(f"{method.name}: {error}", _STATUS.CANCELLED)
        code, details, reason = error.code(), error.details(), errors.reason_of(error)
        if code is _STATUS.UNAVAILABLE and not reason:
            return CallError(f"{method.name}: no answer from {self.address}: {details}. Is the server running there? "
                             "`gluond serve` starts one.", code)
        if code is _STATUS.UNIMPLEMENTED:
            return CallError(f"{method.name}: the server at {self.address} does not know this call: it is older than this "
                             f"client, or no gluond-server. ({details})", code)
        return CallError(details if details.startswith(method.name) else f"{method.name}: {details}", code, reason)

    def _is_gone(self) -> bool:
        session = self._session()
        return session is not None and session.local is not None and session.local.exit_code() is not None

    def _last_applied(self, model: str, deadline: float) -> int:
        return self._ask_sequence(model, deadline).last

    def _ask_sequence(self, model: str, deadline: float) -> Any:
        asked = methods.GET_SEQUENCE.request(client_id=self.client_id, model=model)
        return self._run(methods.GET_SEQUENCE, asked, deadline, lambda: None)

    def _check_not_forgotten(self, model: str, deadline: float, line: _Line) -> None:
        """CallError (ABORTED): the server lacks calls that it has answered."""
        place = self._ask_sequence(model, deadline)
        if line.next - 1 <= place.last <= line.next:
            return
        expected, line.next = line.next - 1, place.last + 1
        raise CallError(f"model '{model}': {self.address} was started anew and knows of {place.last} calls by this client, "
                        f"expected {expected}; the model's trainer has taken {place.step} steps: go on with step "
                        f"{place.step + 1}. Load a checkpoint or define the model again where it is not as you need it.",
                        _STATUS.ABORTED, "REWOUND")


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
