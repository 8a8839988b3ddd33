"""Functions that this process has computed and that a backward pass may come back to.

A recorded function is the operator `_CustomFunction`: its inputs are the function's inputs and results, its outputs the
results; for its gradient the server calls this process with the function's number. The function is kept here until the
server says that no backward pass can reach it any more. For servers that do not say so there are bounds: the oldest of
very many functions are forgotten, and fewer are kept after their backward pass.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
from typing import Any, Deque, Iterator, List, Optional, OrderedDict, Sequence

import numpy as np

from .._array import tape
from .._array.array import NDArray
from .. import _side_effects
from .._wire import operator_errors as errors
from ..base import MXNetError
from .inside import inside
from .local import read_only, wanted_values
from .values import Kind

# Limits on the functions kept before their backward pass, and after it (for another pass over the same history).
MOST_WAITING = 1 << 14
MOST_USED = 64


class Recorded:
    """A recorded function. name, callback: its names in errors."""

    callback = "backward"
    has_states = False  # Whether its backward pass may write auxiliary states.
    wants_wanted = False  # Its gradients fail where nobody should have asked for them.
    # Set when it is recorded: the inputs' values then, and whether they have histories; None: only the server knows.
    inputs: Sequence[Any] = ()
    histories: Sequence[Optional[bool]] = ()

    def __init__(self, name: str, session: Any, context: Any, training: bool, num_results: int) -> None:
        self.name = name
        self.session = session
        self.context = context
        self.training = training
        self.num_results = num_results

    def reads_head(self, place: int) -> bool:
        """Whether the gradients depend on the gradient of this result."""
        return True

    def gradients(self, heads: Sequence[Any], wanted: Sequence[bool], kinds: Sequence[Kind] = ()) -> List[NDArray]:
        """The gradients of its inputs, from those of its results (None: it does not read that one). Runs the user's code,
        within `within`. kinds: of the inputs, where they are known."""
        raise NotImplementedError

    def recorded_gradients(self, heads: Sequence[Any]) -> List[NDArray]:
        """The same of all inputs, recorded, with the histories of the inputs and results that are read. MXNetError: it is
        not offered."""
        raise MXNetError(
            f"the gradient of '{self.name}' cannot be recorded (create_graph=True): write it as an "
            "mx.operator.CustomOp or an autograd.Function, whose backward computes with mx.nd"
        )

    def kinds(self) -> List[Kind]:
        """The inputs' kinds."""
        for each in self.inputs:
            if each.dtype is None or each._shape is None:
                each.shape  # Asks the server.
        return [Kind(each._shape, each._dtype) for each in self.inputs]

    @contextlib.contextmanager
    def within(self, called_back: bool, recording: bool = False) -> Iterator[None]:
        """Around the user's code and the use of its results."""
        with inside(self.training, self.context, called_back, recording), errors.calling(self.name, self.callback):
            yield


class Functions:
    """The functions of this process by number. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Recorded] = collections.OrderedDict()
        self._used: OrderedDict[int, Recorded] = collections.OrderedDict()
        self.most_results = 0

    def add(self, function: Recorded) -> int:
        """Keeps the function, and returns its number."""
        number = next(self._numbers)
        self.most_results = max(self.most_results, function.num_results)
        with self._lock:
            self._waiting[number] = function
            forgotten = self._waiting.popitem(last=False) if len(self._waiting) > MOST_WAITING else None
        del forgotten  # Frees arrays: not with the lock.
        return number

    def find(self, number: int) -> Recorded:
        """The function of this number, for its backward pass. MXNetError: it is forgotten."""
        with self._lock:
            function = self._waiting.pop(number, None) or self._used.pop(number, None)
            if function is None:
                raise MXNetError(
                    f"a recorded function of a custom operator is gone: {MOST_WAITING} others have been recorded since "
                    f"without a backward pass, or {MOST_USED} have had theirs; or it belongs to another process"
                )
            self._used[number] = function
            forgotten = self._used.popitem(last=False) if len(self._used) > MOST_USED else None
        del forgotten
        return function

    def release(self, numbers: Sequence[int]) -> None:
        """See the function of this name."""
        released: Deque[Any] = collections.deque()
        with self._lock:
            for number in numbers:
                released.append(self._waiting.pop(number, None) or self._used.pop(number, None))

    def __len__(self) -> int:
        return len(self._waiting) + len(self._used)


functions = Functions()


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: the recordings are the parent's."""
    global functions
    functions = Functions()


def add(function: Recorded) -> int:
    """Keeps a function that has been recorded, and returns its number."""
    tape.will_call_back(function.has_states)
    return functions.add(function)


def release(numbers: Sequence[int]) -> None:
    """Forgets functions that the server does not need any more."""
    functions.release(numbers)


def answer(
    number: int, out_grads: Sequence[np.ndarray], kinds: Sequence[Kind], wanted: Sequence[bool]
) -> List[Optional[np.ndarray]]:
    """The backward pass that the server asks for: values of the wanted gradients."""
    function = functions.find(number)
    heads = [read_only(function.session, function.context, values) for values in out_grads]
    with function.within(called_back=True):
        return wanted_values(function.gradients(heads, wanted, kinds), wanted)
