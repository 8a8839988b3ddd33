"""Functions that this process has computed and that a backward pass may come back to.

A recorded function is the operator `_CustomFunction`: its inputs are the function's inputs and results, its outputs the
results; for its gradient the server calls this process with the function's number. What is needed for that is kept here
until the server says that no backward pass can reach it any more. Servers that do not say so leave it to a bound: the
oldest of very many are forgotten, and soon after its backward pass each.
"""

from __future__ import annotations

import collections
import itertools
import threading
from typing import Any, Deque, List, Optional, OrderedDict, Protocol, Sequence

import numpy as np

from .._mode import mode
from .._wire import encoding
from ..base import MXNetError
from ..ndarray import _call
from . import host
from .local import LocalArray
from .values import Kind

# Functions without a backward pass so far, and after theirs (the history may be kept for another).
MOST_WAITING = 1 << 14
MOST_USED = 64


class Recorded(Protocol):
    """What is kept of a function."""

    def gradients(self, out_grads: Sequence[np.ndarray], kinds: Sequence[Kind],
                  wanted: Sequence[bool]) -> List[Optional[np.ndarray]]:
        """The gradients of its inputs, from those of its results; None where it is not wanted."""

    def title(self) -> str:
        """What errors call it."""


class Functions:
    """The functions of this process by number. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Recorded] = collections.OrderedDict()
        self._used: OrderedDict[int, Recorded] = collections.OrderedDict()

    def add(self, function: Recorded) -> int:
        """Its number."""
        number = next(self._numbers)
        with self._lock:
            self._waiting[number] = function
            forgotten = self._waiting.popitem(last=False) if len(self._waiting) > MOST_WAITING else None
        del forgotten  # Frees arrays: not with the lock.
        return number

    def find(self, number: int) -> Recorded:
        """For its backward pass. MXNetError: it is forgotten."""
        with self._lock:
            function = self._waiting.pop(number, None) or self._used.pop(number, None)
            if function is None:
                raise MXNetError(
                    f"a recorded function of a custom operator is gone: {MOST_WAITING} others have been recorded since "
                    f"without a backward pass, or {MOST_USED} have had theirs; or it belongs to another process")
            self._used[number] = function
            forgotten = self._used.popitem(last=False) if len(self._used) > MOST_USED else None
        del forgotten
        return function

    def release(self, numbers: Sequence[int]) -> None:
        """The server says that these are not needed any more."""
        released: Deque[Any] = collections.deque()
        with self._lock:
            for number in numbers:
                released.append(self._waiting.pop(number, None) or self._used.pop(number, None))

    def __len__(self) -> int:
        return len(self._waiting) + len(self._used)


functions = Functions()


def after_fork() -> None:
    """In a forked child: what was recorded is the parent's."""
    global functions
    functions = Functions()


def record(function: Recorded, session: Any, inputs: Sequence[Any], results: Sequence[Any],
           needed: Optional[Sequence[int]] = None) -> List[Any]:
    """The results as outputs of a recorded operation on the inputs.

    needed: the results whose gradients the function reads; default all.
    """
    attributes = [("__inputs__", str(len(inputs))), ("__outputs__", str(len(results))),
                  ("__scope__", host.of(session).scope), ("function", str(functions.add(function)))]
    if needed is not None and len(needed) < len(results):
        attributes.append(("__out_grads__", ",".join(map(str, needed))))
    call = _call.Call("_CustomFunction", tuple(attributes), len(inputs) + len(results), len(results))
    _, head, middle, _ = call.prepare(session)
    outputs = [_output(result, inputs[0]._context) for result in results]
    session.submit(b"".join((head, *[each._name for each in inputs], *[each._name for each in results], middle,
                             *[each._name for each in outputs], mode.flags)))
    return outputs


def _output(result: Any, context: Any) -> Any:
    """The array for a result, with the values that are known here."""
    values = result._known() if isinstance(result, LocalArray) else None
    if values is None:
        return _call.blank(result._session, context, result._shape, result._dtype)
    return LocalArray(result._session, context, Kind(result._shape, result._dtype), values, shared=True,
                      sent=next(encoding.names))
