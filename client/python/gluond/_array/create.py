"""New NDArrays: from values of this program, and made by the server (zeros, arange, ...)."""

from __future__ import annotations

import math
import operator
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from .._attributes import dense_only, text
from .._wire.frame import frame
from .._wire.tensors import in_numpy
from ..base import MXNetError
from ..context import Context, current_context
from . import transfer
from .array import NDArray
from .where import OnServer

Shape = Union[int, Sequence[int]]
_F32 = np.dtype(np.float32)
# Values of so many bytes stay here as well, for custom operators that read them.
_KEPT_BYTES = 4 << 10


def _dtype(dtype: Any) -> np.dtype:
    return _F32 if dtype is None else np.dtype(dtype)


def array(source_array: Any, ctx: Optional[Context] = None, dtype: Any = None) -> NDArray:
    """An NDArray of the values of a list, a numpy array or another NDArray.

    dtype: Default: an NDArray's own, else float32, whatever a numpy array's is.
    """
    if isinstance(source_array, NDArray):
        dtype = _dtype(source_array.dtype if dtype is None else dtype)
        return source_array.as_in_context(ctx or current_context()).astype(dtype)
    dtype = _dtype(dtype)
    try:
        values = np.asarray(source_array, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"source_array must be array like object ({error})") from None
    make_local = frame().make_local
    if make_local is not None:
        return make_local(_own(values, source_array), ctx, dtype)
    made_here = transfer.put(NDArray, values, ctx, dtype)
    if values.nbytes <= _KEPT_BYTES:
        made_here._where = OnServer(0, _own(values, source_array), is_constant=True)
    return made_here


def _own(values: np.ndarray, source: Any) -> np.ndarray:
    """The values, which np.asarray has made of the source; a copy if somebody else has them, too."""
    is_new = type(source) in (list, tuple, np.ndarray) and values is not source and values.base is None
    return values if is_new else values.copy()


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """An NDArray of these values, in their dtype. They are always copied: the server is another process."""
    return transfer.put(NDArray, ndarray, None, np.dtype(ndarray.dtype))


def _shape(shape: Shape) -> Tuple[int, ...]:
    try:
        return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(operator.index(size) for size in shape)
    except TypeError:
        raise MXNetError(f"Invalid Parameter format for shape expect tuple of int but value={shape!r}") from None


def _known(shape: Shape) -> Tuple[int, ...]:
    """MXNetError: 0 is an unknown size, and () an unknown shape, without numpy's shapes."""
    sizes = _shape(shape)
    if (not sizes or 0 in sizes) and not frame().np_shape:
        raise MXNetError(f"The shape {sizes} is not known: 0 is an unknown size, and () an unknown shape, but within mx.np_shape()")
    return sizes


def _filled(
    op: str,
    value: float,
    attributes: Dict[str, str],
    ctx: Optional[Context],
    sizes: Tuple[int, ...],
    dtype: np.dtype,
    out: Optional[NDArray] = None,
) -> NDArray:
    if not sizes and out is None:  # The server's operators give one number the shape (1,).
        return transfer.put(NDArray, np.full((), value, in_numpy(dtype)), ctx, dtype)
    return transfer.made(NDArray, op, attributes, ctx, sizes, dtype, out)


def empty(shape: Shape, ctx: Optional[Context] = None, dtype: Any = None, stype: Optional[str] = None) -> NDArray:
    """An array whose values do not matter. They are zeros."""
    dense_only("empty", stype)
    return _filled("_zeros", 0, {}, ctx, _shape(shape), _dtype(dtype))


def zeros(
    shape: Shape,
    ctx: Optional[Context] = None,
    dtype: Any = None,
    stype: Optional[str] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """An array of zeros. dtype: default float32."""
    dense_only("zeros", stype)
    return _filled("_zeros", 0, {}, ctx, _known(shape), _dtype(dtype), out)


def ones(
    shape: Shape, ctx: Optional[Context] = None, dtype: Any = None, out: Optional[NDArray] = None, name: Optional[str] = None
) -> NDArray:
    """An array of ones. dtype: default float32."""
    return _filled("_ones", 1, {}, ctx, _known(shape), _dtype(dtype), out)


def full(shape: Shape, val: Any, ctx: Optional[Context] = None, dtype: Any = None, out: Optional[NDArray] = None) -> NDArray:
    """An array of one value. dtype: default float32."""
    return _filled("_full", val, {"value": repr(float(val))}, ctx, _known(shape), _dtype(dtype), out)


def arange(
    start: float,
    stop: Optional[float] = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: Any = None,
    ctx: Optional[Context] = None,
    dtype: Any = None,
) -> NDArray:
    """start, start + step, ... up to before `stop`, each `repeat` times. With one number: 0, 1, ... up to before it."""
    if stop is None:
        start, stop = 0, start
    shape = (max(0, math.ceil((stop - start) / step)) * repeat,)
    attributes = {"start": text(start), "stop": text(stop), "step": text(step), "repeat": text(repeat)}
    out = transfer.made(NDArray, "_arange", attributes, ctx, None, _dtype(dtype))
    out._shape = shape
    return out


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: Optional[Context] = None, dtype: Any = None
) -> NDArray:
    """`num` evenly spaced values from start to stop, with stop itself if `endpoint`."""
    return transfer.put(NDArray, np.linspace(start, stop, num, endpoint, dtype=_dtype(dtype)), ctx, _dtype(dtype))


def eye(N: int, M: int = 0, k: int = 0, ctx: Optional[Context] = None, dtype: Any = None, name: Optional[str] = None) -> NDArray:
    """N x M (default N x N) zeros, with ones on diagonal k."""
    out = transfer.made(NDArray, "_eye", {"N": text(N), "M": text(M), "k": text(k)}, ctx, None, _dtype(dtype))
    out._shape = (N, M or N)
    return out
