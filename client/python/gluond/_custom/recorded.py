"""Results of recorded functions.

Where the values of a result are here, the server hears of it and of its function only when an operator reads it. A backward
pass that begins at such a result, as at a loss, begins here instead: the function's own backward pass runs in the calling
thread, and the server goes on from the function's inputs. So the usual loss costs no callback, and is never sent.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._mode import mode
from .._wire import encoding
from ..ndarray import _call
from ..ndarray._array import NDArray
from . import functions
from .local import LocalArray, read_only, upload_lock
from .snapshots import constant, with_history
from .values import Kind, in_numpy


class _Untold(NamedTuple):
    """What the server has not been told of a result: where it comes from."""

    function: functions.Recorded
    inputs: List[Any]
    wanted: Optional[List[bool]]  # Of which inputs there are gradients to give; None: only the server knows.
    flags: bytes


class RecordedArray(LocalArray):
    """A result of a recorded function, whose values are here. See above."""

    __slots__ = ("_untold",)

    def __init__(self, session: Any, context: Any, kind: Kind, values: np.ndarray, untold: Optional[_Untold] = None,
                 sent: Optional[bytes] = None) -> None:
        super().__init__(session, context, kind, values, shared=True, sent=sent)
        self._untold = untold

    def _send(self) -> None:
        with upload_lock():
            untold, self._untold = self._untold, None
            if untold is None:
                super()._send()
                return
            values = LocalArray(self._session, self._context, Kind(self._shape, self._dtype), self._known(), shared=True)
            functions.tell(untold.function, untold.inputs, [values], [self._own], untold.flags)
            self._sent = self._exists = True

    def _changed(self) -> None:
        self._untold = None
        super()._changed()

    def _has_history(self) -> Optional[bool]:
        return True if self._grad is not None or self._untold is not None else None

    def _starts(self, gradient: Optional[NDArray], retain_graph: bool) -> List[Tuple[NDArray, Optional[NDArray]]]:
        untold = self._untold
        if untold is None or untold.wanted is None or gradient is not None and (
                gradient._shape != self._shape or gradient._dtype != self._dtype):
            return super()._starts(gradient, retain_graph)
        if not retain_graph:
            self._untold = None
        function, wanted = untold.function, untold.wanted
        kinds = [Kind(each._shape, each._dtype) for each in untold.inputs]
        with function.within(mode.called_back):
            gradients = function.gradients([self._head(function, gradient)], kinds, wanted)
            found = [(start, each) for start, each, is_wanted in zip(untold.inputs, gradients, wanted) if is_wanted]
            for _, each in found:
                each._name  # An error if what was assigned does not fit.
        return list(found)

    def _head(self, function: functions.Recorded, gradient: Optional[NDArray]) -> Any:
        """The gradient of this result, as the function gets it."""
        if not function.reads_head(0):
            return None
        if gradient is not None:
            return constant(gradient, lasting=False)
        return read_only(self._session, self._context, np.ones(self._shape, in_numpy(self._dtype)), self._dtype)


def record(function: functions.Recorded, inputs: Sequence[NDArray], results: Sequence[NDArray]) -> List[Any]:
    """The results as outputs of a recorded operation on the inputs."""
    session, context = function.session, inputs[0]._context
    values = [each._known() for each in results]
    if len(results) == 1 and values[0] is not None:
        wanted = _wanted(inputs)
        kind = Kind(results[0]._shape, results[0]._dtype)
        places = [constant(each, lasting=True) if each._has_history() is False else with_history(each) for each in inputs]
        untold = _Untold(function, places, wanted, mode.flags)
        return [RecordedArray(session, context, kind, values[0], untold)]
    outputs = [_call.blank(session, context, each._shape, each._dtype) if known is None else
               RecordedArray(session, context, Kind(each._shape, each._dtype), known, sent=next(encoding.names))
               for each, known in zip(results, values)]
    functions.tell(function, inputs, results, [each._name for each in outputs], mode.flags)
    return outputs


def _wanted(inputs: Sequence[NDArray]) -> Optional[List[bool]]:
    """Which of the inputs have a gradient to give; None: only the server knows."""
    found = [each._has_history() for each in inputs]
    if any(each._shape is None or each._dtype is None for each in inputs):
        return None
    if None not in found:
        return [bool(each) for each in found] if True in found else None
    # A single one that may have must have, or there is nothing to differentiate.
    return [each is None for each in found] if found.count(None) == 1 and True not in found else None
