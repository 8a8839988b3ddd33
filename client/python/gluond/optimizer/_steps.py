"""Steps of weights, each a call of one update operator, and how many are one call.

The operator `_multi_X` is X on many weights, whose numbers are the rows of an array. Its attributes stay the same from step to
step: the server prepares the call once.
"""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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

    def run(self) -> None:
        """The step of this weight alone."""
        getattr(ndarray, self.operator)(*self.arrays, out=self.arrays[0], **self.numbers, **self.attributes)
        self._round()

    def _round(self) -> None:
        if self.half is not None:
            ndarray.cast(self.arrays[0], dtype="float16", out=self.half)


class Together:
    """Runs the steps of many weights, those of one kind as one call."""

    def __init__(self) -> None:
        self._last: Dict[Any, Tuple[np.ndarray, NDArray]] = {}  # The last run's numbers of each kind, and where they are.

    def run(self, steps: Sequence[WeightStep]) -> None:
        """As each step's run(), with the same results. Requires: no weight is in two steps."""
        kinds: Dict[Any, List[WeightStep]] = {}
        for step in steps:
            weight = step.arrays[0]
            attributes = tuple(sorted(step.attributes.items()))
            kind = (step.operator, weight.context, np.dtype(weight.dtype), tuple(step.numbers), attributes)
            kinds.setdefault(kind, []).append(step)
        before, self._last = self._last, {}
        for kind, alike in kinds.items():
            most = (_MOST_INPUTS - 1) // len(alike[0].arrays)
            for first in range(0, len(alike), most):
                self._call((kind, first), alike[first : first + most], before)

    def _call(self, kind: Any, alike: Sequence[WeightStep], before: Dict[Any, Tuple[np.ndarray, NDArray]]) -> None:
        getattr(ndarray._internal, f"_multi_{alike[0].operator}")(
            self._numbers(kind, alike, before),
            *[array for step in alike for array in step.arrays],
            out=[step.arrays[0] for step in alike],
            numbers=",".join(alike[0].numbers),
            num_weights=len(alike),
            **alike[0].attributes,
        )
        for step in alike:
            step._round()

    def _numbers(self, kind: Any, steps: Sequence[WeightStep], before: Dict[Any, Tuple[np.ndarray, NDArray]]) -> NDArray:
        numbers = np.array([list(step.numbers.values()) for step in steps], np.float64)
        weight = steps[0].arrays[0]
        known, array = before.get(kind, (None, None))
        if array is None or array._session is not weight._session or not np.array_equal(known, numbers):
            array = ndarray.array(numbers, ctx=weight.context, dtype="float64")
        self._last[kind] = numbers, array
        return array
