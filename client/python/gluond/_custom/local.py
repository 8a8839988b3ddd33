"""Arrays whose values are in this process (_array/here.py), as the code of a custom operator gets and makes them."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from .. import context as _context
from .._array import calls, transfer
from .._array.array import NDArray
from .._array.here import Absent, Here, Later
from .._wire import connect
from .._wire.tensors import flag_of, in_numpy
from .values import Kind


def local(
    session: Any, context: Any, kind: Kind, values: Optional[np.ndarray] = None, *, writable: bool = True, is_shared: bool = False
) -> NDArray:
    """An array of these values; default zeros. is_shared: see Here."""
    if values is None:
        values = np.zeros(kind.shape, in_numpy(kind.dtype))
    array: NDArray = calls.blank(NDArray, session, context, kind.shape, kind.dtype, Here(values, writable, is_shared))
    return array


def read_only(session: Any, context: Any, values: np.ndarray, dtype: Optional[np.dtype] = None) -> NDArray:
    """An array that an operator only reads."""
    return local(session, context, Kind(values.shape, dtype or values.dtype), values, writable=False, is_shared=True)


def absent(session: Any, context: Any, op_type: str, what: str) -> NDArray:
    """A stand-in for a value that was not declared."""
    why = (
        f"{what} is not here: custom operator '{op_type}' has not declared that its backward pass reads it (need_top_grad, "
        "declare_backward_dependency)"
    )
    array: NDArray = calls.blank(NDArray, session, context, None, None, Absent(why))
    return array


def make(values: np.ndarray, context: Optional[_context.Context], dtype: np.dtype) -> NDArray:
    """The result of mx.nd.array() within a custom operator. `values` belongs to it from now on."""
    flag_of(dtype)
    return local(connect.current(), context or _context.current_context(), Kind(values.shape, dtype), values)


def source_of(array: NDArray) -> NDArray:
    """What was assigned to the whole of an array, as it was, or the array."""
    return array._where.source if isinstance(array._where, Later) else array


def values_of(arrays: Sequence[NDArray]) -> List[np.ndarray]:
    """The values of all, each of its own shape; those that are not here are fetched together."""
    missing = [array for array in arrays if array._where.here is None]
    names = [source_of(array)._sent() for array in missing]
    fetched = iter(transfer.fetch_all(missing[0]._session, names) if missing else ())
    return [_fitted(next(fetched), array) if array._where.here is None else array._where.here for array in arrays]


def _fitted(values: np.ndarray, array: NDArray) -> np.ndarray:
    """The values that were assigned to an array, in its shape."""
    shape = array._shape
    if shape is None or values.shape == shape:
        return values
    try:
        while values.ndim > len(shape) and values.shape[0] == 1:
            values = values[0]
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"an array of shape {values.shape} was assigned to one of shape {shape}") from None


def wanted_values(arrays: Sequence[NDArray], wanted: Sequence[bool]) -> List[Optional[np.ndarray]]:
    """The values of those that somebody wants."""
    found = iter(values_of([array for array, each in zip(arrays, wanted) if each]))
    return [next(found) if each else None for each in wanted]
