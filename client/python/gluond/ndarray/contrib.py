"""Operators that MXNet keeps apart: `nd.contrib.box_iou(a, b)`."""

from __future__ import annotations

from .._array import calls as _calls
from .._array.array import NDArray
from .._array.control_flow import cond, foreach, while_loop
from .._array.create import array
from .._array.functions_of_operators import make_function
from .._documentation import fill_module

_INF = float("inf")


def isinf(data: NDArray) -> NDArray:
    """Ones where an element is infinite, zeros elsewhere."""
    return data.abs() == _INF


def isfinite(data: NDArray) -> NDArray:
    """Ones where an element is neither infinite nor NaN."""
    return (data == data) * (data.abs() != _INF)


def isnan(data: NDArray) -> NDArray:
    """Ones where an element is NaN."""
    return data != data


def boolean_mask(data: NDArray, index: NDArray, axis: int = 0) -> NDArray:
    """The slices of `data` along `axis` where `index` is not 0. Waits for `index`: it tells the result's shape."""
    chosen = array(index.asnumpy().ravel().nonzero()[0], index.context, "int64")
    return _calls.invoke(_calls.intern("take", {"axis": str(axis)}, 2, 1), (data, chosen))


__getattr__, __dir__ = fill_module(globals(), make_function, ("_contrib_",))
