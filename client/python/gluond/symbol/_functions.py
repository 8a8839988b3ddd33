"""The functions of `mx.sym`, made of the server's descriptions of its operators when they are first used."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

from .._operators import OperatorInfo
from . import _functions_of_symbols
from ._outputs import Outputs
from .symbol import Symbol


def make(info: OperatorInfo, called: str) -> Callable[..., Symbol]:
    """The function for an operator; `called` is how automatic names begin."""
    return _functions_of_symbols.make(Symbol, info, called)


def call(
    op: str, tensors: Sequence[Optional[Outputs]], named: Mapping[str, Outputs], attributes: Mapping[str, Any], **how: Any
) -> Symbol:
    """The operator applied to symbols. name, hint, attr: of the node."""
    return _functions_of_symbols.call(Symbol, op, tensors, named, attributes, **how)
