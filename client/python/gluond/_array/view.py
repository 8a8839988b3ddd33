"""Views: what `x[1:3]` and `x.reshape(...)` give. A view has no memory of its own: it reads from its root (an array that
is no view), and what is written to it is written there.

The server knows no views. So a view is a range of the root's elements, in row-major order, and a shape; its own array on
the server is made when it is first needed, and again when the root was written since.
"""

from __future__ import annotations

from math import prod
from typing import Any, Tuple

import numpy as np

from .._wire.encoding import names
from .._wire.frame import NOT_RECORDING, frame
from . import calls


class Viewing:
    """The methods of a view that differ from NDArray's: elements [begin, begin + size) of `root`, in a given shape. The slots
    are those of the class that is a view and an array: `self: Any` where one is set."""

    __slots__ = ()
    _root: Any

    def __init__(self: Any, root: Any, begin: int, shape: Tuple[int, ...]) -> None:
        self._session = root._session
        self._context = root._context
        self._shape = shape
        self._dtype = root._dtype
        self._grad = None
        self._root = root
        self._begin = begin
        self._own = next(names)
        self._exists = False
        self._seen = -1
        if frame().recording:
            self._read(frame().flags)

    def _view(self, begin: int, shape: Tuple[int, ...]) -> Any:
        return type(self)(self._root, self._begin + begin, shape)

    @property
    def _name(self) -> bytes:
        if self._seen != self._root._version:
            self._read(NOT_RECORDING)
        return self._own

    def asnumpy(self) -> np.ndarray:
        """As NDArray.asnumpy; takes the root's values if they are here, or would soon be."""
        values = self._root._fetched_for_elements()
        if values is None:
            return super().asnumpy()  # type: ignore[misc]
        return values.reshape(-1)[self._begin:self._begin + prod(self._shape)].reshape(self._shape).copy()

    @property
    def _version(self) -> int:
        return self._root._version

    def _follow(self: Any) -> None:
        """The root has been brought to another session."""
        self._session = self._root._session
        self._exists = False
        self._seen = -1

    def _read(self: Any, flags: bytes) -> None:
        """Copies the root's elements into this view's own array."""
        self._exists = True
        root, size = self._root, prod(self._shape)
        version = root._version
        steps = []
        shape = root.shape
        if size != prod(shape):
            row = prod(shape[1:])
            if self._begin % row or size % row:
                steps.append(_reshape((-1,)))
                shape, row = (prod(shape),), 1
            begin = self._begin // row
            steps.append(calls.intern("slice_axis", {"axis": "0", "begin": str(begin), "end": str(begin + size // row)}, 1, 1))
            shape = (size // row,) + shape[1:]
        if shape != self._shape or not steps:
            steps.append(_reshape(self._shape))
        self._run(steps, root._name, self._own, flags)
        self._seen = version  # Only now: another thread may want to read it as well.

    def _written(self: Any) -> None:
        """Copies this view's own array into the root."""
        root, size = self._root, prod(self._shape)
        shape = root.shape
        if size == prod(shape):
            self._run([_reshape(shape)], self._own, root._name, NOT_RECORDING)
        else:
            row = prod(shape[1:])
            if self._begin % row == 0 and size % row == 0:
                begin = self._begin // row
                part = self._run([_reshape((size // row,) + shape[1:])], self._own, next(names), NOT_RECORDING)
                self._assign(root._name, part, begin, begin + size // row, root._name)
            else:
                flat = self._run([_reshape((-1,))], root._name, next(names), NOT_RECORDING)
                part = self._run([_reshape((-1,))], self._own, next(names), NOT_RECORDING)
                self._assign(flat, part, self._begin, self._begin + size, flat)
                self._run([_reshape(shape)], flat, root._name, NOT_RECORDING)
                self._session.dead_arrays.append(flat)
            self._session.dead_arrays.append(part)
        root._written()
        self._seen = root._version

    def _run(self, steps: list, source: bytes, target: bytes, flags: bytes) -> bytes:
        """Applies calls of one input and output one after the other; the last one's output is `target`."""
        session = self._session
        for place, call in enumerate(steps):
            ready = call.ready
            if ready[0] is not session:
                ready = call.prepare(session)
            out = target if place + 1 == len(steps) else next(names)
            session.submit(ready[1] + source + ready[2] + out + flags)
            if place:
                session.dead_arrays.append(source)
            source = out
        return target

    def _assign(self, whole: bytes, part: bytes, begin: int, end: int, target: bytes) -> None:
        call = calls.intern("_slice_assign", {"begin": f"({begin},)", "end": f"({end},)"}, 2, 1)
        ready = call.ready
        if ready[0] is not self._session:
            ready = call.prepare(self._session)
        self._session.submit(ready[1] + whole + part + ready[2] + target + NOT_RECORDING)

    def __del__(self) -> None:
        if self._exists:
            self._session.dead_arrays.append(self._own)


def _reshape(shape: Tuple[int, ...]) -> calls.Call:
    return calls.intern("Reshape", {"shape": f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"}, 1, 1)
