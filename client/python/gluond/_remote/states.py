"""The states of an Optimizer by the names that the server has for them (GetOptimizerState)."""

from __future__ import annotations

from typing import Any, Dict

from .. import ndarray
from .._array.array import NDArray
from ..base import MXNetError
from ..optimizer._on_server import keeps_number, named_states
from ..optimizer._optimizer import Optimizer


def states(of: Optimizer, index: int, state: Any, is_half: bool) -> Dict[str, NDArray]:
    """The arrays of one weight's state, by name. is_half: whether the weight is of 16 bits.

    MXNetError: the server has no such optimizer.
    """
    if of._on_server is None:
        raise MXNetError(
            f"the server has no name for the states of the optimizer {type(of).__name__}; save without the "
            "trainer, or with another optimizer"
        )
    found = named_states(of, state, is_half)
    if keeps_number(of):
        key = of._on_server.number
        found[key] = ndarray.array([getattr(of, key).get(index, 0.0)], dtype="float64")
    return found
