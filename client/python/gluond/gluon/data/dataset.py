"""Datasets: things with a length and samples, and others that are made of them."""
from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from ... import ndarray, recordio
from ..._array.array import NDArray
from . import _host
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset"]


class Dataset:
    """Base class: `dataset[i]` is a sample, `len(dataset)` their number."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def filter(self, fn: Callable[[Any], bool]) -> "Dataset":
        """The samples for which `fn` is true; it is called for all of them now."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> "Dataset":
        """Part `index` of `num_shards`, of consecutive samples; the first parts are one longer if it must be."""
        if not 0 <= index < num_shards:
            raise AssertionError(f"Shard index of out bound: {index} out of {num_shards}")
        size, longer = divmod(len(self), num_shards)
        begin = size * index + min(index, longer)
        return _SampledDataset(self, SequentialSampler(size + (index < longer), begin))

    def take(self, count: Optional[int]) -> "Dataset":
        """The first `count` samples."""
        return _SampledDataset(self, SequentialSampler(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler: Sampler) -> "Dataset":
        """The samples that `sampler` names, in its order."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> "Dataset":
        """Samples changed by `fn`, which is given all their parts; when they are asked for, or now if not `lazy`."""
        changed = _TransformedDataset(self, fn)
        return changed if lazy else SimpleDataset([changed[i] for i in range(len(changed))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> "Dataset":
        """Samples whose first part, usually the data and not the label, is changed by `fn`."""
        return self.transform(First(fn), lazy)


class SimpleDataset(Dataset):
    """A dataset of anything with a length and indices."""

    def __init__(self, data: Sequence[Any]) -> None:
        self._data = data
        self.host_ready = isinstance(data, (list, tuple, np.ndarray)) or _host.is_ready(data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class ArrayDataset(Dataset):
    """Samples of one row of each of several arrays: `ArrayDataset(features, labels)`.

    Arrays are NDArray, numpy or anything with a length. NDArrays stay on the server; batches are taken from them there.
    """

    host_ready = True

    def __init__(self, *args: Any) -> None:
        if not args:
            raise AssertionError("Needs at least 1 arrays")
        self._length = len(args[0])
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise AssertionError(
                    f"All arrays must have the same length; array[0] has length {self._length} while "
                    f"array[{i}] has {len(data)}."
                )
        self._data: List[Any] = [data.asnumpy() if isinstance(data, NDArray) and len(data.shape) == 1 else data for data in args]
        self._copies: List[Any] = []

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, idx: Any) -> Any:
        data = self._on_host() if _host.active() else self._data
        return data[0][idx] if len(data) == 1 else tuple(part[idx] for part in data)

    def _on_host(self) -> List[Any]:
        """The arrays in this process's memory, fetched once."""
        if not self._copies:
            self._copies = [part.asnumpy() if isinstance(part, NDArray) else part for part in self._data]
        return self._copies

    def _leave_the_server(self) -> None:
        """Called in a worker: from now on, rows of NDArrays are made from copies."""
        self._data = [_Rows(copy) if isinstance(part, NDArray) else part for part, copy in zip(self._data, self._on_host())]

    def batch(self, indices: Sequence[int]) -> Any:
        """Several rows of every array as NDArrays; None where the arrays are of other kinds, or a subclass makes the rows."""
        if not _host.is_own(self) or not all(isinstance(part, (NDArray, np.ndarray)) for part in self._data):
            return None
        parts: List[NDArray] = []
        rows: Optional[NDArray] = None
        for part in self._data:
            if isinstance(part, NDArray):
                if rows is None:
                    rows = ndarray.array(np.asarray(indices), dtype="int32", ctx=part.context)
                parts.append(ndarray.take(part, rows))
            else:
                chosen = part[np.asarray(indices)]
                parts.append(ndarray.array(chosen, dtype=chosen.dtype))
        return parts[0] if len(parts) == 1 else parts


class RecordFileDataset(Dataset):
    """The records of a file, as bytes. The file of its keys has the same name with the ending .idx."""

    host_ready = True

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, filename, "r")

    def __getitem__(self, idx: Any) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _Rows:
    """Stands for an NDArray of these values in a worker."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __getitem__(self, idx: Any) -> Any:
        return _host.sample(self._values[idx])


class _SampledDataset(Dataset):
    """Some samples of another dataset, in an order of their own."""

    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._indices = list(sampler)
        self.host_ready = _host.is_ready(dataset)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]


class _TransformedDataset(Dataset):
    """Samples of another dataset, changed when they are asked for."""

    def __init__(self, dataset: Any, fn: Callable[..., Any]) -> None:
        self._dataset = dataset
        self._fn = fn
        self.host_ready = (_host.is_ready(dataset) or isinstance(dataset, (list, np.ndarray))) and _host.is_ready(fn)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, idx: int) -> Any:
        item = self._dataset[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class First:
    """Changes the first part of a sample."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn
        self.host_ready = _host.is_ready(fn)

    def __call__(self, first: Any, *others: Any) -> Any:
        return (self._fn(first),) + others if others else self._fn(first)
