"""Symbols that are made without an input: `zeros`, `ones`, `full`, `arange`, `linspace`, `eye`; and others' helpers."""

from __future__ import annotations

import numbers
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from .._custom.registry import attribute_text
from ..base import MXNetError
from ._functions import call
from .symbol import Symbol

Shape = Union[int, Sequence[int]]


def zeros(shape: Shape, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of zeros; dtype float32 by default."""
    return call("_zeros", [], {}, {"shape": shape, "dtype": dtype or "float32"}, **kwargs)


def ones(shape: Shape, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of ones; dtype float32 by default."""
    return call("_ones", [], {}, {"shape": shape, "dtype": dtype or "float32"}, **kwargs)


def full(shape: Shape, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of `val`; dtype float32 by default."""
    return call("_full", [], {}, {"shape": shape, "dtype": dtype or "float32", "value": float(val)}, **kwargs)


def arange(
    start: float,
    stop: Optional[float] = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: Optional[str] = None,
    dtype: Any = None,
) -> Symbol:
    """Evenly spaced values, each `repeat` times: from 0 to `start`, or from `start` to below `stop`."""
    return call(
        "_arange",
        [],
        {},
        {"start": start, "stop": stop, "step": step, "repeat": repeat, "infer_range": infer_range, "dtype": dtype or "float32"},
        name=name,
    )


def linspace(start: float, stop: float, num: int, endpoint: bool = True, name: Optional[str] = None, dtype: Any = None) -> Symbol:
    """`num` evenly spaced values from `start` to `stop`."""
    return call(
        "_linspace",
        [],
        {},
        {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype or "float32"},
        name=name,
    )


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:  # noqa: N803
    """An N x M matrix (M = 0: N x N) with ones on the k-th diagonal."""
    return call("_eye", [], {}, {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, **kwargs)


def split_v2(ary: Symbol, indices_or_sections: Union[int, Sequence[int]], axis: int = 0, squeeze_axis: bool = False) -> Symbol:
    """The pieces of an array along an axis: so many equal ones, or those that begin at the given indices."""
    return ary.split_v2(indices_or_sections, axis, squeeze_axis)


def histogram(a: Symbol, bins: Any = 10, range: Optional[Tuple[float, float]] = None, **kwargs: Any) -> Symbol:  # noqa: A002
    """The numbers of elements in each bin, and the bins' edges (symbol or number of bins in a range)."""
    if isinstance(bins, Symbol):
        return call("_histogram", [a, bins], {}, {}, **kwargs)
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return call("_histogram", [a], {}, {"bin_cnt": bins, "range": range}, **kwargs)


def _of_two(left: Any, right: Any, op: str, scalar: str, reverse: str, hint: str, numeric: Callable[[Any, Any], Any]) -> Any:
    """An operator on symbols and numbers, whichever comes first."""
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        return call(op, [left, right], {}, {})
    if isinstance(left, Symbol) and isinstance(right, numbers.Number):
        return call(scalar, [left], {}, {"scalar": right}, hint=hint)
    if isinstance(left, numbers.Number) and isinstance(right, Symbol):
        return call(reverse, [right], {}, {"scalar": left}, hint=hint if reverse == scalar else "_r" + hint[1:])
    if isinstance(left, numbers.Number) and isinstance(right, numbers.Number):
        return numeric(left, right)
    raise TypeError(f"types ({type(left)}, {type(right)}) not supported")


def pow(base: Any, exp: Any) -> Any:  # noqa: A001
    """base ** exp, elementwise, of symbols of one shape or numbers."""
    return _of_two(base, exp, "_power", "_power_scalar", "_rpower_scalar", "_powerscalar", lambda a, b: a**b)


power = pow


def maximum(left: Any, right: Any) -> Any:
    """The greater of each two elements, of symbols of one shape or numbers."""
    return _of_two(left, right, "_maximum", "_maximum_scalar", "_maximum_scalar", "_maximumscalar", max)


def minimum(left: Any, right: Any) -> Any:
    """The smaller of each two elements, of symbols of one shape or numbers."""
    return _of_two(left, right, "_minimum", "_minimum_scalar", "_minimum_scalar", "_minimumscalar", min)


def hypot(left: Any, right: Any) -> Any:
    """sqrt(left^2 + right^2), elementwise, of symbols of one shape or numbers."""
    return _of_two(left, right, "_hypot", "_hypot_scalar", "_hypot_scalar", "_hypotscalar", lambda a, b: (a**2 + b**2) ** 0.5)


def Custom(*args: Symbol, op_type: Optional[str] = None, name: Optional[str] = None, **kwargs: Any) -> Symbol:
    """A custom operator registered with `mx.operator.register(op_type)`.

    Inputs by position, or by the names that its CustomOpProp lists; those left out become variables. All other
    arguments go to the prop, as text.
    """
    if op_type is None:
        raise MXNetError("Required argument `op_type` is missing.")
    named = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
    attrs = {key: attribute_text(value) for key, value in kwargs.items() if key != "attr" and not isinstance(value, Symbol)}
    return call("Custom", args, named, {"op_type": op_type, **attrs}, name=name, attr=kwargs.get("attr"))
