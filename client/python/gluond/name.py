"""Automatic names of symbols: `fullyconnected0`, `fullyconnected1`, ... for those that are given none."""

from __future__ import annotations

import threading
from typing import Any, Optional

from ._wire.frame import change, enter, frame, leave
from .base import WithProperties, classproperty

__all__ = ["NameManager", "Prefix", "current"]


class NameManager(metaclass=WithProperties):
    """Gives names to symbols and blocks, by counting for each kind of thing. A `with` block puts another one in charge.

    >>> with mx.name.NameManager():
    ...     mx.sym.Variable("x").sum().name
    'sum0'
    """

    current: Any  # The manager in charge.

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}

    def get(self, name: Optional[str], hint: str) -> str:
        """`name` if there is one, else the next name that begins with `hint`."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> "NameManager":
        enter(self, names=self)
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self)


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


class _First(threading.local):
    """A thread's manager outside of `with` blocks."""

    def __init__(self) -> None:
        self.value = NameManager()


_first = _First()


def current() -> NameManager:
    """The manager in charge in this thread, or coroutine."""
    return frame().names or _first.value


NameManager.current = classproperty(lambda _: current(), lambda manager: change(names=manager))
