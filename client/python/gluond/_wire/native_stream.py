"""A stream of the C++ client's native module (client/python/native), by ctypes.

    stream = NativeStream(module(), "host:port", access, "/package.Service/Method", b"the first message")
    event = stream.lead(0.05)
    if event >= 0:
        data, number = stream.message(event)
        stream.drop(number)
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any, List, Optional, Set, Tuple

import numpy as np

from .. import _side_effects
from ..base import MXNetError
from . import server_binary
from .access import Access

# Events below 0; a message's is its size.
NOTHING, WRITABLE, ENDED, BUSY = -1, -2, -3, -4
# `grpcio`: no native module is used. A path: this one is.
VARIABLE = "GLUOND_STREAM"
_NAME = os.path.join("_bin", "libgluond_stream.so")
_BUILT = os.path.join("bazel-bin", "client", "python", "gluond", _NAME)
# A longer message is not copied into bytes: its tensors lie where it was received.
_LARGE = 1 << 16
_ROOM = 4096

_handle, _size, _event, _text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_char_p
# Functions, with the version of their interface: their results and arguments.
_FUNCTIONS = {
    "open": (_handle, (_text,) * 7 + (_size, _text, _size)),
    "free": (None, (_handle,)),
    "write": (_event, (_handle, _text, _size)),
    "say_when_written": (None, (_handle,)),
    "finish": (None, (_handle,)),
    "cancel": (None, (_handle,)),
    "kick": (None, (_handle,)),
    "lead": (_event, (_handle, ctypes.c_double)),
    "attend": (_event, (_handle, ctypes.c_double, ctypes.c_double)),
    "copy": (_event, (_handle, ctypes.c_void_p, _event)),
    "drop": (None, (_handle, _event)),
    "status": (ctypes.c_int, (_handle, _text, _size)),
    "close": (None, (_handle,)),
}


class NativeModule:
    """The functions of the module at this path. OSError, AttributeError: it cannot be loaded here, or is another version's."""

    def __init__(self, path: str) -> None:
        loaded = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, f"gluond_stream_{name}_2")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


_is_forked = False


@_side_effects.in_child
def _after_fork() -> None:
    global _is_forked
    _is_forked = True
    module.cache_clear()


@functools.lru_cache(maxsize=None)
def module() -> Optional[NativeModule]:
    """The native module; None: there is none here, and streams are grpcio's, as in a forked child, in which gRPC's core of
    the module has lost its threads. MXNetError: GLUOND_STREAM names none."""
    named = os.environ.get(VARIABLE, "")
    if named == "grpcio" or _is_forked:
        return None
    for path in [named] if named else _places():
        try:
            return NativeModule(path)
        except (OSError, AttributeError) as error:
            if named:
                raise MXNetError(f"{VARIABLE}={named} cannot be loaded: {error}; want a path, or `grpcio`") from None
    return None


def _places() -> List[str]:
    package = pathlib.Path(__file__).resolve().parents[1]
    paths = [str(package / _NAME), *(str(checkout / _BUILT) for checkout in server_binary.checkouts())]
    return [path for path in paths if os.path.exists(path)]


class NativeStream:
    """A stream, opened with its first message. Thread-safe; a program's main thread may be interrupted anywhere. For what the
    functions do, see client/cpp/stream.h. MXNetError: as Access.check."""

    def __init__(self, native: Any, address: str, access: Access, method: str, hello: bytes) -> None:
        self._native, self._handle = native, None
        error = ctypes.create_string_buffer(_ROOM)
        paths = [os.path.expanduser(path).encode() for path in access]
        self._handle = native.open(address.encode(), *paths, method.encode(), hello, len(hello), error, _ROOM)
        if not self._handle:
            raise MXNetError(error.value.decode(errors="replace"))
        self.threads: Set[int] = set()  # None of Python's.
        self._process = os.getpid()

    def __del__(self) -> None:
        if self._handle and self._process == os.getpid():
            self._native.free(self._handle)

    def write(self, data: bytes) -> int:
        """Sends a message after the earlier ones. Returns the bytes that have not left."""
        return self._native.write(self._handle, data, len(data))

    def say_when_written(self) -> None:
        """Has WRITABLE returned when all has left."""
        self._native.say_when_written(self._handle)

    def finish(self) -> None:
        """Says that no message will follow."""
        self._native.finish(self._handle)

    def cancel(self) -> None:
        """Ends the stream."""
        self._native.cancel(self._handle)

    def kick(self) -> None:
        """Has attend() return."""
        self._native.kick(self._handle)

    def lead(self, seconds: float) -> int:
        """The next event, for a thread that waits for an answer."""
        return self._native.lead(self._handle, seconds)

    def attend(self, seconds: float, pause: float) -> int:
        """The next event, for the thread of the Wire. pause: the seconds that it leaves to threads that may lead."""
        return self._native.attend(self._handle, seconds, pause)

    def message(self, size: int) -> Tuple[Any, int]:
        """The message of this size that has come, and its number; 0: another thread has taken it."""
        if size < _LARGE:
            text = ctypes.create_string_buffer(size + 1)
            number = self._native.copy(self._handle, text, size)
            return ctypes.string_at(text, size), number
        room = np.empty(size, np.uint8)
        number = self._native.copy(self._handle, room.ctypes.data, size)
        return room.data, number

    def drop(self, number: int) -> None:
        """The message has been taken: the next one may come."""
        self._native.drop(self._handle, number)

    def end(self) -> Tuple[int, str]:
        """gRPC's code and text, after ENDED."""
        details = ctypes.create_string_buffer(_ROOM)
        code = self._native.status(self._handle, details, _ROOM)
        return code, details.value.decode(errors="replace")

    def close(self) -> None:
        """Ends the stream, and its channel: no thread is within gRPC when this returns."""
        self._native.close(self._handle)
