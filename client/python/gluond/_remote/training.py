"""Training a model on the rows of a dataset: one call of Train for all epochs. Where a broken connection, a crash of the
server or the lack of other servers of its group has ended a call, the next one goes on at the trainer's step."""

from __future__ import annotations

import math
import pathlib
import sys
import time
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar, Union

from .. import _curve
from .._files import write_whole
from .._proto import dataset_pb2, training_pb2
from .._wire.source_lines import INSIDE
from ..base import MXNetError
from ..progress import Progress
from . import methods
from .calls import CallError, Client, error_of
from .datasets import Dataset, Temporary

_T = TypeVar("_T")
# The numbers of an epoch, by name.
Numbers = Dict[str, float]

# A server that is started anew is waited for so long, and a dataset that it has lost is uploaded so often for one call.
PATIENCE_SECONDS = 60.0
_MOST_UPLOADS = 5
_PROGRESS_EVERY = {"nanos": 500_000_000}
_STOP = training_pb2.TrainProgress


class Step(NamedTuple):
    """A step's report. loss: the mean before the update. metrics: on its batch. step: the number of steps so far, this one
    included. nonfinite: whether the step was skipped, because the loss or a gradient was a NaN or an infinity."""

    loss: float
    metrics: Numbers
    step: int
    learning_rate: float
    gradient_norm: float
    nonfinite: bool


def step_of(answer: Any) -> Step:
    """The step that a TrainStepResponse tells."""
    report = answer.report
    return Step(answer.loss, dict(answer.metrics), report.step, report.learning_rate, report.gradient_norm, report.nonfinite)


class History(Dict[str, List[float]]):
    """The numbers of each epoch, by name: `loss`, the trainer's metrics, `validation_loss` and so on, `learning_rate`,
    `seconds`."""

    def add(self, numbers: Numbers) -> None:
        """Adds the numbers of another epoch. A number that only some epochs have is a NaN in the others."""
        epochs = max(map(len, self.values()), default=0)
        for name in [*self, *(each for each in numbers if each not in self)]:
            values = self.setdefault(name, [math.nan] * epochs)
            values.append(numbers.get(name, math.nan))

    def plot(self, path: Union[str, pathlib.Path], *names: str) -> None:
        """Draws the curves of these numbers into a picture in SVG. Default: all but the learning rate and the seconds."""
        names = names or tuple(name for name in self if name not in ("learning_rate", "seconds", "skipped"))
        curves = {name: list(enumerate(self[name], 1)) for name in names}
        write_whole(path, [_curve.svg(curves, ", ".join(names), "epochs").encode()])


class EarlyStopping:
    """Ends a fit() that has stopped to improve: a callback of it.

        model.fit(images, labels, epochs=100, validation=(test_images, test_labels), callbacks=[mx.remote.EarlyStopping()])

    monitor: the number that is to get better; loss and errors get better by falling, others by rising. patience: epochs that
    bring nothing better and are put up with. least: a smaller difference is none.
    """

    def __init__(self, monitor: str = "validation_loss", patience: int = 2, least: float = 0.0) -> None:
        self.monitor, self.patience, self.least = monitor, patience, least
        self.best, self.best_epoch, self._waited = math.inf, -1, 0

    def __call__(self, epoch: int, numbers: Numbers) -> bool:
        if self.monitor not in numbers:
            raise MXNetError(f"EarlyStopping: fit() has no '{self.monitor}'; it has {', '.join(numbers)}")
        falls = self.monitor.endswith(("loss", "error", "perplexity", "mae", "mse"))
        value = numbers[self.monitor] if falls else -numbers[self.monitor]
        if value < self.best - self.least:
            self.best, self.best_epoch, self._waited = value, epoch, 0
            return False
        self._waited += 1
        return self._waited > self.patience


# Called after each epoch with its number and its numbers; true: the training ends.
Callback = Callable[[int, Numbers], Optional[bool]]


class _Place(NamedTuple):
    """The next step's: begin is a position in the epoch's rows."""

    epoch: int
    begin: int


