"""Automatic names of symbols: `fullyconnected0`, `fullyconnected1`, ... for those that are given none."""

from __future__ import annotations

import threading
from typing import Any, Optional

from .base import class_property

__all__ = ["NameManager", "Prefix", "current"]


class NameManager:
    """Gives names to symbols and blocks, by counting for each kind of thing. A `with` block puts another one in charge.

    >>> with mx.name.NameManager():
    ...     mx.sym.Variable("x").sum().name
    'sum0'
    """

    _current: "_Current"
    current: Any  # The manager in charge.

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._old_managers: list[NameManager] = []

    def get(self, name: Optional[str], hint: str) -> str:
        """`name` if there is one, else the next name that begins with `hint`."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> "NameManager":
        self._old_managers.append(NameManager._current.value)
        NameManager._current.value = self
        return self

    def __exit__(self, *exc: object) -> None:
        NameManager._current.value = self._old_managers.pop()


class Prefix(NameManager):
    """Puts a prefix before every name, given or made.

    >>> with mx.name.Prefix("encoder_"):
    ...     mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc").name
    'encoder_fc'
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: Optional[str], hint: str) -> str:
        return self._prefix + super().get(name, hint)


class _Current(threading.local):
    """The manager in charge, for each thread its own."""

    def __init__(self) -> None:
        self.value = NameManager()


NameManager._current = _Current()


def current() -> NameManager:
    """The manager in charge on this thread."""
    return NameManager._current.value


NameManager.current = class_property(current)
