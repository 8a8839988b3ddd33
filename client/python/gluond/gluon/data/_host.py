"""Host mode: while batches are being made, samples are numpy arrays, and one upload moves a whole batch.

A sample that the program itself asks for, `dataset[0]`, is an NDArray, as in MXNet. Datasets and transforms that work on
numpy arrays as on NDArrays say so by an attribute `host_ready`. A program's own function is tried: if it gives the same
for the first samples either way, the others are made from numpy arrays; if not, they stay NDArrays.
"""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ... import ndarray
from ..._array.array import NDArray
from ..._wire.frame import Within, frame


def host_mode(active: bool = True) -> Within:
    """Samples made within are numpy arrays."""
    return Within(on_host=active)


def active() -> bool:
    """Whether samples are to be numpy arrays."""
    return frame().on_host


def sample(array: np.ndarray) -> Any:
    """A sample's array: numpy's in host mode, else an NDArray."""
    return array if frame().on_host else ndarray.array(array, dtype=array.dtype)


def is_ready(function: Any) -> bool:
    """Whether a dataset or a transform works in host mode as it does otherwise."""
    return bool(getattr(function, "host_ready", False))


def agrees(make: Callable[[], Any]) -> bool:
    """Whether `make()` gives the same in host mode as otherwise."""
    with host_mode(False):
        plain = make()
    try:
        with host_mode():
            return _same(make(), plain)
    except Exception:  # pylint: disable=broad-except  # The program's function; it wants NDArrays.
        return False


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(_same, left, right))
    left, right = (np.asarray(each.asnumpy() if isinstance(each, NDArray) else each) for each in (left, right))
    return left.shape == right.shape and left.dtype == right.dtype and bool(np.allclose(left, right, 1e-6, 0))
