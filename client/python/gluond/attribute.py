"""Attributes that all symbols made inside a `with` block get: `with mx.AttrScope(ctx_group="stage1"):`."""

from __future__ import annotations

import collections
from typing import Any, DefaultDict, Mapping, Optional

from ._wire.frame import change, enter, frame, leave
from .base import WithProperties, classproperty

__all__ = ["AttrScope", "current"]


class AttrScope(metaclass=WithProperties):
    """Gives attributes to the symbols made inside. Inner scopes add to the outer ones', and win."""

    current: Any  # The innermost scope, with the attributes of the outer ones.
    _subgraph_names: DefaultDict[str, int] = collections.defaultdict(int)  # How many loops' parts have been named so.

    def __init__(self, **kwargs: str) -> None:
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ValueError("Attributes need to be string")
        self._attr: dict[str, str] = kwargs

    def get(self, attr: Optional[Mapping[str, str]]) -> dict[str, str]:
        """The scope's attributes with `attr` over them."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> "AttrScope":
        within = AttrScope(**current().get(self._attr))
        enter(self, attributes=within)
        return within

    def __exit__(self, *exc: object) -> None:
        leave(self)


_OUTERMOST = AttrScope()


def current() -> AttrScope:
    """The innermost scope of this thread, or coroutine."""
    return frame().attributes or _OUTERMOST


def count_part(name: str) -> int:
    """Counts a loop's part of this name. Returns how many there were before."""
    before = AttrScope._subgraph_names[name]
    AttrScope._subgraph_names[name] = before + 1
    return before


AttrScope.current = classproperty(lambda _: current(), lambda scope: change(attributes=scope))
