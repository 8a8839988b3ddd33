"""What the server says of operators, and what this process says of its own: the operator `Custom`."""

from __future__ import annotations

import ast
from typing import Any, Iterable, Mapping, Optional, Protocol

from .. import _operators
from .._attributes import text
from ._attributes import visible

Call = _operators.CallType


# Operators that make an array of their parameter `shape`.
_MAKERS = frozenset(("_zeros", "_ones", "_full"))


class CustomOperators(Protocol):
    """Answers for operators that this process computes itself. Set `custom` to one."""

    def describe(self, attrs: Mapping[str, str], node: str) -> Call:
        """What a node of that name with these attributes (`op_type` among them) takes and gives."""

    def needs_head_gradient(self, attrs: Mapping[str, str]) -> bool:
        """Whether its gradient depends on what comes from above (CustomOpProp's need_top_grad)."""

    def on_the_wire(self, attrs: Mapping[str, str]) -> dict[str, str]:
        """A node's attributes as the server needs them."""

    def in_a_file(self, attrs: Mapping[str, str]) -> dict[str, str]:
        """A node's attributes as a file needs them."""

    def will_run(self, session: Any, op_types: Iterable[str]) -> None:
        """Makes a session's server ready for a graph with these operators (their `op_type`)."""


custom: Optional[CustomOperators] = None


def describe(op: str, attrs: Mapping[str, str], num_inputs: int, node: str) -> Call:
    """What a call takes and gives, hidden attributes left aside. MXNetError: attributes that the operator refuses, or no such
    operator."""
    if op == "Custom" and custom is not None:
        return custom.describe(attrs, node)
    return _operators.call_type(op, visible(attrs), num_inputs if _operators.find(op).several else 0)


def is_operator(name: str) -> bool:
    """Whether the server has an operator of this name, or this process may."""
    return name in _operators.operators() or name == "Custom"


def custom_needs_head_gradient(attrs: Mapping[str, str]) -> bool:
    """Of a node of the operator `Custom`; no where nobody knows: ones are taken then."""
    return custom is not None and custom.needs_head_gradient(attrs)


def on_the_wire(op: Optional[str], attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes of an operator's node that the server gets."""
    if op == "Custom" and custom is not None:
        return custom.on_the_wire(attrs)
    seen = visible(attrs)
    if "shape" in seen and op is not None and (op in _MAKERS or op.startswith("_random_")):
        seen["shape"] = _with_unknowns(seen["shape"])
    return seen


def _with_unknowns(shape: str) -> str:
    """The shape that an operator is to make; 0 is a size that what uses it tells, as a recurrent cell's batch."""
    try:
        sizes = ast.literal_eval(shape)
    except (SyntaxError, ValueError):
        return shape  # The server says what is wrong with it.
    return text([-1 if size == 0 else size for size in sizes]) if isinstance(sizes, (tuple, list)) else shape


def in_a_file(op: Optional[str], attrs: Mapping[str, str]) -> Mapping[str, str]:
    """The attributes of a node that a file gets."""
    return custom.in_a_file(attrs) if op == "Custom" and custom is not None else attrs


def will_run(session: Any, op_types: Iterable[str]) -> None:
    """A session's server gets a graph with these custom operators."""
    if custom is not None:
        custom.will_run(session, op_types)
