"""Samplers that MXNet kept in `gluon.contrib.data`."""
from __future__ import annotations

from typing import Iterator

from ...data.sampler import Sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """0, interval, 2 interval, ... below `length`; then, with `rollover`, the same from 1 on, and so on.

    list(IntervalSampler(13, interval=3))                  # [0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise AssertionError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else len(range(0, self._length, self._interval))
