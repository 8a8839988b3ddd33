"""Steps of weights, each a call of one update operator, and how many are one call.

The operator `_multi_X` is X on many weights, whose numbers are the rows of an array. Its attributes stay the same from step to
step: the server prepares the call once.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray


_MOST_INPUTS = 1 << 16  # A call has no more.


class WeightStep(NamedTuple):
    """A call of `operator` on `arrays`: the weight, which is its output, the gradient and the states."""

    operator: str
    arrays: Tuple[NDArray, ...]
    numbers: Dict[str, float]  # Attributes that may change from step to step.
    attributes: Dict[str, Any]
    half: Optional[NDArray] = None  # Becomes the weight, in float16.
    # The rest of the step, by what the operator makes of the weight. The operator then leaves the weight as it is.
    then: Optional[Callable[[NDArray], "WeightStep"]] = None

    def run(self) -> None:
        """The step of this weight alone."""
        out = self.arrays[0] if self.then is None else None
        made = getattr(ndarray, self.operator)(*self.arrays, out=out, **self.numbers, **self.attributes)
        if self.then is not None:
            self.then(made).run()
        self._round()

    def _round(self) -> None:
        if self.half is not None:
            ndarray.cast(self.arrays[0], dtype="float16", out=self.half)


# By kind: the last run's numbers, where they are, and the session's failures at that time.
_Sent = Dict[Any, Tuple[np.ndarray, NDArray, int]]


class Together:
    """Runs the steps of many weights, those of one kind as one call."""

    def __init__(self) -> None:
        self._last: _Sent = {}

    def run(self, steps: Sequence[WeightStep]) -> None:
        """As each step's run(), with the same results. Requires: no weight is in two steps."""
        before, self._last = self._last, {}
        self._run(steps, before)

    def _run(self, steps: Sequence[WeightStep], before: _Sent) -> None:
        kinds: Dict[Any, List[WeightStep]] = {}
        alike: List[WeightStep] = []  # Steps of the last kind; mostly there is one kind.
        for step in steps:
            if not alike or not _is_alike(alike[0], step):
                weight = step.arrays[0]
                attributes = tuple(sorted(step.attributes.items()))
                alike = kinds.setdefault(
                    (step.operator, weight.context, weight.dtype, tuple(step.numbers), attributes, step.then is None), []
                )
            alike.append(step)
        for kind, alike in kinds.items():
            most = (_MOST_INPUTS - 1) // len(alike[0].arrays)
            for first in range(0, len(alike), most):
                self._call((kind, first), alike[first : first + most], before)

    def _call(self, kind: Any, alike: Sequence[WeightStep], before: _Sent) -> None:
        operator, rest = alike[0].operator, [step.then for step in alike if step.then is not None]
        made = getattr(ndarray._internal, f"_multi_{operator}")(
            self._numbers(kind, alike, before),
            *[array for step in alike for array in step.arrays],
            out=None if rest else [step.arrays[0] for step in alike],
            numbers=",".join(alike[0].numbers),
            num_weights=len(alike),
            **alike[0].attributes,
        )
        if rest:
            self._run([then(each) for then, each in zip(rest, made if isinstance(made, list) else [made])], before)
        for step in alike:
            step._round()

    def _numbers(self, kind: Any, steps: Sequence[WeightStep], before: _Sent) -> NDArray:
        numbers = np.array([list(step.numbers.values()) for step in steps], np.float64)
        weight = steps[0].arrays[0]
        session, failures = weight._session, weight._session.failures
        known, array, failures_before = before.get(kind, (None, None, 0))
        # A failure since then may have been that of sending the numbers.
        if array is None or array._session is not session or failures != failures_before or not np.array_equal(known, numbers):
            array = ndarray.array(numbers, ctx=weight.context, dtype="float64")
        self._last[kind] = numbers, array, failures
        return array


def _is_alike(a: WeightStep, b: WeightStep) -> bool:
    """Whether both are of one kind, as far as this can be told at once."""
    x, y = a.arrays[0], b.arrays[0]
    return (
        a.operator == b.operator
        and x._context is y._context
        and x.dtype is y.dtype
        and a.attributes == b.attributes
        and tuple(a.numbers) == tuple(b.numbers)
        and (a.then is None) == (b.then is None)
    )
