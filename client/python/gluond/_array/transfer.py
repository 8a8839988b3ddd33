"""Values between numpy and the server."""

from __future__ import annotations

from math import prod
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .._attributes import dtype_name, text
from .._wire import connect, encoding
from .._wire.errors import TooLarge
from .._wire.frame import frame
from .._wire.session import split
from .._wire.tensors import DTYPE_OF, flag_of
from ..base import WrongShape
from ..context import Context, current_context
from . import calls
from .where import ON_SERVER

# From this size on, an array of the server's CPU comes in pieces, which stay in the processor's cache while they are copied.
_LARGE_BYTES = 4 << 20
_PIECE_BYTES = 1 << 20


def put(kind: type, values: np.ndarray, context: Optional[Context], dtype: np.dtype) -> Any:
    """A new array, of this class, of these values. They are copied before this returns."""
    session = connect.current()
    context = context or current_context()
    array = calls.blank(kind, session, context, values.shape, dtype)
    send(array, values)
    return array


def send(array: Any, values: np.ndarray, name: Optional[bytes] = None) -> None:
    """Gives an array of this shape new values, in its own dtype. name: default, the array's."""
    values = np.ascontiguousarray(values, array._dtype).reshape(array._shape)
    session = array._session
    if values.nbytes > session.max_tensor_bytes:
        _send_in_pieces(array, values.reshape(-1), name or array._sent())
    else:
        _send_whole(session, name or array._sent(), values, array._context._device)


def bring(array: Any, values: np.ndarray) -> None:
    """In a forked child: an array of the parent's becomes one of this process's session, with these values."""
    array._session = connect.current()
    array._name, array._where = next(encoding.names), ON_SERVER
    array._shape, array._dtype, array._grad = values.shape, values.dtype, None
    ON_SERVER.forget(array)
    send(array, values)


def _send_whole(session: Any, name: bytes, values: np.ndarray, device: str) -> None:
    head = encoding.put_head(name, values.shape, flag_of(values.dtype), values.nbytes, device)
    session.submit(head, values.data.cast("B") if values.nbytes else memoryview(b""))


def _send_in_pieces(array: Any, values: np.ndarray, name: bytes) -> None:
    """Sends a tensor that is too large for a message in pieces, which the server joins under this name."""
    session = array._session
    pieces = []
    for begin, end in split(values.size, session.max_tensor_bytes // values.itemsize):
        piece = calls.blank(type(array), session, array._context, (end - begin,), array._dtype)
        _send_whole(session, piece._name, values[begin:end], array._context._device)
        pieces.append(piece)
    joined = calls.invoke(calls.intern("Concat", {"num_args": str(len(pieces)), "dim": "0"}, len(pieces), 1), pieces)
    shaped = calls.invoke(calls.intern("Reshape", {"shape": text(array._shape)}, 1, 1), (joined,))
    session.submit(encoding.assign(name, shaped._sent()))


def fetch(array: Any) -> np.ndarray:
    """An array's values."""
    session = array._session
    shape, dtype = array._shape, array._dtype
    nbytes = prod(shape) * dtype.itemsize if shape is not None and dtype is not None else 0
    if nbytes > session.max_tensor_bytes or nbytes >= _LARGE_BYTES and array._context.device_type.startswith("cpu"):
        return _fetch_in_pieces(session, array._sent(), shape, dtype)
    try:
        values = session.fetch_one(array._sent())
    except TooLarge:
        values = _fetch_in_pieces(session, array._sent())
    array._shape = values.shape
    return values


def fetch_all(session: Any, names: Sequence[bytes]) -> List[np.ndarray]:
    """The values of several arrays, in one message if they fit."""
    try:
        return session.fetch(names)
    except TooLarge:
        return [
            session.fetch_one(name) if fits else _fetch_in_pieces(session, name) for name, fits in zip(names, _fit(session, names))
        ]


def _fit(session: Any, names: Sequence[bytes]) -> List[bool]:
    kinds = session.request(encoding.describe(names)).arrays
    return [prod(kind.shape) * DTYPE_OF[kind.dtype].itemsize <= session.max_tensor_bytes for kind in kinds]


def _fetch_in_pieces(
    session: Any, name: bytes, shape: Optional[Tuple[int, ...]] = None, dtype: Optional[np.dtype] = None
) -> np.ndarray:
    """The values of a large array at one moment; later writes do not matter."""
    host = "cpu" if "cpu" in session.devices else ""  # On a GPU the server would copy the whole array for each piece.
    snapshot = calls.blank(calls.Array, session, current_context(), shape, dtype)
    session.submit_later(encoding.assign(snapshot._name, name, host))
    if shape is None or dtype is None:
        snapshot._describe()
    piece = min(_PIECE_BYTES, session.max_tensor_bytes) if host else session.max_tensor_bytes
    return session.fetch_in_pieces(snapshot._name, snapshot._shape, snapshot._dtype, piece)


def made(
    kind: type,
    op: str,
    attributes: Dict[str, str],
    ctx: Optional[Context],
    shape: Optional[Tuple[int, ...]],
    dtype: np.dtype,
    out: Any = None,
) -> Any:
    """The result of an operator without inputs, on a device: an array of this class, or `out`."""
    context = (ctx or current_context()) if out is None else out._context
    if not isinstance(context, Context):
        context = Context(*_parse_context(context))
    session = connect.current() if out is None else out._session
    tail = encoding.invoke_device(context._device) + (b"" if out is None else frame().when_fresh)
    if shape is not None:
        attributes = {**attributes, "shape": text(shape)}
    attributes = {**attributes, "dtype": dtype_name(dtype)}
    call = calls.intern(op, attributes, 0, 1, len(tail))
    return calls.create(call, kind, session, context, shape, dtype, tail, out)


def _parse_context(name: str) -> Tuple[str, int]:
    kind, _, number = str(name).rstrip(")").partition("(")
    return kind, int(number or 0)


def fill(x: Any, value: Any) -> None:
    """x[:] = a number."""
    attributes = {"value": repr(float(value)), "shape": text(x.shape)}
    made(type(x), "_full", attributes, None, None, np.dtype(x.dtype), x)


def overwrite(target: Any, source: Any) -> None:
    """target[:] = source, of the same shape: in target's dtype, on target's device."""
    calls.check_writable(target, "write to")
    if frame().recording:
        calls.check_not_in_graph((target,), ())
    if source.shape != target.shape:
        raise WrongShape(f"the arrays have different shapes, {source.shape} and {target.shape}")
    if source.dtype != target.dtype:
        source = calls.invoke(calls.intern("Cast", {"dtype": dtype_name(target.dtype)}, 1, 1), (source,))
    if frame().when_fresh:
        calls.invoke(calls.intern("_copy", {}, 1, 1), (source.as_in_context(target._context),), target)
        return
    device = target._context._device if source._context != target._context else ""
    command = encoding.assign(target._sent(), source._sent(), device, frame().recording)
    calls.write((target,), lambda: target._session.submit(command))


def broadcast(source: Any, shape: Tuple[int, ...]) -> Any:
    """The NDArray repeated until it has this shape, as numpy assigns it; ValueError where it does not fit."""
    own = source.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != source.shape:
        source = source.reshape(own or (1,))
    return source if source.shape == shape else source.broadcast_to(shape)
