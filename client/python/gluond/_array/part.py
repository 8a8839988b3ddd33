"""Parts: where the values of a view are, which `x[1:3]` and `x.reshape(...)` give. A view has no memory of its own: it reads
from its root (an array that is no view), and what is written to it is written there.

The server knows no views. So a view is a range of the root's elements, in row-major order, and a shape; a copy of them on the
server is made when it is first needed, and again when the root was written since.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Tuple

import numpy as np

from .._wire.encoding import names
from .._wire.frame import NOT_RECORDING, frame
from . import calls
from .where import Place


def view(x: Any, begin: int, shape: Tuple[int, ...]) -> Any:
    """The array of elements [begin, ...) of x, in row-major order, in a shape of its own."""
    root, place = x, x._where
    is_part = type(place) is Part
    if is_part:
        root, begin = place.root, place.begin + begin
    part = Part(root, begin)
    out = calls.blank(type(root), root._session, root._context, shape, root._dtype, part)
    if frame().recording:
        part.read(out, frame().flags, x if is_part else None)
    return out


def follow(x: Any) -> None:
    """The root of this view has been brought to another session."""
    x._session = x._where.root._session
    x._where = Part(x._where.root, x._where.begin)


class Part(Place):
    """Elements [begin, begin + size) of `root`. own: the name of their copy on the server, once there is one; seen: the version
    of the root that it was made of."""

    __slots__ = ("root", "begin", "_own", "_seen")

    def __init__(self, root: Any, begin: int) -> None:
        self.root = root
        self.begin = begin
        self._own: Optional[bytes] = None
        self._seen: Optional[float] = None

    @property
    def writable(self) -> Any:
        """The root's."""
        return self.root.writable

    def send(self, x: Any) -> Any:
        if self._seen != self.root._version:
            self.read(x, NOT_RECORDING)
        return self._own

    def version(self, x: Any) -> Any:
        return self.root._version

    def ready(self, x: Any) -> Optional[np.ndarray]:
        values = self.root._values_for_elements()
        return None if values is None else values.reshape(-1)[self.begin : self.begin + x.size].reshape(x._shape)

    def free(self, x: Any) -> None:
        if self._own is not None:
            x._session.dead_arrays.append(self._own)

    def read(self, x: Any, flags: bytes, source: Any = None) -> None:
        """Copies the root's elements into the copy. source: another view that has them, to whose history this belongs."""
        root, size = self.root, prod(x._shape)
        version = root._version
        steps = []
        shape, first = root.shape, self.begin
        if source is not None:
            shape, first = source.shape, self.begin - source._where.begin
        if size != prod(shape):
            row = prod(shape[1:])
            if first % row or size % row:
                steps.append(_reshape((-1,)))
                shape, row = (prod(shape),), 1
            begin = first // row
            steps.append(calls.intern("slice_axis", {"axis": "0", "begin": str(begin), "end": str(begin + size // row)}, 1, 1))
            shape = (size // row,) + shape[1:]
        if shape != x._shape or not steps:
            steps.append(_reshape(x._shape))
        if self._own is None:
            self._own = next(names)
        _run(x._session, steps, (root if source is None else source)._sent(), self._own, flags)
        self._seen = version  # Only now: another thread may want to read it as well.

    def written(self, x: Any) -> None:
        """Copies the copy back into the root."""
        session, root, size = x._session, self.root, prod(x._shape)
        own: Any = self._own
        shape, name = root.shape, root._sent()
        if size == prod(shape):
            _run(session, [_reshape(shape)], own, name, NOT_RECORDING)
        else:
            row = prod(shape[1:])
            if self.begin % row == 0 and size % row == 0:
                begin = self.begin // row
                part = _run(session, [_reshape((size // row,) + shape[1:])], own, next(names), NOT_RECORDING)
                _assign(session, name, part, begin, begin + size // row, name)
            else:
                flat = _run(session, [_reshape((-1,))], name, next(names), NOT_RECORDING)
                part = _run(session, [_reshape((-1,))], own, next(names), NOT_RECORDING)
                _assign(session, flat, part, self.begin, self.begin + size, flat)
                _run(session, [_reshape(shape)], flat, name, NOT_RECORDING)
                session.dead_arrays.append(flat)
            session.dead_arrays.append(part)
        root._where.written(root)
        self._seen = root._version


def _run(session: Any, steps: List[calls.Call], source: bytes, target: bytes, flags: bytes) -> bytes:
    """Applies calls of one input and output one after the other; the last one's output is `target`."""
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


def _assign(session: Any, whole: bytes, part: bytes, begin: int, end: int, target: bytes) -> None:
    call = calls.intern("_slice_assign", {"begin": f"({begin},)", "end": f"({end},)"}, 2, 1)
    ready = call.ready
    if ready[0] is not session:
        ready = call.prepare(session)
    session.submit(ready[1] + whole + part + ready[2] + target + NOT_RECORDING)


def _reshape(shape: Tuple[int, ...]) -> calls.Call:
    return calls.intern("Reshape", {"shape": f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"}, 1, 1)