class Epochs(NamedTuple):
    """The rows to train on, and how often. rows: how many the dataset has. validation: measured after each epoch; None: nothing."""

    model: str
    dataset: Dataset
    rows: int
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    validation: Optional[Dataset]
    first: int
    epochs: int

    @property
    def end(self) -> int:
        """The first epoch that is none of these."""
        return self.first + self.epochs

    @property
    def steps(self) -> int:
        """The steps of one epoch."""
        whole, rest = divmod(self.rows, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def after(self, steps: int) -> _Place:
        """The place after so many steps of all."""
        epoch, step = divmod(steps, self.steps)
        return _Place(self.first + epoch, step * self.batch_size)

    def request(self, place: _Place, end: int) -> Any:
        """A TrainRequest from `place` on to the beginning of the epoch `end`."""
        rows = dataset_pb2.Rows(dataset=self.dataset.name, shuffle=self.shuffle, seed=self.seed, epoch=self.first)
        evaluate = None if self.validation is None else dataset_pb2.Rows(dataset=self.validation.name)
        return training_pb2.TrainRequest(
            model=self.model,
            rows=rows,
            batch_size=self.batch_size,
            epochs=end - self.first,
            drop_last=self.drop_last,
            start_at={"epoch": place.epoch, "begin": place.begin},
            evaluate=evaluate,
            progress_every=_PROGRESS_EVERY,
        )


class _Part(NamedTuple):
    """The means over a part of an epoch. end: the position after its last row."""

    end: int
    samples: int
    means: Numbers


def _part(end: int, samples: int, report: Any) -> _Part:
    return _Part(end, samples, {"loss": report.loss, **report.metrics})


def _joined(parts: Sequence[_Part]) -> Numbers:
    """The means over all parts; NaN where they have no rows."""
    if len(parts) == 1 and parts[0].samples:
        return dict(parts[0].means)
    samples = sum(each.samples for each in parts)
    names = {name for each in parts for name in each.means} or {"loss"}
    return {
        name: sum(each.means.get(name, math.nan) * each.samples for each in parts if each.samples) / samples
        if samples
        else math.nan
        for name in sorted(names, key=lambda name: (name != "loss", name))
    }


def with_datasets(call: Callable[[], _T], *datasets: Optional[Dataset]) -> _T:
    """The answer of `call`. A temporary dataset among these that a restart of the server has taken is uploaded again."""
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


class Training:
    """One fit(). The trainer's step tells what a crash of the server has left of it, so that the model's bits are those of a
    training that nothing has disturbed."""

    def __init__(self, client: Client, of: Epochs, progress: bool) -> None:
        if of.steps <= 0:
            raise MXNetError(
                f"fit: the {of.rows} rows of dataset '{of.dataset.name}' make no batch of {of.batch_size}; "
                "take a smaller batch_size, or leave drop_last out"
            )
        self._client, self._of = client, of
        self._shown = _Shown(of) if progress else None
        self._ended: Dict[int, Numbers] = {}
        self._place = _Place(of.first, 0)
        # The parts of the epoch under way: what this call has told, until its report of the epoch takes their place, and those
        # of the calls before.
        self._parts: List[_Part] = []
        self._earlier: List[_Part] = []
        self._samples = 0
        self._skipped, self._skipped_now = 0, 0
        self._learning_rate = math.nan
        self._since = time.monotonic()

    def run(self, callbacks: Sequence[Callback] = ()) -> History:
        """Trains to the end, or until a callback ends it: then a call of Train has one epoch."""
        begun = self._client.check(self._of.model, PATIENCE_SECONDS).step
        told, goes_on = self._of.first, True
        try:
            while goes_on and self._place.epoch < self._of.end:
                goes_on = self._call(self._place.epoch + 1 if callbacks else self._of.end, begun)
                while told in self._ended and told < self._place.epoch:
                    for callback in callbacks:
                        goes_on = not callback(told, dict(self._ended[told])) and goes_on
                    told += 1
        finally:
            if self._shown is not None:
                self._shown.leave()
        history = History()
        for epoch in sorted(self._ended):
            history.add(self._ended[epoch])
        return history

    def _call(self, end: int, begun: int) -> bool:
        """Trains until the epoch `end`, or until the call ends otherwise. Whether to go on. begun: the trainer's step
        before the first of these calls."""
        self._samples, self._since = 0, time.monotonic()
        request = self._of.request(self._place, end)
        try:
            last = with_datasets(
                lambda: self._client.listen(methods.TRAIN, request, self._hear, PATIENCE_SECONDS),
                self._of.dataset,
                self._of.validation,
            )
        except CallError as error:
            if error.reason not in ("ANSWER_FORGOTTEN", "REWOUND"):
                raise
            self._go_back(error, begun)
            return True
        self._earlier, self._parts = [*self._earlier, *self._parts], []
        if last.stop == _STOP.BY_ERROR:
            why = error_of(f"fit: after {last.steps} of {last.total_steps} steps, which stay: {last.error}", last.status)
            if not why.may_be_back:  # Else the next call waits.
                raise why
        if last.stop == _STOP.BY_CALL:
            warnings.warn(f"fit: somebody's CancelTraining ended it after {last.steps} of {last.total_steps} steps, which stay")
        return last.stop != _STOP.BY_CALL

    def _hear(self, message: Any) -> None:
        """A TrainProgress."""
        samples = message.samples - self._samples
        if samples <= 0:
            return
        self._samples = message.samples
        self._skipped_now += message.report.skipped
        self._learning_rate = message.report.learning_rate
        for report in message.ended:
            self._end(
                report.epoch, [_part(0, report.samples, report)], report.evaluation if report.HasField("evaluation") else None
            )
        self._go_to(_Place(message.next.epoch, message.next.begin))
        if message.next.begin:
            self._parts.append(_part(message.next.begin, message.next.begin if message.ended else samples, message))
            if self._shown is not None:
                self._shown.at(self._place, _joined([*self._earlier, *self._parts]))

    def _go_to(self, place: _Place, evaluation: Any = None) -> None:
        """Goes on at `place`. An epoch that has ended meanwhile, and of which a broken connection or a crash took what Train
        told at its end, has the numbers that are known of it."""
        for epoch in range(self._place.epoch, place.epoch):
            if epoch not in self._ended:
                self._earlier = [*self._earlier, *self._parts]
                self._end(epoch, [], evaluation)
        self._place = place

    def _end(self, epoch: int, parts: Sequence[_Part], evaluation: Any) -> None:
        """An epoch is over, of which `parts` are what the last call did."""
        if epoch not in self._ended:  # Else a crash has taken its steps back, which were told of before.
            self._note(epoch, self._numbers(parts, evaluation))
        self._earlier, self._parts = [], []

    def _numbers(self, parts: Sequence[_Part], evaluation: Any) -> Numbers:
        numbers = _joined([*self._earlier, *parts])
        if evaluation is not None:
            measured = {"loss": evaluation.loss, **evaluation.metrics}
            numbers.update({f"validation_{name}": value for name, value in measured.items()})
        now = time.monotonic()
        numbers.update(learning_rate=self._learning_rate, seconds=now - self._since)
        self._since = now
        if self._skipped_now:
            self._skipped += self._skipped_now
            numbers["skipped"], self._skipped_now = self._skipped_now, 0
        return numbers

    def _note(self, epoch: int, numbers: Numbers) -> None:
        if _is_broken(numbers) and not any(map(_is_broken, self._ended.values())):
            warnings.warn(
                f"fit: {numbers.get('skipped', 0)} of {self._of.steps} steps of epoch {epoch} changed nothing, as their "
                f"loss or a gradient was NaN or infinite; its loss is {numbers['loss']:g}. Are the data finite "
                f"(np.isfinite(data).all()), and is the learning rate, {self._learning_rate:g}, small enough?",
                stacklevel=_frames_to_user(),
            )
        self._ended[epoch] = numbers
        if self._shown is not None:
            self._shown.ended(epoch, numbers)

    def _go_back(self, error: CallError, begun: int) -> None:
        """Takes the place that a crash has left. Raises the error where that cannot be known, or lies before the beginning."""
        steps = self._client.accept(self._of.model, PATIENCE_SECONDS).step - begun
        if steps < 0 or self._skipped or self._skipped_now:
            raise error
        place, parts = self._of.after(steps), [*self._earlier, *self._parts]
        same_epoch = place.epoch == self._place.epoch
        self._go_to(place, self._measure() if place.epoch > self._place.epoch and not place.begin else None)
        self._earlier = [each for each in parts if each.end <= place.begin] if same_epoch else []
        self._parts = []

    def _measure(self) -> Any:
        """The EvaluateResponse for the model as it is; None where nothing is to be measured."""
        rows = self._of.validation
        if rows is None:
            return None
        request = training_pb2.EvaluateRequest(model=self._of.model, rows=dataset_pb2.Rows(dataset=rows.name))
        return with_datasets(lambda: self._client.call(methods.EVALUATE, request, patience=PATIENCE_SECONDS), rows)


def _frames_to_user() -> int:
    """The `stacklevel` at which a warning of the calling function has the line of the program that uses this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and INSIDE[frame.f_code.co_filename]:
        frame, level = frame.f_back, level + 1
    return level


def _is_broken(numbers: Numbers) -> bool:
    return "skipped" in numbers or not math.isfinite(numbers["loss"])


class _Shown:
    """The lines of the epochs."""

    def __init__(self, of: Epochs) -> None:
        self._of = of
        self._line = self._begin(of.first, None)

    def _begin(self, epoch: int, after: Optional[Progress]) -> Progress:
        self._epoch = epoch
        line = Progress((), f"epoch {epoch - self._of.first + 1} of {self._of.epochs}", total=self._of.steps, after=after)
        line.begin()
        return line

    def at(self, place: _Place, means: Numbers) -> None:
        """An epoch is under way."""
        if place.epoch == self._epoch:  # Else a crash has taken back an epoch, whose line stays as it is.
            self._line.show(**means)
            self._line.reach(-(-place.begin // self._of.batch_size))

    def ended(self, epoch: int, numbers: Numbers) -> None:
        """An epoch has ended."""
        self._line.show(**{name: value for name, value in numbers.items() if name not in ("learning_rate", "seconds")})
        self._line.reach(self._of.steps, last=True)
        if epoch + 1 < self._of.end:
            self._line = self._begin(epoch + 1, self._line)

    def leave(self) -> None:
        """Ends the line of an epoch that goes no further."""
        self._line.leave()
