"""Gradients of recorded computations.

    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    x.grad                      # 2 x
"""

from __future__ import annotations

from ._array.tape import (
    backward,
    is_recording,
    is_training,
    mark_variables,
    pause,
    predict_mode,
    record,
    set_recording,
    set_training,
    train_mode,
)
from ._custom.function import Function
from ._custom.gradients import get_symbol, grad

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]
