"""The structure that a graph was made of: Blocks, their children and parameters.

A HybridBlock keeps graphs that were made of all Blocks inside it, and learns of no change inside them. So each change counts
here, and a Block whose graphs were made before the last change compares the structure of then with that of now.
"""
from __future__ import annotations

from typing import Any, Iterator

_changes = 0


def count_change() -> None:
    """A Block has got another child or parameter, or a parameter another dtype."""
    global _changes
    _changes += 1


def changes() -> int:
    """How many changes there have been, of any Blocks."""
    return _changes


class Structure:
    """Equal for equal structures of the same Blocks and parameters. It holds these, so that a copy of it is that of a copy."""

    def __init__(self, block: Any) -> None:
        self._parts = list(_parts(block))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Structure) and self._parts == other._parts


def _parts(block: Any) -> Iterator[Any]:
    yield from (block, block._casts)
    for name, param in block._reg_params.items():
        yield from (name, param, param.dtype)
    for name, child in block._children.items():
        yield name
        yield from _parts(child)
