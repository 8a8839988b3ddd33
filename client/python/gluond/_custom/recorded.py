"""Results of recorded functions.

The server learns of a function only when an operator reads one of its results. A backward pass that begins at results
unknown to the server, as at a loss, begins here instead: the function's own backward pass runs in the calling thread,
and the server goes on from the function's inputs. So the usual loss costs no callback, and is never sent.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .._array import calls
from .._array.array import NDArray
from .._array.here import Local, upload_lock
from .._proto import graph_pb2
from .._wire import encoding
from .._wire.frame import frame
from .._wire.tensors import in_numpy
from ..base import MXNetError
from . import functions, hosts
from .local import local
from .snapshots import constant
from .values import Kind

# Arrays and their gradients.
Starts = List[Tuple[NDArray, NDArray]]


def tell(
    function: functions.Recorded, inputs: Sequence[Any], results: Sequence[Any], outputs: Sequence[bytes], flags: bytes
) -> None:
    """Has the server record the function: from then on it may ask for the gradients. outputs: names for the results."""
    session = function.session
    hosts.of(session)
    spec = graph_pb2.CustomOperatorSpec(
        function={"number": functions.add(function), "inputs": len(inputs), "outputs": len(results)}
    )
    call = calls.Call("_CustomFunction", (), len(inputs) + len(results), len(results), custom=spec)
    _, head, middle, _ = call.prepare(session)
    session.submit(
        b"".join((head, *[each._sent() for each in inputs], *[each._sent() for each in results], middle, *outputs, flags))
    )


class Recording:
    """A function that has been computed while recording. The server may not know it yet."""

    def __init__(self, function: functions.Recorded, results: Sequence[NDArray]) -> None:
        self.function = function
        self.results = results
        self.names = [next(encoding.names) for _ in results]
        self.is_told = False
        self._flags = frame().flags
        self._is_freed = False

    def tell(self) -> None:
        """Has the server record it, unless it has."""
        with upload_lock():
            if not self.is_told:
                names = self.names.copy()
                tell(self.function, self.function.inputs, self.results, names, self._flags)
                self.is_told = True
                # The names of results that nobody has any more.
                self.function.session.dead_arrays.extend([name for name, now in zip(names, self.names) if name is not now])

    def starts(self, heads: Sequence[Tuple[NDArray, Optional[NDArray]]], retain_graph: bool) -> Starts:
        """The inputs with their gradients, at which a backward pass goes on from results with theirs (None: ones)."""
        given: List[Optional[NDArray]] = [None] * len(self.results)  # None: zeros, or not read.
        for head, gradient in heads:
            place = head._where.number
            if self.function.reads_head(place):
                gradient = self.filled(place, np.ones, "ones_like") if gradient is None else constant(gradient)
                given[place] = gradient if given[place] is None else given[place] + gradient
        return self._go_on(given, retain_graph)

    def _go_on(self, heads: List[Optional[NDArray]], retain_graph: bool) -> Starts:
        function = self.function
        if self._is_freed:
            raise MXNetError(
                f"the {function.callback} of '{function.name}' has run, and what it needs is freed. Specify "
                "retain_graph=True when calling backward the first time, to differentiate the same graph twice"
            )
        self._is_freed = not retain_graph
        wanted = [each is not False for each in function.histories]
        with function.within(frame().called_back):
            given = [
                self.filled(place, np.zeros, "zeros_like") if head is None and function.reads_head(place) else head
                for place, head in enumerate(heads)
            ]
            found = list(zip(function.inputs, function.gradients(given, wanted)))
            for _, gradient in found:
                gradient._sent()  # An error if what was assigned does not fit.
        return [each for each, is_wanted in zip(found, wanted) if is_wanted]

    def filled(self, place: int, make: Any, op: str) -> NDArray:
        """Ones or zeros like a result."""
        result = self.results[place]
        if result._shape is None or result._dtype is None:
            return calls.invoke(calls.intern(op, {}, 1, 1), (result,))
        kind = Kind(result._shape, result._dtype)
        return local(result._session, result._context, kind, make(kind.shape, in_numpy(kind.dtype)), writable=False)


class Result(Local):
    """The place of a result of a recorded function: its number among the results. here: the values, if they are; others may have
    the same numpy array. The server gets to know them when one of its operators reads a result."""

    __slots__ = ("recording", "number", "here")

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording = recording
        self.number = number
        self.here = recording.results[number]._known()

    def send(self, x: Any) -> Any:
        self.recording.tell()
        x._name = self.recording.names[self.number]
        return x._name

    def leave(self, x: Any) -> Optional[bytes]:
        if not self.recording.is_told:
            self.recording.names[self.number] = encoding.NO_ARRAY
            return None
        return self.recording.names[self.number]

    def free(self, x: Any) -> None:
        names, number = self.recording.names, self.number
        name, names[number] = names[number], encoding.NO_ARRAY  # Also while the server is being told: see Recording.tell.
        if self.recording.is_told:
            x._session.dead_arrays.append(name)

    def ready(self, x: Any) -> Optional[np.ndarray]:
        is_told = self.recording.is_told
        return self.here if is_told or self.here is not None else self.recording.results[self.number].asnumpy()

    def has_history(self, x: Any) -> Optional[bool]:
        return True

    def computed_here(self, x: Any, gradient: Any) -> Optional[Recording]:
        if self.recording.is_told or gradient is not None and (gradient._shape != x._shape or gradient._dtype != x._dtype):
            return None
        return self.recording


def record(
    function: functions.Recorded, inputs: Sequence[NDArray], histories: Sequence[Optional[bool]], results: Sequence[NDArray]
) -> List[NDArray]:
    """The results as outputs of a recorded operation on the inputs, as `keep` gives them. histories: whether they have one;
    None: only the server knows."""
    function.inputs, function.histories = inputs, histories
    recorded = again(function, results)
    # A single one that may have a history must have, or there is nothing to differentiate.
    if function.wants_wanted and None in histories and (True in histories or histories.count(None) > 1):
        recorded[0]._sent()  # Only the server knows what is wanted.
    return recorded


def again(function: functions.Recorded, results: Sequence[NDArray]) -> List[NDArray]:
    """The same for a function that has been recorded."""
    recording = Recording(function, results)
    return [
        calls.blank(NDArray, each._session, each._context, each._shape, each._dtype, Result(recording, number))
        for number, each in enumerate(results)
    ]
