"""Storage types: there is one."""

from __future__ import annotations

from typing import Optional

from .. import _composed
from .._array.array import NDArray
from . import _internal


def cast_storage(data: NDArray, stype: str, name: Optional[str] = None) -> NDArray:
    """A copy of the data: all storage is dense. MXNetError: another kind than `default` is asked for."""
    return _composed.cast_storage(_internal, data, stype)
