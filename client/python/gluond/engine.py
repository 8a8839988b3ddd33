"""How commands travel. They are always sent in batches as large as the moment allows, so there is nothing to set; the
functions are here for programs that set it."""

from __future__ import annotations

import contextlib
from typing import Iterator

__all__ = ["bulk", "set_bulk_size"]

_size = 15


def set_bulk_size(size: int) -> int:
    """Remembers the size; returns the one before. It changes nothing."""
    global _size
    before, _size = _size, size
    return before


@contextlib.contextmanager
def bulk(size: int) -> Iterator[None]:
    """Within, the size is this one. It changes nothing."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
