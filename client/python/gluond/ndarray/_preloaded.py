"""Steps of SGD on several weights, whose learning rates and weight decays are arrays: the last two, with a number for each weight.
They write their arrays in place.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from .._array.array import NDArray
from . import _internal, op


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
        count = len(arrays) // each if num_weights is None else num_weights
        rates = op.slice_axis(op.stack(lrs, wds, axis=1), axis=0, begin=0, end=count).astype("float64")
        targets = arrays[: each * count : each] if out is None else [out] if isinstance(out, NDArray) else list(out)
        getattr(_internal, operator)(
            rates,
            *arrays[: each * count],
            out=targets,
            numbers="lr,wd",
            num_weights=count,
            rescale_grad=rescale_grad,
            clip_gradient=clip_gradient,
            **({"momentum": momentum} if has_momentum else {}),
        )
        return targets

    operator = name.replace("preloaded", "")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A step on each weight: {'weight, gradient' + ', momentum' * has_momentum + ', float32 copy' * has_copy} of the "
        "first, those of the second and so on, then the learning rates and the weight decays."
    )
    return function


preloaded_multi_sgd_update = _stepper("preloaded_multi_sgd_update", False, False)
preloaded_multi_sgd_mom_update = _stepper("preloaded_multi_sgd_mom_update", True, False)
preloaded_multi_mp_sgd_update = _stepper("preloaded_multi_mp_sgd_update", False, True)
preloaded_multi_mp_sgd_mom_update = _stepper("preloaded_multi_mp_sgd_mom_update", True, True)
