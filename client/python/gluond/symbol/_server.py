"""The server's descriptions of operators, and this process's own of the operator `Custom`."""

from __future__ import annotations

import ast
from typing import Any, Iterable, Mapping, Optional

from .. import _operators
from .._attributes import text, visible
from .._custom import graph as custom
from .._wire.frame import frame

Call = _operators.CallType


# Operators that make an array of their parameter `shape`.
_MAKERS = frozenset(("_zeros", "_ones", "_full"))


def describe(op: str, attrs: Mapping[str, str], num_inputs: int, node: str) -> Call:
    """A call's inputs and outputs, hidden attributes left aside. MXNetError: attributes that the operator refuses, or no
    such operator."""
    if op == "Custom":
        return custom.describe(attrs, node)
    return _operators.call_type(op, visible(attrs), num_inputs if _operators.find(op).several else 0)


def is_operator(name: str) -> bool:
    """Whether the server has an operator of this name, or this process may."""
    return name in _operators.operators() or name == "Custom"


def custom_needs_head_gradient(attrs: Mapping[str, str]) -> bool:
    """Whether a node of the operator `Custom` needs a head gradient."""
    return custom.needs_head_gradient(attrs)


def on_the_wire(op: Optional[str], attrs: Mapping[str, str], for_all: bool = False) -> tuple[dict[str, str], Any]:
    """The attributes of an operator's node that the server gets, and its CustomOperatorSpec or None. for_all: as any client's node."""
    if op == "Custom":
        return custom.on_the_wire(attrs, for_all)
    seen = visible(attrs)
    if "shape" in seen and op is not None and (op in _MAKERS or op.startswith("_random_")) and not frame().np_shape:
        seen["shape"] = with_unknowns(seen["shape"])
    return seen, None


def with_unknowns(shape: str) -> str:
    """A shape in which 0 is a size that follows from its readers, as a cell's batch, with -1 for it."""
    try:
        sizes = ast.literal_eval(shape)
    except (SyntaxError, ValueError):
        return shape  # The server says what is wrong with it.
    return text([-1 if size == 0 else size for size in sizes]) if isinstance(sizes, (tuple, list)) else shape


def in_a_file(op: Optional[str], attrs: Mapping[str, str]) -> Mapping[str, str]:
    """The attributes of a node that a file gets."""
    return custom.in_a_file(attrs) if op == "Custom" else attrs


def will_run(session: Any, op_types: Iterable[str]) -> None:
    """A session's server gets a graph with these custom operators."""
    custom.will_run(session, op_types)
