"""Iterators over other iterators: with another number of batches, or ahead of their use."""
from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, List, Optional

from ..base import WrongValue
from ._batches import DataBatch, DataDesc, DataIter


class _OfBatches(DataIter):
    """An iterator whose `current_batch` others have made."""

    current_batch: Any

    def getdata(self) -> Any:
        """The data of the current batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """The labels of the current batch."""
        return self.current_batch.label

    def getindex(self) -> Any:
        """The numbers of its samples, or None."""
        return self.current_batch.index

    def getpad(self) -> Any:
        """The number of samples that fill it up."""
        return self.current_batch.pad


class ResizeIter(_OfBatches):
    """`size` batches of another iterator, which begins anew where it comes to its end.

    `reset` resets the other one as well, unless `reset_internal` is false.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Begins to count the batches anew."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Goes to the next batch; false after `size` of them."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


class PrefetchingIter(_OfBatches):
    """Batches of one or several iterators, joined, made by a thread for each of them ahead of their use.

    `rename_data` and `rename_label` have a dict of new names for each iterator.
    ValueError: there is no iterator, or one has more batches than another.
    """

    def __init__(
        self, iters: Any, rename_data: Optional[List[Dict[str, str]]] = None, rename_label: Optional[List[Dict[str, str]]] = None
    ) -> None:
        super().__init__()
        self.iters = iters if isinstance(iters, list) else [iters]
        self.n_iter = len(self.iters)
        if not self.iters:
            raise WrongValue("PrefetchingIter: there are no iterators.")
        self.rename_data = rename_data
        self.rename_label = rename_label
        self.batch_size = self.provide_data[0].shape[0]
        self.current_batch = None
        self._threads = ThreadPoolExecutor(self.n_iter)
        self._ahead: List["Future[Any]"] = []
        self._fetch()

    @property
    def provide_data(self) -> List[DataDesc]:
        """The descriptions of a batch's data, of all iterators in a row."""
        return _renamed([each.provide_data for each in self.iters], self.rename_data)

    @property
    def provide_label(self) -> List[DataDesc]:
        """The descriptions of a batch's labels, likewise."""
        return _renamed([each.provide_label for each in self.iters], self.rename_label)

    def _fetch(self) -> None:
        self._ahead = [self._threads.submit(lambda one: next(one, None), each) for each in self.iters]

    def reset(self) -> None:
        """Goes back to the beginning."""
        for batch in self._ahead:
            batch.exception()
        for iterator in self.iters:
            iterator.reset()
        self._fetch()

    def iter_next(self) -> bool:
        """Goes to the next batch; false if there is none."""
        batches = [each.result() for each in self._ahead]
        if all(batch is None for batch in batches):
            return False
        if any(batch is None or batch.pad != batches[0].pad for batch in batches):
            raise WrongValue("Number of entry mismatches between iterators")
        self.current_batch = DataBatch(
            sum([batch.data for batch in batches], []),
            sum([batch.label for batch in batches], []),
            batches[0].pad,
            batches[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._fetch()
        return True

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        if not self.iter_next():
            raise StopIteration
        return self.current_batch


def _renamed(lists: List[Any], names: Optional[List[Dict[str, str]]]) -> List[DataDesc]:
    if names is None:
        return [desc if isinstance(desc, DataDesc) else DataDesc(*desc) for each in lists for desc in each]
    return [
        DataDesc(new[desc.name], desc.shape, desc.dtype) if isinstance(desc, DataDesc) else DataDesc(*desc)
        for each, new in zip(lists, names)
        for desc in each
    ]
