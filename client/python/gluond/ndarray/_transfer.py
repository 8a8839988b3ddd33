"""Values between numpy and the server."""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .._attributes import dtype_name, text
from .._mode import mode
from .._wire import connect, encoding
from .._wire.errors import TooLarge
from .._wire.session import split
from .._wire.tensors import DTYPE_OF, flag_of
from ..base import WrongShape
from ..context import Context, current_context
from . import _call


def put(values: np.ndarray, context: Optional[Context], dtype: np.dtype) -> Any:
    """A new NDArray of these values. They are copied before this returns."""
    session = connect.current()
    context = context or current_context()
    array = _call.blank(session, context, values.shape, dtype)
    send(array, values)
    return array


def send(array: Any, values: np.ndarray) -> None:
    """Gives an array of this shape new values, in its own dtype."""
    values = np.ascontiguousarray(values, array._dtype).reshape(array._shape)
    session = array._session
    if values.nbytes > session.max_tensor_bytes:
        _send_in_pieces(array, values.reshape(-1))
    else:
        _send_whole(session, array._name, values, array._context._device)


def _send_whole(session: Any, name: bytes, values: np.ndarray, device: str) -> None:
    head = encoding.put_head(name, values.shape, flag_of(values.dtype), values.nbytes, device)
    session.submit(head, values.data.cast("B") if values.nbytes else memoryview(b""))


def _send_in_pieces(array: Any, values: np.ndarray) -> None:
    """A tensor that is larger than a message may be: as pieces, which the server joins."""
    session = array._session
    pieces = []
    for begin, end in split(values.size, session.max_tensor_bytes // values.itemsize):
        piece = _call.blank(session, array._context, (end - begin,), array._dtype)
        _send_whole(session, piece._name, values[begin:end], array._context._device)
        pieces.append(piece)
    joined = _call.invoke(_call.intern("Concat", {"num_args": str(len(pieces)), "dim": "0"}, len(pieces), 1), pieces)
    shaped = _call.invoke(_call.intern("Reshape", {"shape": text(array._shape)}, 1, 1), (joined,))
    session.submit(encoding.assign(array._name, shaped._name))


def fetch(array: Any) -> np.ndarray:
    """An array's values."""
    session = array._session
    shape, dtype = array._shape, array._dtype
    if shape is not None and dtype is not None and prod(shape) * dtype.itemsize > session.max_tensor_bytes:
        return _fetch_in_pieces(session, array._name)
    try:
        values = session.fetch_one(array._name)
    except TooLarge:
        values = _fetch_in_pieces(session, array._name)
    array._shape = values.shape
    return values


def fetch_all(session: Any, names: Sequence[bytes]) -> List[np.ndarray]:
    """The values of several arrays, in one message if that holds them."""
    try:
        return session.fetch(names)
    except TooLarge:
        return [session.fetch_one(name) if fits else _fetch_in_pieces(session, name)
                for name, fits in zip(names, _fit(session, names))]


def _fit(session: Any, names: Sequence[bytes]) -> List[bool]:
    kinds = session.request(encoding.describe(names)).arrays
    return [prod(kind.shape) * DTYPE_OF[kind.dtype].itemsize <= session.max_tensor_bytes for kind in kinds]


def _fetch_in_pieces(session: Any, name: bytes) -> np.ndarray:
    """The values of an array that is larger than a message. They are those of one moment, whatever is written to it since."""
    snapshot = _call.blank(session, current_context(), None, None)
    session.submit(encoding.assign(snapshot._name, name))
    size, dtype = snapshot.size, snapshot._dtype
    flat = _call.invoke(_call.intern("Reshape", {"shape": "(-1,)"}, 1, 1), (snapshot,))
    values: Any = None
    for begin, end in split(size, session.max_tensor_bytes // dtype.itemsize):
        cut = _call.Call("slice_axis", (("axis", "0"), ("begin", str(begin)), ("end", str(end))), 1, 1)  # Not to be kept.
        piece = session.fetch_one(_call.invoke(cut, (flat,))._name)
        if values is None:
            values = np.empty(size, piece.dtype)
        values[begin:end] = piece
    return values.reshape(snapshot._shape)


def restore(values: np.ndarray, context: Context) -> Any:
    """The NDArray that was pickled: an array of these values."""
    return put(values, context, values.dtype)


def overwrite(target: Any, source: Any) -> None:
    """target[:] = source, of the same shape: in target's dtype, on target's device."""
    if mode.recording:
        _call.check_not_in_graph((target,), ())
    if source.shape != target.shape:
        raise WrongShape(f"the arrays have different shapes, {source.shape} and {target.shape}")
    if source.dtype != target.dtype:
        source = _call.invoke(_call.intern("Cast", {"dtype": dtype_name(target.dtype)}, 1, 1), (source,))
    if mode.when_fresh:
        _call.invoke(_call.intern("_copy", {}, 1, 1), (source.as_in_context(target._context),), target)
        return
    device = target._context._device if source._context != target._context else ""
    target._session.submit(encoding.assign(target._name, source._name, device, mode.recording))
    target._written()


def broadcast(source: Any, shape: Tuple[int, ...]) -> Any:
    """The NDArray repeated until it has this shape, as numpy assigns it; ValueError where it does not fit."""
    own = source.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != source.shape:
        source = source.reshape(own or (1,))
    return source if source.shape == shape else source.broadcast_to(shape)
