"""Steps of SGD on several weights, whose learning rates and weight decays are arrays: the last two, with a number for each weight.
They write their arrays in place.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from .._array.array import NDArray
from . import op


def _stepper(name: str, has_momentum: bool, has_copy: bool) -> Callable[..., List[NDArray]]:
    each = 2 + has_momentum + has_copy

    def function(
        *data: Any,
        momentum: float = 0.0,
        rescale_grad: float = 1.0,
        clip_gradient: float = -1.0,
        num_weights: Optional[int] = None,
        out: Any = None,
        name: Optional[str] = None,
    ) -> List[NDArray]:
        *arrays, lrs, wds = data[0] if len(data) == 1 and isinstance(data[0], (list, tuple)) else data
        found = []
        for number in range(len(arrays) // each if num_weights is None else num_weights):
            weight, grad, *states = arrays[each * number : each * (number + 1)]
            whole = states.pop() if has_copy else weight
            lr, wd = (op.slice_axis(rates, axis=0, begin=number, end=number + 1).astype(whole.dtype) for rates in (lrs, wds))
            _step(whole, grad, states[0] if states else None, lr, wd, momentum, rescale_grad, clip_gradient)
            target = weight if out is None else out if isinstance(out, NDArray) else out[number]
            if target is not whole:
                target[:] = whole
            found.append(target)
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A step on each weight: {'weight, gradient' + ', momentum' * has_momentum + ', float32 copy' * has_copy} of the "
        "first, those of the second and so on, then the learning rates and the weight decays."
    )
    return function


def _step(
    weight: NDArray,
    grad: NDArray,
    velocity: Optional[NDArray],
    lr: NDArray,
    wd: NDArray,
    momentum: float,
    rescale_grad: float,
    clip_gradient: float,
) -> None:
    g = grad.astype(weight.dtype) * rescale_grad
    g = op.clip(g, -clip_gradient, clip_gradient) if clip_gradient >= 0 else g
    change = op.broadcast_mul(g + op.broadcast_mul(weight, wd), lr)
    if velocity is not None:
        velocity[:] = momentum * velocity - change
        weight += velocity
    else:
        weight -= change


preloaded_multi_sgd_update = _stepper("preloaded_multi_sgd_update", False, False)
preloaded_multi_sgd_mom_update = _stepper("preloaded_multi_sgd_mom_update", True, False)
preloaded_multi_mp_sgd_update = _stepper("preloaded_multi_mp_sgd_update", False, True)
preloaded_multi_mp_sgd_mom_update = _stepper("preloaded_multi_mp_sgd_mom_update", True, True)
