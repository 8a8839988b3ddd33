"""The function that pickles of NDArrays named once."""

from __future__ import annotations

from .._array.array import restore

__all__ = ["restore"]
