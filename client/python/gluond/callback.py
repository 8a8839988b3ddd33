"""Functions that a training loop calls after each batch or epoch: `mx.callback.Speedometer(batch_size)(param)`.

`param` has the attributes `epoch`, `nbatch`, the number of the batch, and `eval_metric`, an EvalMetric or None; it is a
`mx.model.BatchEndParam`. All that they tell goes to Python's logging, on the level INFO.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Callable, List

from . import model

__all__ = ["LogValidationMetricsCallback", "ProgressBar", "Speedometer", "do_checkpoint", "log_train_metric", "module_checkpoint"]


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback (epoch, symbol, arg_params, aux_params): model.save_checkpoint after every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % period == 0:
            model.save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return save


def module_checkpoint(mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False) -> Callable[..., None]:
    """A callback (epoch, ...) that calls `mod.save_checkpoint(prefix, epoch, save_optimizer_states)` after every `period`."""
    period = max(1, int(period))

    def save(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return save


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """A callback that logs the metric every `period` batches; with `auto_reset` it begins anew then."""

    def log(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return log


class Speedometer:
    """Logs the samples of a second, and the metric, every `frequent` batches; with `auto_reset` it begins anew then."""

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False  # Whether the time of an epoch's first batch is known.
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: Any) -> None:
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.time()
        elif count % self.frequent == 0:
            seconds = time.time() - self.tic
            self._log(param, self.frequent * self.batch_size / seconds if seconds > 0 else math.inf)
            self.tic = time.time()

    def _log(self, param: Any, speed: float) -> None:
        count, metric = param.nbatch, param.eval_metric
        if metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        values: List[Any] = [each for pair in metric.get_name_value() for each in pair]
        if self.auto_reset:
            metric.reset_local()
        logging.info(
            "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * (len(values) // 2),
            param.epoch,
            count - self.frequent if self.auto_reset else 0,
            count,
            speed,
            *values,
        )


class ProgressBar:
    """Logs a bar of `length` characters of which the share nbatch / `total` is filled."""

    def __init__(self, total: int, length: int = 80) -> None:
        self.total = total
        self.bar_len = length

    def __call__(self, param: Any) -> None:
        share = param.nbatch / float(self.total)
        filled = int(round(self.bar_len * share))
        logging.info("[%s] %s%s\r", "=" * filled + "-" * (self.bar_len - filled), math.ceil(100.0 * share), "%")


class LogValidationMetricsCallback:
    """Logs the metric at the end of a validation."""

    def __call__(self, param: Any) -> None:
        for name, value in param.eval_metric.get_name_value() if param.eval_metric else ():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
