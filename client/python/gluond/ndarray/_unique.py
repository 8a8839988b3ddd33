"""Classes drawn without replacement, as words of a text are."""

from __future__ import annotations

import math
from typing import Optional, Tuple

import numpy as np

from .._array.array import NDArray
from .._array.create import array
from ..base import MXNetError
from ..context import Context
from .random import uniform


def _sample_unique_zipfian(range_max: int, shape: Tuple[int, int], ctx: Optional[Context] = None) -> Tuple[NDArray, NDArray]:
    """(classes below `range_max`, of `shape`: (rows, different classes of each), the number of draws of each row), both int64.

    Waits for the draws. MXNetError: there are fewer classes than are to be different.
    """
    rows, count = shape
    if count > range_max:
        raise MXNetError("Number of samples cannot exceed the number of possible classes")
    drawn = np.zeros((rows, 0), np.int64)
    found, tries = np.zeros((rows, count), np.int64), np.zeros(rows, np.int64)
    missing = list(range(rows))
    while missing:
        more = uniform(0, math.log(range_max), (rows, max(2 * count, drawn.shape[1])), "float64", ctx).asnumpy()
        drawn = np.concatenate([drawn, np.floor(np.exp(more) + 0.5).astype(np.int64) - 1], axis=1)
        for row in list(missing):
            first = np.sort(np.unique(drawn[row], return_index=True)[1])[:count]  # Where each class was drawn first.
            if len(first) == count:
                found[row], tries[row] = drawn[row, first], first[-1] + 1 if count else 0
                missing.remove(row)
    return array(found, ctx, "int64"), array(tries, ctx, "int64")
