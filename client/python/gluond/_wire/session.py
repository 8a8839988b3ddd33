"""A session: a server's arrays, calls and graphs under names that this client chooses."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import threading
from math import prod
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..base import MXNetError
from . import encoding, errors, native_stream
from .access import Access, Channel
from .calls import Calls
from .local_server import LocalServer
from .frame import frame
from .pipeline import Pipeline
from .public_stream import PublicStream
from .tensors import readable, to_numpy
from .waiter import Waiter, client_id

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.lookahead_bytes", 1 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # A name is looked up before each attempt to connect.
    ("grpc.enable_http_proxy", 0),
    # One channel, one connection: a session of another address or time shares nothing with it.
    ("grpc.use_local_subchannel_pool", 1),
]
_MOST_DESCRIBED = 1 << 16


class Session:
    """Thread-safe. `naive`: every command waits for its end, and raises where it was given (MXNET_ENGINE_TYPE)."""

    def __init__(self, address: str, local: Optional[LocalServer] = None, access: Access = Access()) -> None:
        self.address = address
        self._access = access
        self.local = local
        self.naive = os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"
        self._calls = itertools.count(1)
        # For messages: the user's names of nodes, by their names on the wire if these differ; descriptions of some
        # arrays.
        self.renamed: Dict[str, str] = {}
        self._described: Dict[bytes, str] = {}
        self._remedy = ""
        # The channel of calls other than the session's stream, which has its own channel.
        access.check(address)
        self.channel = Calls(self.new_channel)
        self._opening = threading.RLock()
        self._opened: Optional[Pipeline] = None
        self.failures = 0  # How often the program was told that a call of its has failed.
        self._refused = 0  # gRPC's code of the server that opens no session.
        # Names of arrays that are freed in this process; append() is all that a finalizer may do.
        self.dead_arrays: Any = []
        self.dead_calls: Any = []
        self.dead_optimizers: Any = []
        self._submit: Callable[..., None] = self._open_and_submit
        self.submit: Callable[..., None] = self._submit
        if self.naive:
            self.submit = self._submit_and_wait

    @property
    def _pipeline(self) -> Pipeline:
        """The session's stream, which the first command opens: who only calls other methods needs none, and may have none."""
        opened = self._opened
        return opened if opened is not None else self._open()

    def _open(self) -> Pipeline:
        with self._opening:
            if self._opened is None:
                pipeline = Pipeline(self.new_stream, self.channel, client_id(), self._lost, self._is_gone)
                self.dead_arrays, self.dead_calls = pipeline.dead_arrays, pipeline.dead_calls
                self.dead_optimizers = pipeline.dead_optimizers
                self._submit = pipeline.submit
                if not self.naive:
                    self.submit = pipeline.submit
                self._opened = pipeline
            return self._opened

    def _open_and_submit(self, *arguments: Any, **options: Any) -> None:
        self._open().submit(*arguments, **options)

    def open(self) -> None:
        """Opens the session now, unless its caller has no role that may have one: he may infer nevertheless."""
        try:
            self._open()
        except MXNetError:
            if self._refused != errors.PERMISSION_DENIED:
                raise

    def new_channel(self) -> Channel:
        """A connection for one stream, or for calls other than streams."""
        return self._access.channel(self.address, _CHANNEL_OPTIONS)

    def new_stream(self, method: str, hello: bytes) -> Any:
        """A stream of the method, over a connection of its own, with its first message."""
        native = native_stream.module()
        if native is None:
            return PublicStream(self.new_channel(), method, hello)
        return native_stream.NativeStream(native, self.address, self._access, method, hello)

    @property
    def environment(self) -> Dict[str, str]:
        """The variables by which another process reaches this session's server."""
        return {"GLUOND_ADDRESS": self.address, **self._access.environment}

    @property
    def devices(self) -> Sequence[str]:
        """The server's devices, its default first: `cpu`, `gpu:0`."""
        return self._pipeline.opened.devices

    @property
    def registry_hash(self) -> str:
        """The fingerprint of the server's operators; empty where it tells none."""
        return self._pipeline.opened.registry_hash

    @property
    def features(self) -> Sequence[str]:
        """The optional parts of the protocol that the server has: `saved-sessions`."""
        return self._pipeline.opened.features

    @property
    def is_open(self) -> bool:
        """Whether commands still reach the server."""
        return self._opened is None or self._opened.is_open

    @property
    def max_tensor_bytes(self) -> int:
        """Largest tensor that travels in one piece."""
        return self._pipeline.most_bytes

    def _is_gone(self) -> bool:
        return self.local is not None and self.local.exit_code() is not None

    def _lost(self, code: int, details: str) -> MXNetError:
        existed = self._opened is not None
        self._refused = code
        if self.local is not None and self._is_gone():
            details += f"; the local server ended with code {self.local.exit_code()}. Its last lines:\n{self.local.log()}"
        return errors.of_lost_session(self.address, existed, code, details, self._remedy)

    def set_patience(self, remedy: str, seconds: float) -> None:
        """The session has saved or opened something: the server keeps it for so long, and so its stream is taken up again
        for as long. remedy: a sentence on what was saved, for the error when the session is lost nevertheless."""
        self._remedy = remedy
        self._pipeline.patience = seconds

    def _submit_and_wait(self, command: bytes, tail: Any = None) -> None:
        self._submit(command, tail)
        if not frame().called_back:
            self.wait_all()

    def run_graph(self, command: bytes, frame: encoding.CallFrame) -> None:
        """Submits a RunGraph, made with this frame."""
        if self.naive:
            self.submit(command)
        else:
            self._submit(command, graph=frame)

    def submit_later(self, command: bytes) -> None:
        """Submits a command that need not leave before the next one does, and cannot fail."""
        self._submit(command, later=True)

    def new_call(self) -> int:
        """A name for Prepare or DefineGraph."""
        return next(self._calls)

    def request(self, command: bytes, waiter: Optional[Waiter] = None) -> Any:
        """The Reply to a command that asks for something; raises the first of its failures. waiter: as Pipeline.request."""
        if frame().called_back:
            with frame().around_wait():
                return self._checked(self._pipeline.request(command, waiter))
        return self._checked(self._pipeline.request(command, waiter))

    def _checked(self, reply: Any) -> Any:
        if reply.failures or self._pipeline.unasked:
            unasked, self._pipeline.unasked = self._pipeline.unasked, []
            self.failures += 1
            raise self._error([*unasked, *reply.failures], reply.number)
        return reply

    def fetch(self, names: Sequence[bytes]) -> List[np.ndarray]:
        """Values of arrays. Waits for them. TooLarge: no message holds them all."""
        return [to_numpy(tensor) for tensor in self.request(encoding.fetch(names)).tensors]

    def fetch_one(self, name: bytes) -> np.ndarray:
        """Values of one array. Waits for it. TooLarge: no message holds them."""
        return to_numpy(self.request(encoding.fetch_one(name)).tensors[0])

    def fetch_in_pieces(self, name: bytes, shape: Tuple[int, ...], dtype: np.dtype, piece: int) -> np.ndarray:
        """As fetch_one, for a large array that nothing writes meanwhile. Each piece is copied to its place while the
        next ones are on their way, and its memory is used again."""
        values = np.empty(prod(shape), dtype)
        ranges = split(values.size, piece // dtype.itemsize)
        replies = self._pipeline.request_each([encoding.fetch_elements(name, begin, end) for begin, end in ranges])
        waiting = frame().around_wait() if frame().called_back else contextlib.nullcontext()
        with waiting, contextlib.closing(replies):  # type: ignore[type-var]
            for (begin, end), reply in zip(ranges, replies):
                values[begin:end] = np.frombuffer(self._checked(reply).tensors[0].raw, dtype)
        return readable(values).reshape(shape)

    def describe(self, name: bytes) -> Any:
        """The ArrayType of an array. Waits for it."""
        return self.request(encoding.describe_one(name)).arrays[0]

    def wait_all(self) -> None:
        """Waits for all commands given so far; raises an error that nobody was told of."""
        if frame().called_back:
            raise MXNetError(
                "waitall() in a custom operator that the server has called would wait for the operator itself; "
                "wait for one array: x.wait_to_read(), or x.asnumpy()"
            )
        self.request(encoding.command(encoding.WAIT_ALL, b""))

    def _error(self, failures: Sequence[Any], asking: int) -> MXNetError:
        """asking: the number of the command whose answer this is; its own error is raised at its own line."""
        first = failures[0]
        if first.command == asking and first.status.code == errors.RESOURCE_EXHAUSTED:
            return errors.TooLarge(first.status.message)
        line = self._pipeline.line_of(first.command) if first.command != asking else ""
        error = errors.of_failure(first, line, self.renamed, self._name_of)
        others = len({failure.command for failure in failures}) - 1
        if others > 0:
            error.args = (
                f"{error}\n\n{others} other call(s) failed as well, the next one with: "
                f"{next(f.status.message for f in failures if f.command != first.command)}",
            )
        return error

    def describe_as(self, name: bytes, text: str) -> None:
        """Sets an array's description in messages (kept for the last ones of very many)."""
        if len(self._described) >= _MOST_DESCRIBED:
            self._described.clear()
        self._described[name] = text

    def _name_of(self, number: int) -> str:
        return self._described.get(encoding.name_of(number), f"array {number}")

    def unheard(self, seconds: float) -> str:
        """The error of a call that nobody has been told of, if the server tells one within so many seconds."""
        opened = self._opened
        if opened is None or not opened.is_open:
            return ""
        try:
            reply = opened.request_within(encoding.command(encoding.WAIT_ALL, b""), seconds)
            if reply is not None:
                self._checked(reply)
        except MXNetError as error:
            return str(error)
        return ""

    def has_arrays(self) -> bool:
        """Whether the program has an array of the session: an object that knows the session and a name in it. Looks at all
        objects of the process."""
        return any(hasattr(type(each), "_name") and getattr(each, "_session", None) is self for each in gc.get_referrers(self))

    def close(self) -> None:
        """Ends the session: its arrays are gone."""
        self.channel.close()
        if self.local is not None:
            if self._opened is not None:
                self._opened.stop(MXNetError("the session has been closed"))
            self.local.stop()
        elif self._opened is not None:
            self._opened.finish(1.0)

    def settle(self, seconds: float) -> None:
        """Before a fork: see Pipeline.settle."""
        if self._opened is not None:
            self._opened.settle(seconds)

    def go_on(self) -> None:
        """After settle(): commands may be sent again."""
        if self._opened is not None:
            self._opened.go_on()

    def abandon(self) -> None:
        """After a fork, in the child: the session is the parent's."""
        if self.local is not None:
            self.local.forget()
        if self._opened is None:
            return
        self._opened.abandon(
            MXNetError(
                "This NDArray was made before a fork, by the parent process, whose session with the server this process does "
                "not share. Hand values over as numpy arrays (x.asnumpy()), and make NDArrays of them here."
            )
        )


def split(total: int, most: int) -> List[Tuple[int, int]]:
    """[begin, end) of pieces of at most `most` that make up `total`."""
    return [(begin, min(begin + most, total)) for begin in range(0, total, most)]
