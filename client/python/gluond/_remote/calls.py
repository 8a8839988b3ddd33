"""Unary calls of the server that a session belongs to: deadlines, retries, and sequence numbers.

    client = calls.current()
    client.call(GET_MODEL, model_pb2.GetModelRequest(model="digits"))           # Changes no model.
    client.apply(TRAIN_STEP, training_pb2.TrainStepRequest(model="digits"))     # Changes one, exactly once.

A call is sent again while the server is away, or asks for patience, and RETRY_SECONDS last. One that changes a model
carries the same number each time, so that the server applies it once however often it comes.
"""

from __future__ import annotations

import contextlib
import math
import random
import secrets
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

import grpc

from .. import _side_effects
from .._wire import connect, errors
from .._wire.session import Session
from ..base import MXNetError
from . import methods
from .methods import Method

# The deadline of a call, retries included.
TIMEOUT_SECONDS = 300.0
RETRY_SECONDS = 10.0
PAGE_SIZE = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# A wait that lasts longer is told.
_SILENT_SECONDS = 3.0
_STATUS = grpc.StatusCode
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class CallError(MXNetError):
    """A call that the server has refused, or not answered. code: grpc.StatusCode. reason, metadata: of the ErrorInfo
    (docs/wire.md); empty where there is none. retry_after: the seconds after which the server asks for another attempt; 0:
    it does not."""

    def __init__(
        self, text: str, code: Any, reason: str = "", metadata: Optional[Mapping[str, str]] = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(text)
        self.code, self.reason, self.metadata, self.retry_after = code, reason, dict(metadata or {}), retry_after

    @property
    def may_be_back(self) -> bool:
        """Whether another attempt may do better: the server cannot be reached, stops or starts, or says so."""
        return self.retry_after > 0 or self.code is _STATUS.UNAVAILABLE and self.reason in ("", "DRAINING", "LOADING")


def error_of(text: str, status: Any) -> CallError:
    """The error that a google.rpc.Status in an answer tells of."""
    return _told(text, _CODES.get(status.code, _STATUS.UNKNOWN), errors.details_of(status))


def _told(text: str, code: Any, facts: Mapping[str, Any]) -> CallError:
    info, retry = facts.get("ErrorInfo"), facts.get("RetryInfo")
    return CallError(
        text,
        code,
        info.reason if info is not None else "",
        info.metadata if info is not None else None,
        retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9 if retry is not None else 0.0,
    )


class _Wait:
    """The time of a call, with all that has to be asked for it. It ends `timeout` seconds after it has begun, or after `patience`
    seconds in which the server could not be reached; one that lasts is told."""

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS, patience: Optional[float] = None) -> None:
        self._address = address
        self._deadline = time.monotonic() + timeout
        self._patience = RETRY_SECONDS if patience is None else patience
        self._is_told = False
        self._begin()

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._end = min(self._deadline, self._begun + self._patience)

    def timeout(self) -> float:
        """The deadline of one attempt, in seconds."""
        return min(max(self._deadline - time.monotonic(), 0.001), TIMEOUT_SECONDS)

    def heard(self, hear: Callable[[Any], None]) -> Callable[[Any], None]:
        """`hear` for messages that come: each begins the wait for the server anew."""

        def begin_and_hear(message: Any) -> None:
            self._begin()
            hear(message)

        return begin_and_hear

    def is_over_in(self, seconds: float) -> bool:
        """Whether it ends before these have passed."""
        now = time.monotonic()
        if now + seconds >= self._end:
            return True
        if not self._is_told and now + seconds - self._begun > _SILENT_SECONDS:
            self._is_told = True
            sys.stderr.write(f"gluond: no answer from {self._address}; waiting for it for up to {self._end - now:.0f} s more\n")
        return False


