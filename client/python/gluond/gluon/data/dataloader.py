"""DataLoader: batches of a dataset, made here, by threads, or by processes, ahead of their use.

Workers make numpy arrays, and the process that trains uploads them, one upload for each array of a batch. They know
nothing of the server, unless the program's own functions are given NDArrays (see _host.py): then each has a session of its own.
"""
from __future__ import annotations

import collections
import multiprocessing
import multiprocessing.pool
import sys
from multiprocessing.reduction import ForkingPickler  # noqa: F401  # Libraries import it from here.
from typing import Any, Callable, Deque, Iterator, Optional, Sequence

import numpy as np

from ... import ndarray
from ..._array.array import NDArray
from ...base import MXNetError
from ...context import Context, cpu_pinned
from . import _host
from ._inherited import Inheritance
from ._workers import ForkedWorkers
from .dataset import ArrayDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """A batch of samples: arrays are stacked into NDArrays; of tuples, a list with one batch for each part."""
    return _upload(default_mp_batchify_fn(data))


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """As default_batchify_fn, for workers: arrays that are not NDArrays stay numpy's."""
    if isinstance(data[0], tuple):
        return [default_mp_batchify_fn(part) for part in zip(*data)]
    if isinstance(data[0], NDArray):
        return ndarray.stack(*data)
    return np.asarray(data)


def _upload(batch: Any) -> Any:
    """numpy arrays to NDArrays, in nested lists and tuples."""
    if isinstance(batch, np.ndarray):
        return ndarray.array(batch, dtype=batch.dtype)
    if isinstance(batch, (list, tuple)):
        return [_upload(part) for part in batch]
    return batch


def _as_in_context(data: Any, ctx: Context) -> Any:
    """NDArrays on a device, in nested lists and tuples. Other libraries' loaders import this name."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    return [_as_in_context(part, ctx) for part in data] if isinstance(data, (list, tuple)) else data


class _Work:
    """A worker's work for a list of indices. The program's own functions are given NDArrays."""

    def __init__(self, dataset: Any, batchify: Optional[Callable[[Sequence[Any]], Any]]) -> None:
        self._dataset = dataset
        self._batchify = batchify or default_mp_batchify_fn
        self._host = batchify is None and _host.is_ready(dataset)
        self._inheritance: Optional[Inheritance] = None

    def will_fork(self) -> None:
        """Prepares the work for forked processes, which cannot use their parent's NDArrays."""
        self._inheritance = Inheritance(self._dataset, self._batchify)

    def __call__(self, indices: Sequence[int]) -> Any:
        if self._inheritance is not None and not self._host:
            self._inheritance.restore()
            self._inheritance = None
        with _host.host_mode(self._host):
            return self._batchify([self._dataset[i] for i in indices])


class DataLoader:
    """Iterates over a dataset in batches.

        for data, label in gluon.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4):
            ...

    `batch_size`, `shuffle`, `sampler` and `last_batch` ('keep', 'discard', 'rollover') say which samples make a batch, or
    `batch_sampler` does. `batchify_fn` makes a batch of a list of samples. With `num_workers`, that many processes (with
    `thread_pool`, threads) prepare up to `prefetch` batches (default: two for each worker) ahead. The program's own functions
    are given NDArrays, wherever they run. A batch that takes longer than `timeout` seconds is an error. With `pin_memory` batches
    are on cpu_pinned(pin_device_id), as in MXNet. `auto_reload` is accepted for MXNet's sake.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: Optional[int] = None,
        shuffle: bool = False,
        sampler: Optional[Sampler] = None,
        last_batch: Optional[str] = None,
        batch_sampler: Optional[Sampler] = None,
        batchify_fn: Optional[Callable[[Sequence[Any]], Any]] = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: Optional[int] = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise AssertionError("timeout must be positive.")
        self._dataset = dataset
        self._timeout = timeout
        self._batch_sampler = _batches(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler)
        self._batchify_fn = batchify_fn
        self._num_workers = max(0, num_workers)
        self._pinned = cpu_pinned(pin_device_id) if pin_memory else None
        self._thread_pool = thread_pool or "fork" not in multiprocessing.get_all_start_methods()
        self._prefetch = max(1, 2 * self._num_workers if prefetch is None else prefetch)
        self._pool: Any = None
        self._processes: Optional[ForkedWorkers] = None
        work = _Work(dataset, batchify_fn)
        self._run: Callable[[Sequence[int]], Any] = work
        if self._num_workers > 0:
            if not self._thread_pool:
                work.will_fork()
                self._processes = ForkedWorkers(self._num_workers, work)
                self._run = self._processes.run
            self._pool = multiprocessing.pool.ThreadPool(self._num_workers)

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        batches = self._from_workers() if self._pool is not None else self._from_here()
        return batches if self._pinned is None else (_as_in_context(batch, self._pinned) for batch in batches)

    def _from_here(self) -> Iterator[Any]:
        whole = self._dataset.batch if self._batchify_fn is None and isinstance(self._dataset, ArrayDataset) else None
        for indices in self._batch_sampler:
            batch = None if whole is None else whole(indices)
            if batch is None:
                batch = self._run(indices)
                batch = batch if self._batchify_fn is not None else _upload(batch)
            yield batch

    def _from_workers(self) -> Iterator[Any]:
        waiting: Deque[Any] = collections.deque()
        batches = iter(self._batch_sampler)
        for indices in batches:
            waiting.append(self._pool.apply_async(self._run, (indices,)))
            if len(waiting) >= self._prefetch:
                break
        while waiting:
            try:
                batch = waiting.popleft().get(self._timeout)
            except multiprocessing.TimeoutError:
                raise RuntimeError(
                    f"Worker timed out after {self._timeout} seconds. Give DataLoader a longer timeout, or "
                    "look for the cause with num_workers=0."
                ) from None
            following = next(batches, None)
            if following is not None:
                waiting.append(self._pool.apply_async(self._run, (following,)))
            yield _upload(batch)

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if getattr(self, "_processes", None) is not None:
            self._processes.stop()  # type: ignore[union-attr]
        if getattr(self, "_pool", None) is not None:
            self._pool.terminate()


class _MultiWorkerIter:
    """MXNet's iterator of a DataLoader with workers, which libraries import; a DataLoader here iterates by itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise MXNetError(
            "DataLoader: batches of workers come from iter(DataLoader(..., num_workers=...)); a loader that makes "
            "MXNet's _MultiWorkerIter by itself cannot be used"
        )


def _batches(
    dataset: Any,
    batch_size: Optional[int],
    shuffle: bool,
    sampler: Optional[Sampler],
    last_batch: Optional[str],
    batch_sampler: Optional[Sampler],
) -> Sampler:
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is " "specified.")
        return batch_sampler
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")
