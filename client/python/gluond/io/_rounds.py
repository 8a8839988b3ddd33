"""RoundIter: the base of iterators over numbered samples, as MXNet's iterators of files count them."""
from __future__ import annotations

from typing import Any

import numpy as np

from ._batches import DataBatch, DataIter


class RoundIter(DataIter):
    """Batches of `count` samples. The last batch that is not whole is filled up with the first samples.

    With `round_batch` the next epoch begins behind these; otherwise they do not count, and it begins with the first.
    A subclass gives the samples of `_rows`, whose numbers from `count` on are those of the next epoch.
    """

    provide_data: Any
    provide_label: Any

    def __init__(self, count: int, batch_size: int, round_batch: bool) -> None:
        super().__init__(batch_size)
        self._count = count
        self._round = round_batch
        self._begin = 0  # The first sample of the next batch.
        self._rows = np.arange(0)

    def reset(self) -> None:
        """Goes back to the beginning, or to the samples that have not filled the last batch up."""
        over = self._begin - self._count
        self._begin = over if self._round and over > 0 else 0

    def iter_next(self) -> bool:
        """Goes to the next batch; false if there is none."""
        if self._begin >= self._count:
            return False
        self._rows = self._next_rows()
        self._begin += self.batch_size
        return True

    def _next_rows(self) -> np.ndarray:
        return np.arange(self._begin, self._begin + self.batch_size)

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        if not self.iter_next():
            raise StopIteration
        batch = DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())
        batch.provide_data, batch.provide_label = self.provide_data, self.provide_label
        return batch

    def getindex(self) -> np.ndarray:
        """The numbers of the current batch's samples."""
        return (self._rows % self._count).astype(np.uint64)

    def getpad(self) -> int:
        """The number of samples that fill it up."""
        return max(0, int(self._rows[-1]) + 1 - self._count)
