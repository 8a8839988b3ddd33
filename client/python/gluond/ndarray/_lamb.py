"""Steps of LAMB on several weights. They write their arrays in place."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from .._array.array import NDArray
from . import op


def multi_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **parameters: Any,
) -> List[NDArray]:
    """A step on each weight, with its averages. parameters: those of lamb_update_phase1 and lamb_update_phase2."""
    return _steps(weights, grads, mean, var, None, step_count, lrs, wds, out, **parameters)


def multi_mp_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **parameters: Any,
) -> List[NDArray]:
    """A step on the float32 copy of each weight, which gets its value."""
    return _steps(weights, grads, mean, var, weights32, step_count, lrs, wds, out, **parameters)


def _steps(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Optional[Sequence[NDArray]],
    counts: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
    **parameters: Any,
) -> List[NDArray]:
    prefix = "" if weights32 is None else "mp_"
    direction, step = getattr(op, f"{prefix}lamb_update_phase1"), getattr(op, f"{prefix}lamb_update_phase2")
    found = []
    for number, weight in enumerate(weights):
        copies = [] if weights32 is None else [weights32[number]]
        moved = direction(weight, grads[number], mean[number], var[number], *copies, t=counts[number], wd=wds[number], **parameters)
        lengths = [op.norm(array).reshape((1,)) for array in (weight.astype(moved.dtype), moved)]
        found.append(
            step(
                weight,
                moved,
                *lengths,
                *copies,
                lr=lrs[number],
                lower_bound=lower_bound,
                upper_bound=upper_bound,
                out=weight if out is None else out[number],
            )
        )
    return found
