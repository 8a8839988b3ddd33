"""The states of an Optimizer by the names that the server has for them (GetOptimizerState)."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from .. import ndarray
from .._array.array import NDArray
from ..base import MXNetError
from ..optimizer._optimizer import Optimizer
from ..optimizer.sgd import SGD

# The names of a weight's arrays, by optimizer, in the order in which create_state() gives them.
_ARRAYS: Dict[str, Tuple[str, ...]] = {
    "adadelta": ("grads", "steps"),
    "adagrad": ("history",),
    "adam": ("mean", "var"),
    "adamax": ("mean", "max"),
    "ccsgd": ("mom",),
    "dcasgd": ("mom", "previous"),
    "ftml": ("d", "v", "z"),
    "ftrl": ("z", "n"),
    "groupadagrad": ("history",),
    "lamb": ("mean", "var"),
    "lars": ("mom",),
    "nadam": ("mean", "var"),
    "nag": ("mom",),
    "rmsprop": ("n", "g", "delta"),
    "sgd": ("mom",),
    "sgld": (),
    "signum": ("mom",),
}
# Tables of numbers by a weight's index, which are states on the server.
_NUMBERS = {"lars": "last_lr", "nadam": "m_schedule"}


def states(of: Optimizer, index: int, state: Any, is_half: bool) -> Dict[str, NDArray]:
    """The arrays of one weight's state, by name. is_half: whether the weight is of 16 bits.

    MXNetError: the server has no such optimizer.
    """
    name = type(of).__name__.lower()
    if name not in _ARRAYS:
        raise MXNetError(
            f"the server has no name for the states of the optimizer {type(of).__name__}; save without the "
            "trainer, or with another optimizer"
        )
    found: Dict[str, NDArray] = {}
    if is_half and of.multi_precision:
        # SGD keeps the weight in float32 behind its own state, the others before it.
        state, found["weight32"] = state if isinstance(of, SGD) else (state[1], state[0])
    parts = state if isinstance(state, tuple) else (state,)
    found.update({key: part for key, part in zip(_ARRAYS[name], parts) if part is not None})
    if name in _NUMBERS and (name != "lars" or of.momentum_correction and "mom" in found):  # type: ignore[attr-defined]
        key = _NUMBERS[name]
        found[key] = ndarray.array([getattr(of, key).get(index, 0.0)], dtype="float64")
    return found
