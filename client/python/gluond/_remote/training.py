"""Training a model on rows of a dataset: calls of many steps, which the server takes without waiting for this program."""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional

from .._proto import dataset_pb2, training_pb2
from ..base import MXNetError
from ..progress import Progress
from . import methods
from .calls import Caller

# A call takes about so long: an interrupt and the progress need not wait longer, and the way of a call costs nothing.
_CALL_SECONDS = 0.5
_MOST_STEPS = 10_000

# Numbers of each epoch, by name: `loss`, the trainer's metrics, `validation_loss` and so on, `learning_rate`, `seconds`.
History = Dict[str, List[float]]


class Step(NamedTuple):
    """A step's report. loss: the mean before the update. metrics: on its batch. step: the number of steps so far, this one
    included. nonfinite: whether the step was skipped, because the loss or a gradient was a NaN or an infinity."""

    loss: float
    metrics: Dict[str, float]
    step: int
    learning_rate: float
    gradient_norm: float
    nonfinite: bool


def step_of(answer: Any) -> Step:
    """Of a TrainStepResponse."""
    report = answer.report
    return Step(answer.loss, dict(answer.metrics), report.step, report.learning_rate, report.gradient_norm, report.nonfinite)


class Epochs(NamedTuple):
    """What to train on. end: the number of rows."""

    model: str
    dataset: str
    end: int
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool


class _Sum:
    """The means over an epoch, of calls with different numbers of rows."""

    def __init__(self) -> None:
        self.samples = 0
        self.skipped = 0
        self._totals: Dict[str, float] = {}

    def add(self, answer: Any) -> None:
        self.samples += answer.samples
        self.skipped += answer.report.skipped
        for name, value in {**answer.metrics, "loss": answer.loss}.items():
            self._totals[name] = self._totals.get(name, 0.0) + value * answer.samples

    def means(self) -> Dict[str, float]:
        return {name: total / max(self.samples, 1) for name, total in self._totals.items()}


class Trainer:
    """One fit(): it remembers how many steps fit into a call, and the curve of the progress."""

    def __init__(self, caller: Caller, epochs: Epochs, progress: bool) -> None:
        self._caller = caller
        self._of = epochs
        self._steps = 1  # The next call takes so many.
        self._shows = progress
        self._progress: Optional[Progress] = None

    def epoch(self, number: int, title: str) -> Dict[str, float]:
        """Trains on all rows once; the means of the epoch."""
        begun, total = time.monotonic(), _Sum()
        whole, rest = divmod(self._of.end, self._of.batch_size)
        steps = whole if self._of.drop_last or not rest else whole + 1
        calls = self._calls(number, total)
        if self._shows:
            self._progress = Progress(calls, title, total=steps, after=self._progress)
            calls = iter(self._progress)
        for answer in calls:
            if self._progress is not None:
                self._progress.count(answer.steps)
                self._progress.show(**total.means())
        found = {**total.means(), "learning_rate": answer.report.learning_rate, "seconds": time.monotonic() - begun}
        if total.skipped:
            found["skipped"] = total.skipped
        return found

    def _calls(self, epoch: int, total: _Sum) -> Any:
        begin, end, size = 0, self._of.end, self._of.batch_size
        if self._of.drop_last:
            end -= end % size
        if end <= 0:
            raise MXNetError(f"fit: the {self._of.end} rows of dataset '{self._of.dataset}' make no batch of {size}; take a "
                             "smaller batch_size, or leave drop_last out")
        while begin < end:
            request = training_pb2.TrainStepRequest(
                model=self._of.model, batch_size=size, steps=self._steps,
                rows=dataset_pb2.Rows(dataset=self._of.dataset, shuffle=self._of.shuffle, seed=self._of.seed, epoch=epoch,
                                      begin=begin, end=end))
            sent = time.monotonic()
            answer = self._caller.apply(methods.TRAIN_STEP, request)
            if answer.next_begin <= begin:
                raise MXNetError(f"fit: the server answered without taking a step from row {begin} on")
            begin = answer.next_begin
            each = max((time.monotonic() - sent) / max(answer.steps, 1), 1e-6)
            # By at most a factor of 4 from call to call: the first one also waits for the graph to be compiled.
            self._steps = max(1, min(int(_CALL_SECONDS / each), 4 * self._steps, _MOST_STEPS))
            total.add(answer)
            yield answer
