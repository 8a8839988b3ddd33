"""Training a model on rows of a dataset: calls of many steps, which the server takes without waiting for this program."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, TypeVar

from .._proto import dataset_pb2, training_pb2
from ..base import MXNetError
from ..progress import Progress
from . import methods
from .calls import CallError, Caller
from .datasets import Dataset, Temporary

_T = TypeVar("_T")

# A call takes about so long: an interrupt and the progress need not wait longer, and the way of a call costs nothing.
_CALL_SECONDS = 0.5
_MOST_STEPS = 10_000
# Calls that are kept, to be sent again after a crash of the server. One is some hundred bytes.
_MOST_KEPT = 10_000
# A server that is started anew is waited for so long, and a dataset that it has lost is uploaded so often for one call.
PATIENCE_SECONDS = 60.0
_MOST_UPLOADS = 5

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
    dataset: Dataset
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
        return {name: total / self.samples if self.samples else math.nan for name, total in self._totals.items()}


def with_datasets(call: Callable[[], _T], *datasets: Optional[Dataset]) -> _T:
    """What `call` returns. A temporary dataset among these that a restart of the server has taken is uploaded again."""
    for _ in range(_MOST_UPLOADS):
        try:
            return call()
        except CallError as error:
            lost = [each for each in datasets if isinstance(each, Temporary) and _is_lost(each, error)]
            if not lost:
                raise
        try:
            lost[0].send()
        except CallError as error:
            if not _is_lost(lost[0], error):
                raise
    return call()


def _is_lost(dataset: Dataset, error: CallError) -> bool:
    facts = error.metadata
    return error.reason == "NOT_FOUND" and (facts.get("kind"), facts.get("name")) == ("dataset", dataset.name)


class _Call:
    """A TrainStep on rows. next_begin: the row after its last one; 0: not known yet. step: the trainer's step after it;
    None: not known."""

    def __init__(self, request: Any, next_begin: int = 0, step: Optional[int] = None) -> None:
        self.request = request
        self.next_begin = next_begin
        self.step = step

    def rest(self, answer: Any) -> "_Call":
        """The steps that this answer leaves to be taken, of a call whose end is known."""
        request = training_pb2.TrainStepRequest()
        request.CopyFrom(self.request)
        request.rows.begin, request.steps = answer.next_begin, self.request.steps - answer.steps
        return _Call(request, self.next_begin, self.step)


class Trainer:
    """One fit(): it remembers how many steps fit into a call, and the curve of the progress. It keeps the calls that a
    crash of the server could take back, and sends these again after one, so that the model's bits are those of a training
    that nothing has disturbed."""

    def __init__(self, caller: Caller, epochs: Epochs, progress: bool) -> None:
        self._caller = caller
        self._of = epochs
        self._steps = 1  # The next call takes so many.
        self._shows = progress
        self._progress: Optional[Progress] = None
        self._kept: Deque[_Call] = deque()
        self._taken = 0  # So many of the kept ones are applied; the others are still to be sent, or to be sent again.
        self._step: Optional[int] = None  # The trainer's, as far as it is known.
        self._learning_rate = 0.0
        self._has_told = False  # Whether a warning has told of steps that changed nothing.

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
        found = {**total.means(), "learning_rate": self._learning_rate, "seconds": time.monotonic() - begun}
        if total.skipped:
            found["skipped"] = total.skipped
            if not self._has_told:
                self._has_told = True
                warnings.warn(f"fit: {total.skipped} of {steps} steps of epoch {number} changed nothing, as their loss or a gradient "
                              "was NaN or infinite. Are the data finite (np.isfinite(data).all()), and is the learning rate, "
                              f"{self._learning_rate:g}, small enough?", stacklevel=3)
        return found

    def measured(self, measure: Callable[[], _T]) -> _T:
        """What `measure` returns for the model after all steps so far, of which a crash may have taken some back."""
        while True:
            found = measure()
            try:
                self._caller.check(self._of.model, PATIENCE_SECONDS)
                return found
            except CallError as error:
                self._rewind(error)
            self._catch_up()

    def _calls(self, epoch: int, total: _Sum) -> Iterator[Any]:
        begin, end, size = 0, self._of.end, self._of.batch_size
        if self._of.drop_last:
            end -= end % size
        if end <= 0:
            raise MXNetError(f"fit: the {self._of.end} rows of dataset '{self._of.dataset.name}' make no batch of {size}; "
                             "take a smaller batch_size, or leave drop_last out")
        while begin < end:
            rows = dataset_pb2.Rows(dataset=self._of.dataset.name, shuffle=self._of.shuffle, seed=self._of.seed,
                                    epoch=epoch, begin=begin, end=end)
            self._kept.append(_Call(training_pb2.TrainStepRequest(
                model=self._of.model, batch_size=size, steps=self._steps, rows=rows)))
            sent = time.monotonic()
            answer = self._catch_up()
            begin = answer.next_begin
            each = max((time.monotonic() - sent) / max(answer.steps, 1), 1e-6)
            # By at most a factor of 4 from call to call: the first one also waits for the graph to be compiled.
            self._steps = max(1, min(int(_CALL_SECONDS / each), 4 * self._steps, _MOST_STEPS))
            total.add(answer)
            yield answer

    def _catch_up(self) -> Any:
        """Sends the kept calls that are not applied, in their order; the last one's answer."""
        answer = None
        while self._taken < len(self._kept):
            call = self._kept[self._taken]
            try:
                answer = self._apply(call)
            except CallError as error:
                self._rewind(error)
            else:
                self._settle(call, answer)
        return answer

    def _apply(self, call: _Call) -> Any:
        try:
            return with_datasets(lambda: self._caller.apply(methods.TRAIN_STEP, call.request, patience=PATIENCE_SECONDS),
                                 self._of.dataset)
        except CallError as error:
            if error.reason != "ANSWER_FORGOTTEN":
                raise
        return self._forgotten(call)

    def _forgotten(self, call: _Call) -> Any:
        """The answer to a call that the server has applied, and whose own answer a crash took. Its steps follow from the
        request; its loss and metrics are not known, so it has no `samples`, and counts nothing in the means."""
        request, rows = call.request, call.request.rows
        end = call.next_begin or min(rows.begin + request.steps * request.batch_size, rows.end)
        steps = -(-(end - rows.begin) // request.batch_size)
        place = self._caller.check(request.model, PATIENCE_SECONDS)
        step = call.step if call.step is not None else place.step if self._step is None else self._step + steps
        if place.step < step:
            raise MXNetError(f"fit: a crash of {self._caller.address} took the answer to the {steps} steps from row "
                             f"{rows.begin} of epoch {rows.epoch} on; the trainer has taken {place.step} steps, expected "
                             f"{step}. Some were skipped, or the connection broke in the middle. Load a checkpoint, and go "
                             "on from there.")
        answer = training_pb2.TrainStepResponse(steps=steps, next_begin=end, replayed=True, durable_sequence=0)
        answer.report.step, answer.report.learning_rate = step, self._learning_rate
        return answer

    def _settle(self, call: _Call, answer: Any) -> None:
        """Notes that the call is applied, and drops those that no crash takes back any more."""
        if answer.next_begin <= call.request.rows.begin:
            raise MXNetError(f"fit: the server answered without taking a step from row {call.request.rows.begin} on")
        self._taken += 1
        if answer.next_begin < call.next_begin:  # The connection broke, which has ended this attempt early.
            self._kept.insert(self._taken, call.rest(answer))
        # After a crash the call takes as many steps as the first time.
        call.request.steps, call.next_begin, call.step = answer.steps, answer.next_begin, answer.report.step
        self._step, self._learning_rate = answer.report.step, answer.report.learning_rate
        # Without live checkpoints the server tells no `durable_sequence`, and there is nothing to go back to.
        durable = answer.durable_sequence if answer.HasField("durable_sequence") else call.request.call.sequence
        while self._taken and (len(self._kept) > _MOST_KEPT or self._kept[0].request.call.sequence <= durable):
            self._kept.popleft()
            self._taken -= 1

    def _rewind(self, error: CallError) -> None:
        """Goes back to the first call that a crash took. Raises the error where it is another one, or where a call is lost
        that is not kept: it tells from which step to go on."""
        if error.reason != "REWOUND" or "expected" not in error.metadata:
            raise error
        last, expected = int(error.metadata["last"]), int(error.metadata["expected"])
        first = self._taken - (expected - last)
        numbers = [each.request.call.sequence for each in itertools.islice(self._kept, max(first, 0), self._taken)]
        if numbers != list(range(last + 1, expected + 1)) or not numbers:
            raise error
        self._taken = first
