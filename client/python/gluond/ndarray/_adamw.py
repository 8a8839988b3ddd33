"""Steps of AdamW, whose weight decay is apart from the gradient: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
w -= eta (lr m / (sqrt(v) + epsilon) + wd w). They write their arrays in place.

`rescale_grad` is an array, or a number; where it is 0, infinite or NaN, nothing is changed.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from .._array.array import NDArray
from .._array.create import array
from . import op


def adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """One step on a weight, with its averages `mean` and `var`."""
    return mp_adamw_update(weight, grad, mean, var, weight, rescale_grad, lr, eta, beta1, beta2, epsilon, wd, clip_gradient, out)


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """One step on the float32 copy `weight32` of a weight, which gets its value."""
    if not isinstance(rescale_grad, NDArray):
        rescale_grad = array([rescale_grad], ctx=weight.context)
    dtype = weight32.dtype
    scale = rescale_grad.reshape((1,)).astype(dtype)
    is_good = (scale == scale) * (op.abs(scale) < float("inf")) * (scale != 0)
    g = op.broadcast_mul(grad.astype(dtype), op.where(is_good, scale, op.zeros_like(scale)))
    g = op.clip(g, -clip_gradient, clip_gradient) if clip_gradient >= 0 else g
    m, v = beta1 * mean + (1 - beta1) * g, beta2 * var + (1 - beta2) * op.square(g)
    step = eta * (lr * m / (op.sqrt(v) + epsilon) + wd * weight32)
    target = weight if out is None else out
    updated = op.where(op.broadcast_like(is_good, weight32), weight32 - step, weight32)
    for state, new in ((mean, m), (var, v)):
        state[:] = op.where(op.broadcast_like(is_good, state), new, state)
    if weight32 is not weight:
        weight32[:] = updated
    target[:] = updated
    return target


def multi_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: Optional[str] = None,
    size: int = 0,
    **parameters: Any,
) -> List[NDArray]:
    """A step on each weight."""
    return multi_mp_adamw_update(weights, grads, mean, var, weights, rescale_grad, lrs, wds, etas, out, name, size, **parameters)


def multi_mp_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: Optional[str] = None,
    size: int = 0,
    **parameters: Any,
) -> List[NDArray]:
    """A step on the float32 copy of each weight."""
    outs = weights if out is None else out
    return [
        mp_adamw_update(w, g, m, v, w32, rescale_grad, lr, eta, wd=wd, out=target, **parameters)
        for w, g, m, v, w32, lr, wd, eta, target in zip(weights, grads, mean, var, weights32, lrs, wds, etas, outs)
    ]
