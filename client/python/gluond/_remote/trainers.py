"""A trainer of the server's, as CreateTrainerRequest says it."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..base import MXNetError
from . import components


def fill_trainer(
    request: Any,
    loss: Any,
    optimizer: Any,
    optimizer_params: Optional[Mapping[str, Any]] = None,
    lr_scheduler: Any = None,
    metrics: Any = None,
    loss_output: Optional[str] = None,
    prediction: Optional[str] = None,
    clip_global_norm: Optional[float] = None,
    skip_nonfinite: bool = True,
) -> None:
    """Fills a CreateTrainerRequest."""
    if (loss is None) == (loss_output is None):
        raise MXNetError("a trainer wants a loss, or the name of an output that is the loss (loss_output)")
    if loss is not None:
        request.loss.CopyFrom(components.loss(loss))
    else:
        request.loss_output = loss_output
    made, schedule = components.optimizer(optimizer, optimizer_params)
    request.optimizer.CopyFrom(made)
    if lr_scheduler is not None:
        schedule = components.scheduler(lr_scheduler, lr_scheduler.base_lr)
    if schedule is not None:
        request.lr_scheduler.CopyFrom(schedule)
    request.metrics.extend(components.metrics(metrics))
    request.prediction = prediction or ""
    if clip_global_norm is not None:
        request.clip_global_norm = clip_global_norm
    request.skip_nonfinite = skip_nonfinite
