"""CachedOp: a symbol as a function of arrays."""

from __future__ import annotations

from ..symbol._cached_op import CachedOp

__all__ = ["CachedOp"]