class _Sequence:
    """The calls of this client that change one model: one at a time, in the order of their beginning."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1
        self.in_doubt = False  # Whether the server alone knows `next`.
        self.in_part = 0  # The call of which, as was told, a crash has left the first steps alone.


class Client:
    """The calls over one session's channel. Thread-safe. `client_id`: its name for sequence numbers and uploads."""

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._channel = session.channel
        self.address = session.address
        self.client_id = f"python-{secrets.token_hex(16)}"
        self._lock = threading.Lock()
        self._sequences: Dict[str, _Sequence] = {}
        self._limits: Any = None

    @property
    def limits(self) -> Any:
        """The server's limits (Limits of server.proto); asked for once."""
        if self._limits is None:
            self._limits = self.call(methods.GET_SERVER_INFO, methods.GET_SERVER_INFO.request()).limits
        return self._limits

    def call(self, method: Method, request: Any, timeout: float = TIMEOUT_SECONDS, patience: Optional[float] = None) -> Any:
        """The answer of a method that changes no model. patience: instead of RETRY_SECONDS."""
        return self._run(method, request, self._wait(timeout, patience), lambda: None)

    def delete(self, method: Method, request: Any, patience: Optional[float] = None) -> None:
        """Calls a method that deletes, and has no numbers. A repetition that finds nothing tells that an earlier attempt
        has deleted it, and only its answer was lost."""
        attempts = [1]
        try:
            self._run(method, request, self._wait(patience=patience), lambda: attempts.append(1))
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

    def apply(
        self,
        method: Method,
        request: Any,
        timeout: float = TIMEOUT_SECONDS,
        patience: Optional[float] = None,
        hear: Optional[Callable[[Any], None]] = None,
    ) -> Any:
        """The answer of a method that changes `request.model`, which it does once. Sets client_id and sequence.

        A call that an interrupt cuts short may have been applied or not: the next one asks the server. CallError with the
        reason REWOUND: the server was started anew, without the last calls on the model, whichever they were.
        """
        wait = self._wait(timeout, patience)
        sequence = self._sequence(request.model)
        with sequence.lock:
            was_in_doubt = sequence.in_doubt
            if was_in_doubt:
                sequence.next = self._check_not_forgotten(request.model, wait, sequence).last + 1
            try:
                return self._apply(method, request, wait, sequence, hear)
            except CallError as error:
                if not was_in_doubt or error.reason != "SEQUENCE_REUSED":
                    raise
                last = self._place(request.model, wait).last
                if last < sequence.next:
                    raise
                # The call that was cut short ended only now, under the same number, for which this one was refused.
                sequence.next = last + 1
                return self._apply(method, request, wait, sequence, hear)

    def listen(self, method: Method, request: Any, hear: Callable[[Any], None], patience: float) -> Any:
        """apply() for a method whose answer is a stream, of which `hear` gets each message; the last message. The call may
        take any time; `patience` is for a server that cannot be reached, from the last message on."""
        return self.apply(method, request, math.inf, patience, hear)

    def accept(self, model: str, patience: float) -> Any:
        """The GetSequenceResponse for this client, whose next call goes on from there whatever the server has lost."""
        sequence = self._sequence(model)
        with sequence.lock:
            place = self._place(model, self._wait(patience=patience))
            sequence.next, sequence.in_doubt = place.last + 1, False
            return place

    def check(self, model: str, patience: Optional[float] = None) -> Any:
        """The GetSequenceResponse for this client. CallError as apply()'s: the server has lost calls."""
        sequence = self._sequence(model)
        with sequence.lock:
            return self._check_not_forgotten(model, self._wait(patience=patience), sequence)

    def _wait(self, timeout: float = TIMEOUT_SECONDS, patience: Optional[float] = None) -> _Wait:
        return _Wait(self.address, timeout, patience)

    def _sequence(self, model: str) -> _Sequence:
        with self._lock:
            return self._sequences.setdefault(model, _Sequence())

    def _apply(self, method: Method, request: Any, wait: _Wait, sequence: _Sequence, hear: Optional[Callable[[Any], None]]) -> Any:
        """Calls under the sequence's next number. Holding the sequence's lock."""
        request.call.client_id, request.call.sequence = self.client_id, sequence.next
        sequence.in_doubt = True
        try:
            answer = self._run(method, request, wait, lambda: self._check_not_forgotten(request.model, wait, sequence), hear)
        except CallError as error:
            if error.reason == "ANSWER_FORGOTTEN":  # The server has applied it.
                sequence.next += 1
                sequence.in_doubt = False
            elif error.reason in ("SEQUENCE_GAP", "REWOUND"):  # The server may have lost this client's calls, or a part of one.
                self._check_not_forgotten(request.model, wait, sequence)
            raise
        sequence.next += 1
        sequence.in_doubt = False
        return answer

    def _run(
        self, method: Method, request: Any, wait: _Wait, resume: Callable[[], Any], hear: Optional[Callable[[Any], None]] = None
    ) -> Any:
        """Calls, and while another attempt may do better and time is left, `resume` and calls again. hear: of a stream."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if hear is None:
                    send = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
                    return send(request, timeout=wait.timeout())
                return self._listen(method, request, wait.heard(hear))
            except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed.
                refused = self._error(method, error)
            # Clients that were cut off together do not come back together.
            spread = random.uniform(0.5, 1.0)
            seconds = max(pause * spread, refused.retry_after + _FIRST_PAUSE * spread)
            if not refused.may_be_back or wait.is_over_in(seconds) or self._is_gone():
                raise refused
            self._channel.sleep(seconds)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                resume()
            except CallError as error:
                if not error.may_be_back:
                    raise

    def _listen(self, method: Method, request: Any, hear: Callable[[Any], None]) -> Any:
        listen = self._channel.unary_stream(method.path, method.request.SerializeToString, method.response.FromString)
        message = None
        with contextlib.closing(listen(request)) as messages:
            for message in messages:
                hear(message)
        return message

    def _error(self, method: Method, error: Exception) -> CallError:
        if not isinstance(error, grpc.RpcError):
            return CallError(f"{method.name}: {error}", _STATUS.CANCELLED)
        code, details, facts = error.code(), error.details(), errors.details_of_call(error)
        if code is _STATUS.UNAVAILABLE and "ErrorInfo" not in facts:
            return CallError(
                f"{method.name}: no answer from {self.address}: {details}. {errors.way_out(code.value[0], details)}", code
            )
        if code is _STATUS.UNAUTHENTICATED:
            details = f"{details} {errors.way_out(code.value[0], details)}"
        if code is _STATUS.UNIMPLEMENTED:
            return CallError(
                f"{method.name}: the server at {self.address} does not know this call: it is older than this "
                f"client, or no gluond-server. ({details})",
                code,
            )
        return _told(details if details.startswith(method.name) else f"{method.name}: {details}", code, facts)

    def _is_gone(self) -> bool:
        session = self._session()
        return session is not None and session.local is not None and session.local.exit_code() is not None

    def _place(self, model: str, wait: _Wait) -> Any:
        asked = methods.GET_SEQUENCE.request(client_id=self.client_id, model=model)
        return self._run(methods.GET_SEQUENCE, asked, wait, lambda: None)

    def _check_not_forgotten(self, model: str, wait: _Wait, sequence: _Sequence) -> Any:
        """The server's GetSequenceResponse. CallError (ABORTED): it lacks calls that it has answered."""
        place = self._place(model, wait)
        is_news = place.in_part and sequence.in_part != place.last
        sequence.in_part = place.last if place.in_part else 0
        if sequence.next - 1 <= place.last <= sequence.next and not is_news:
            return place
        expected, sequence.next = sequence.next - 1, place.last + 1
        lost = (
            "has the first steps alone of this client's last training"
            if is_news and place.last == expected
            else f"knows of {place.last} calls by this client, expected {expected}"
        )
        raise CallError(
            f"model '{model}': {self.address} was started anew and {lost}; the model's trainer has taken "
            f"{place.step} steps: go on with step {place.step + 1}. Load a checkpoint or define the model again "
            "where it is not as you need it.",
            _STATUS.ABORTED,
            "REWOUND",
            {"last": str(place.last), "expected": str(expected), "step": str(place.step)},
        )


_lock = threading.Lock()
_clients: "weakref.WeakKeyDictionary[Session, Client]" = weakref.WeakKeyDictionary()


def of(session: Session) -> Client:
    """The calls that go the way of this session."""
    with _lock:
        client = _clients.get(session)
        if client is None:
            client = _clients[session] = Client(session)
        return client


def current() -> Client:
    """The calls that go the way of the session that new arrays belong to."""
    return of(connect.current())


@_side_effects.in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
