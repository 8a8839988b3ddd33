"""The command stream of one session: commands leave in order, each is applied exactly once, answers find who waits.

`submit` only appends. Commands appended while a message is being written leave with the next one, so a thousand
commands go together. A few small commands wait for the next one, which usually asks for their result: one message costs
less than two. If none comes, the writing thread sends them soon. While the program's thread appends, a signal's handler
or a finalizer that gives commands gets an error.

Messages are kept until the server says that it has received them, and are sent again over a new stream when the old one
breaks; the server takes each command once, by its number. A KeyboardInterrupt may come anywhere in the program's main
thread, but that thread only appends commands and waits for answers.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import grpc

from .._proto import session_pb2
from ..base import MXNetError
from . import credential, encoding, errors
from .batches import BATCH_BYTES, Batches, leaves_at_once
from .encoding import CallFrame
from .protocol import FEATURES, LOWEST_OF_SERVER, PROTOCOL, why_too_old
from .responses import parse
from .source_lines import INSIDE, LayerCall, Origin
from .waiter import Waiter
from .wire import Wire

METHOD = "/gluond.v1.SessionService/Run"
# The ends of a stream after which another one may take the session up. gRPC and proxies tell a broken connection by INTERNAL
# (a stream that is reset) and UNKNOWN ("Stream removed"), too, in words that change with their versions. An error of the
# server's own may have the same code and no details, so that nothing tells it apart: trying again costs time, and no more.
RETRY = {
    code.value[0]
    for code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.OK,
    )
}
# Bytes of a message that are kept for the fields around the values; half of a very short message is.
MARGIN = 4096
# Bytes for the fields around a command that is alone in its message.
AROUND = 64
# Bytes that are not known to be received; a thread that adds more waits.
MOST_BYTES = 64 << 20
# So many small commands leave without waiting for more; twice as many the next time, up to a limit, if nothing is asked meanwhile.
FEW, MOST_FEW = 8, 128
# A question that comes so soon after a graph's run may travel with it: a message of its own takes about as long.
SOON_SECONDS = 0.0002
# After an answer a program is likely to ask again within this time.
LIKELY_SECONDS = 0.02
FIRST_CONTACT_SECONDS = 2.0
# After so long without a server, the program is told.
WARN_SECONDS = 3.0
# Between attempts to open a stream: the first pause, which doubles, and the longest.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class Pipeline:
    """The stream of a session. It connects when it is made. new_stream: opens a stream of its Wire.
    channel: asks the server's release, where that is too old. lost: makes the error for
    a stream that ended for good, (gRPC code, details) -> exception. is_gone: whether the server is known to be there no more.

    All that changes is guarded by `_lock`, which is never held while waiting or in gRPC; finalizers take no lock, they append
    to `dead_arrays`, `dead_calls` and `dead_optimizers`.
    """

    def __init__(
        self,
        new_stream: Callable[[str, bytes], Any],
        channel: Any,
        client_id: str,
        lost: Callable[[int, str], Exception],
        is_gone: Callable[[], bool],
    ) -> None:
        self.opened: Any = None
        self.patience = 0.0  # A broken stream is taken up again for so many seconds, or for the lease if that is longer.
        self._batches = Batches()
        # Names of arrays that are freed in this process; append() is all that a finalizer may do.
        self.dead_arrays, self.dead_calls = self._batches.dead_arrays, self._batches.dead_calls
        self.dead_optimizers = self._batches.dead_optimizers
        self._channel = channel
        self._client_id = client_id
        self._lost = lost
        self._is_gone = is_gone
        self._lock = threading.RLock()  # Never taken twice; an RLock knows its owner.
        self._stopped: Optional[Exception] = None
        self._finishing = False  # The stream's end is the session's.
        self._stands = False  # Whether the session stands on the stream.
        self._protocol = PROTOCOL  # The server's, where it is too old.
        self._broken_at = time.monotonic()
        self._why = ""  # The end of the last stream that stood.
        self._pause_seconds = _PAUSE_SECONDS
        self._warned = False
        self._few = 0  # Commands that wait for others, ...
        self._most_few = FEW  # ... and how many may.
        self._graphs: List[Tuple[CallFrame, float]] = []  # Run since the last question, and when they were given.
        self._waiters: Dict[int, Waiter] = {}
        # Failures of commands that have no answer in this client, and none that it can wait for.
        self.unasked: List[Any] = []
        self._replies = 0
        self._unacknowledged_bytes = 0
        self._last = math.inf  # Later commands wait until a fork is over.
        self._greeted = Waiter()
        self._wire = Wire(new_stream, METHOD, self)
        self._wire.start()
        try:
            self._greeted.signal.acquire()
        except BaseException:
            self._wire.end()
            raise
        if self._stopped is not None:
            raise self._stopped

    @property
    def is_open(self) -> bool:
        """Whether the connection has not stopped."""
        return self._stopped is None

    @property
    def most_bytes(self) -> int:
        """The most bytes of commands, or of values, in a message."""
        most = self.opened.max_message_bytes
        return most - min(MARGIN, most // 2)

    # Commands.

    def submit(
        self,
        command: bytes,
        tail: Any = None,
        waiter: Optional[Waiter] = None,
        later: bool = False,
        graph: Optional[CallFrame] = None,
    ) -> None:
        """Appends a command. `tail`: the rest of it, bytes-like, copied before this returns. later: the command may
        wait until another one leaves. graph: the graph that the command runs. The command leaves at once unless a
        question has followed it soon: the server then computes while this program gives more commands."""
        frame, layer, layer_call = sys._getframe(1), None, LayerCall.code
        code = frame.f_code
        while INSIDE[code.co_filename] and frame.f_back is not None:
            if code is layer_call and layer is None:
                layer = frame.f_locals["self"].name
            frame = frame.f_back
            code = frame.f_code
        self._check_not_inside()
        wire = self._wire
        try:
            hurries = self._append(command, tail, waiter, (code, frame.f_lasti, layer), later, graph)
        except BaseException:
            wire.wake()  # An interrupt may have come after the command was appended.
            raise
        if hurries or wire.is_asleep and not later:
            wire.send()
            if wire.is_asleep:
                wire.wake()  # From now on it looks for commands that do not hurry.
        if self._batches.closed_bytes > MOST_BYTES:
            self._wait_for_room()

    def _check_not_inside(self) -> None:
        if self._lock._is_owned() or self._wire.is_inside():  # type: ignore[attr-defined]
            raise MXNetError(
                "A signal's handler, or a finalizer (__del__), has used gluond at a moment when gluond itself was "
                "at work in this thread. Have it set a flag, and act where the program sees that."
            )

    def _append(
        self, command: bytes, tail: Any, waiter: Optional[Waiter], from_where: Origin, later: bool, graph: Optional[CallFrame]
    ) -> bool:
        """Appends a command. Returns whether it leaves without waiting for more."""
        with self._lock:
            if self._stopped is not None:
                raise self._stopped
            if waiter is not None:
                waiter.number = self._batches.next_number()
                self._waiters[waiter.number] = waiter
                self._judge_graphs()
            self._batches.append(command, tail, from_where)
            if graph is not None and len(self._graphs) < FEW:
                self._graphs.append((graph, time.perf_counter()))
            if later:
                return False
            self._few += 1
            if waiter is not None:
                self._most_few = FEW
                return True
            if self._few > self._most_few:
                self._most_few = min(2 * self._most_few, MOST_FEW)
                return True
            return leaves_at_once(command, tail) or graph is not None and not graph.is_asked_soon

    def _wait_for_room(self) -> None:
        while self._batches.closed_bytes > MOST_BYTES and self._stopped is None:
            if not (self._stands and self._wire.lead()):
                time.sleep(0.001)

    def request(self, command: bytes, waiter: Optional[Waiter] = None) -> Any:
        """Submits a command and waits for its Reply. waiter: a new one, where an interrupted caller wants to know the number."""
        waiter = waiter or Waiter()
        try:
            self.submit(command, None, waiter)
            return self._wait(waiter)
        except BaseException:
            self._forget(waiter)
            raise

    def request_within(self, command: bytes, seconds: float) -> Any:
        """The Reply to a command, or None if it has not come after so many seconds."""
        waiter = Waiter()
        self.submit(command, None, waiter)
        self._await(waiter, time.monotonic() + seconds)
        if not waiter.done:
            self._forget(waiter)
        return waiter.reply

    def request_each(self, commands: Iterable[bytes]) -> Iterator[Any]:
        """Submits the commands, and then waits for one Reply after the other."""
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
                    self._forget(waiter)

    def _await(self, waiter: Waiter, end: float) -> None:
        """Waits for the answer, until then at most."""
        while not waiter.done:
            left = end - time.monotonic()
            if left <= 0:
                return
            if not (self._stands and self._wire.lead()):
                waiter.signal.acquire(timeout=min(left, threading.TIMEOUT_MAX))

    def _wait(self, waiter: Waiter) -> Any:
        self._await(waiter, math.inf)
        if waiter.reply is None:
            raise self._stopped or MXNetError("the session has ended")
        return waiter.reply

    def _judge_graphs(self) -> None:
        """Called with a question, and the lock."""
        if self._graphs:
            now = time.perf_counter()
            for graph, given in self._graphs:
                graph.is_asked_soon = now - given < SOON_SECONDS
            self._graphs.clear()

    def _forget(self, waiter: Waiter) -> None:
        with self._lock:
            for number in [number for number, each in self._waiters.items() if each is waiter]:
                del self._waiters[number]

    def line_of(self, number: int) -> str:
        """The line that gave a command, as a traceback prints it."""
        with self._lock:
            self._batches.close()
            return self._batches.lines.describe(number)

    # Messages, called by the threads of the Wire.

    def hello(self) -> bytes:
        """Opens a session, or takes it up again."""
        session = self.opened.session if self.opened else ""
        return session_pb2.SessionRequest(
            open=session_pb2.OpenSession(
                session=session,
                client_id=self._client_id,
                protocol=PROTOCOL,
                features=FEATURES,
                host="" if session else credential.scope,
            )
        ).SerializeToString()

    def say(self, write: Callable[[bytes], bool], alive: bool) -> None:
        """Sends the commands that wait, once the session stands."""
        with self._lock:
            if not self._stands:
                return
            self._few = 0
            self._batches.append_free()
            has_room = True
            while has_room and self._batches.something_to_send() and self._batches.unsent[0].first <= self._last:
                has_room = write(self._batches.next_message(self._replies))
                self._batches.note_sent()
                self._unacknowledged_bytes, alive = 0, False
            if has_room and (alive or self._unacknowledged_bytes > BATCH_BYTES):
                write(encoding.received(self._replies))
                self._unacknowledged_bytes = 0

    def pause(self) -> float:
        """None while threads wait for answers; a program is likely to ask again soon after one."""
        return 0.0 if self._waiters else LIKELY_SECONDS

    def message(self, data: Any) -> None:
        """Answers, or the word that the session stands."""
        if self._stands:
            self._receive(parse(data), len(data))
            return
        response = session_pb2.SessionResponse.FromString(data)
        if not response.HasField("opened") or response.opened.protocol < LOWEST_OF_SERVER:
            self._protocol = response.opened.protocol
            raise MXNetError("the first message does not open the session")
        with self._lock:
            self.opened = response.opened
            self._batches.most_bytes = self.most_bytes
            self._batches.longest = self.opened.max_message_bytes - AROUND
            self._batches.drop_received(response.received)
            self._batches.send_again()
            self._wire.beat_seconds = max(1.0, self.opened.lease.ToTimedelta().total_seconds() / 3)
            self._stands = True
        self._receive(response, 0)
        self._greeted.finish(None)

    def _receive(self, response: Any, size: int) -> None:
        with self._lock:
            self._batches.drop_received(response.received)
            for reply in response.replies:
                if reply.index > self._replies:  # Else the reply came before, over another stream.
                    waiter = self._waiters.get(reply.number)  # It goes last: an interrupt may come before.
                    if waiter is not None:
                        waiter.finish(reply)
                    elif reply.failures:
                        self.unasked += [failure for failure in reply.failures if errors.is_unknown_command(failure)]
                    self._replies = reply.index
                    self._waiters.pop(reply.number, None)
            self._unacknowledged_bytes += size
            must_tell = self._unacknowledged_bytes > BATCH_BYTES
        if must_tell:
            self._wire.send()

    def closed(self, code: int, details: str) -> Optional[float]:
        """Has the session taken up again, for as long as the server may keep it; then stops with the error."""
        now = time.monotonic()
        with self._lock:
            stood, self._stands = self._stands, False
        if stood:
            self._broken_at, self._why, self._pause_seconds, self._warned = now, details, 0.0, False
        if self._stopped is not None:
            return None
        if self._finishing:
            self.stop(MXNetError("the session has ended"))
            return None
        if self._protocol < LOWEST_OF_SERVER:
            self.stop(self._lost(grpc.StatusCode.FAILED_PRECONDITION.value[0], why_too_old(self._channel, self._protocol)))
            return None
        pause, self._pause_seconds = self._pause_seconds, min(max(2 * self._pause_seconds, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        seconds = self._seconds()
        if code not in RETRY or now + pause > self._broken_at + seconds or self._is_gone():
            ended = f" (The stream before had ended with: {self._why})" if self._why and details != self._why else ""
            self.stop(self._lost(code, details + ended))
            return None
        if not self._warned and self.opened is not None and now - self._broken_at > WARN_SECONDS:
            self._warned = True
            sys.stderr.write(
                f"gluond: no answer from the server: {self._why or details}. Calls wait for it for up to "
                f"{self._broken_at + seconds - now:.0f} s more; Ctrl-C ends a wait.\n"
            )
        return pause

    def _seconds(self) -> float:
        """For so long a stream that has broken is opened again."""
        if self.opened is None:
            return FIRST_CONTACT_SECONDS
        return max(self.opened.lease.ToTimedelta().total_seconds(), self.patience)

    # The end, and forks.

    def stop(self, error: Exception) -> None:
        """Ends the session for this client: everybody who waits, and every later command, gets the error."""
        with self._lock:
            if self._stopped is None:
                self._stopped = error
            waiters = [*self._waiters.values(), self._greeted]
            self._waiters.clear()
        for waiter in waiters:
            waiter.finish(None)
        self._wire.end()

    def finish(self, seconds: float) -> None:
        """Lets the server end the session now rather than with its lease, if that takes at most so many seconds."""
        if self._stopped is not None or not self._stands:
            return
        self._finishing = True
        self._wire.finish()
        end = time.monotonic() + seconds
        while self._stopped is None and time.monotonic() < end:
            time.sleep(0.001)
        self.stop(MXNetError("the session has ended"))
        self._wire.join(max(0.0, end - time.monotonic()))

    def settle(self, seconds: float) -> None:
        """Before a fork: returns when the server has done all commands, or so long a time has passed. Later commands wait for
        go_on()."""
        waiter = Waiter()
        if self._stopped is None and self._stands:
            self.submit(encoding.command(encoding.WAIT_ALL, b""), None, waiter)
            self._await(waiter, time.monotonic() + seconds)
            self._forget(waiter)
        with self._lock:
            if waiter.reply is not None:
                self.unasked += waiter.reply.failures  # For the program's next request.
            self._batches.close()
            self._last = self._batches.next_number() - 1

    def go_on(self) -> None:
        """After settle()."""
        if self._last != math.inf:
            self._last = math.inf
            self._wire.wake()

    def abandon(self, error: Exception) -> None:
        """After a fork, in the child: the stream and its locks belong to threads that are not here."""
        self._lock = threading.RLock()
        self._stopped = error
