"""Nested lists and tuples of arrays: the inputs and outputs of a hybridized Block, as one flat list."""
from __future__ import annotations

from typing import Any, Iterator, List, Tuple

from .._array.array import NDArray
from ..symbol.symbol import Symbol

# A form tells how a value is nested: ARRAY, SEVERAL (a Symbol of n outputs: ("symbol", n)), NONE, or (type, forms...).
ARRAY = "array"
NONE = "none"


def flatten(value: Any, what: str) -> Tuple[List[Any], Any]:
    """The arrays (or Symbols) of `value` in order, and its form. `what` is "input" or "output", for the error."""
    flat: List[Any] = []
    return flat, _flatten(value, what, flat)


def _flatten(value: Any, what: str, flat: List[Any]) -> Any:
    if isinstance(value, NDArray):
        flat.append(value)
        return ARRAY
    if isinstance(value, Symbol):
        flat.append(value)
        count = len(value.list_outputs())
        return ARRAY if count == 1 else ("symbol", count)
    if value is None:
        return NONE
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return (kind,) + tuple(_flatten(item, what, flat) for item in value)
    raise ValueError(
        f"When hybridized, the {what} of HybridBlock must be (nested) list of Symbol or NDArray, "
        f"but got {value} of type {type(value)}"
    )


def mxnet_format(form: Any) -> Any:
    """A form as MXNet writes it: 0 an array, -1 None, n a Symbol of n outputs, and lists of these."""
    if form in (ARRAY, NONE):
        return 0 if form == ARRAY else -1
    return form[1] if form[0] == "symbol" else [mxnet_format(inner) for inner in form[1:]]


def regroup(flat: Iterator[Any], form: Any) -> Any:
    """The value of the given form, from the arrays in order."""
    if form == ARRAY:
        return next(flat)
    if form == NONE:
        return None
    if form[0] == "symbol":
        return [next(flat) for _ in range(form[1])]
    items = [regroup(flat, inner) for inner in form[1:]]
    return tuple(items) if form[0] == "tuple" else items


def regroup_first(args: Any, form: Any) -> Tuple[Any, List[Any]]:
    """The value of the given form from the first arrays of a list, and the other arrays."""
    rest = iter([args] if isinstance(args, (NDArray, Symbol)) else args)
    return regroup(rest, form), list(rest)


def size(form: Any) -> int:
    """How many arrays a value of this form has."""
    if form == ARRAY:
        return 1
    if form == NONE:
        return 0
    return form[1] if form[0] == "symbol" else sum(size(inner) for inner in form[1:])
