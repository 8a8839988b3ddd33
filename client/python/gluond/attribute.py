"""Attributes that all symbols made inside a `with` block get: `with mx.AttrScope(ctx_group="stage1"):`."""

from __future__ import annotations

import threading
from typing import Any, Mapping, Optional

from .base import class_property

__all__ = ["AttrScope", "current"]


class AttrScope:
    """Gives attributes to the symbols made inside. Inner scopes add to the outer ones', and win."""

    _current: "_Current"
    current: Any  # The innermost scope.

    def __init__(self, **kwargs: str) -> None:
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ValueError("Attributes need to be string")
        self._attr: dict[str, str] = kwargs
        self._outer: list[tuple[AttrScope, dict[str, str]]] = []

    def get(self, attr: Optional[Mapping[str, str]]) -> dict[str, str]:
        """The scope's attributes with `attr` over them."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> "AttrScope":
        outer = AttrScope._current.value
        self._outer.append((outer, self._attr))
        self._attr = {**outer._attr, **self._attr}
        AttrScope._current.value = self
        return self

    def __exit__(self, *exc: object) -> None:
        AttrScope._current.value, self._attr = self._outer.pop()


class _Current(threading.local):
    """The innermost scope, for each thread its own."""

    def __init__(self) -> None:
        self.value = AttrScope()


AttrScope._current = _Current()


def current() -> AttrScope:
    """The innermost scope of this thread."""
    return AttrScope._current.value


AttrScope.current = class_property(current)
