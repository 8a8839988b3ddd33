"""Host mode: while batches are being made, the samples of the package's own datasets are numpy arrays, which its own
transforms change, and one upload moves a whole batch.

A function, a subclass or a dataset of the program's is given NDArrays, as in MXNet; so is what stands before and behind
it. Datasets and transforms of the package say by an attribute `host_ready` that all their parts are the package's.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ... import ndarray
from ..._wire.frame import Within, frame

_PACKAGE = __name__.partition(".")[0]


def host_mode(active: bool = True) -> Within:
    """Samples made within are numpy arrays."""
    return Within(on_host=active)


def active() -> bool:
    """Whether samples are to be numpy arrays."""
    return frame().on_host


def sample(array: np.ndarray) -> Any:
    """A sample's array: numpy's in host mode, else an NDArray."""
    return array if frame().on_host else ndarray.array(array, dtype=array.dtype)


def is_own(thing: Any) -> bool:
    """Whether the package has written the whole of a dataset or a transform: a subclass may override any method."""
    return type(thing).__module__.partition(".")[0] == _PACKAGE


def is_ready(thing: Any) -> bool:
    """Whether a dataset or a transform works in host mode as it does otherwise."""
    return is_own(thing) and bool(getattr(thing, "host_ready", False))
