"""The functions of `mx.sym`, made of what the server says of its operators when they are first used."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

from .._attributes import is_hidden
from .._documentation import document, signature
from .._operators import OperatorInfo
from . import _compose
from ._attributes import SHORT
from .symbol import Symbol


def make(info: OperatorInfo, called: str) -> Callable[..., Symbol]:
    """The function for an operator; `called` is how automatic names begin."""
    def function(*args: Any, **kwargs: Any) -> Symbol:
        hidden = {key: str(kwargs.pop(key)) for key in list(kwargs) if is_hidden(key) or key in SHORT}
        parsed = info.parse(args, kwargs, Symbol, "Symbol", ("name", "attr", "out"))
        return call(info.name, parsed.tensors, parsed.named, parsed.attributes, name=parsed.rest.get("name"),
                    hint=called, attr={**(parsed.rest.get("attr") or {}), **hidden})

    function.__name__ = function.__qualname__ = called
    function.__module__ = __package__
    function.__doc__ = document(info, "Symbol")
    function.__signature__ = signature(info, out=False)  # type: ignore[attr-defined]
    return function


def call(op: str, tensors: Sequence[Optional[Symbol]], named: Mapping[str, Symbol], attributes: Mapping[str, Any], *,
         name: Optional[str] = None, hint: Optional[str] = None, attr: Optional[Mapping[str, str]] = None) -> Symbol:
    """The operator applied to symbols."""
    entries = [None if symbol is None else symbol._entry(str(place)) for place, symbol in enumerate(tensors)]
    return Symbol(_compose.apply(op, entries, {key: symbol._entry(key) for key, symbol in named.items()}, attributes,
                                 name=name, hint=hint, attr=attr))
