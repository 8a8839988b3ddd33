"""A batch, the description of its arrays, and the base of the iterators."""
from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base import WrongType


class _NameAndShape(NamedTuple):
    name: str
    shape: Tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, shape, dtype and layout of one array of a batch. As a tuple it is (name, shape)."""

    dtype: Any
    layout: Optional[str]

    def __new__(cls, name: str, shape: Tuple[int, ...], dtype: Any = np.float32, layout: Optional[str] = "NCHW") -> "DataDesc":
        made = super().__new__(cls, name, shape)
        made.dtype = dtype
        made.layout = layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: Optional[str]) -> int:
        """The place of N in a layout; -1 where there is none, and 0 for None."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[Any], types: Optional[Sequence[Any]]) -> List["DataDesc"]:
        """Descriptions of pairs (name, shape), with dtypes of pairs (name, dtype) if there are any."""
        if types is None:
            return [DataDesc(each[0], each[1]) for each in shapes]
        dtypes = dict(types)
        return [DataDesc(each[0], each[1], dtypes[each[0]]) for each in shapes]


class DataBatch:
    """One batch: lists of NDArrays `data` and `label`, whose last `pad` samples fill the batch up and do not count.

    TypeError: `data` or `label` is no list.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: Optional[int] = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        if data is not None and not isinstance(data, (list, tuple)):
            raise WrongType("Data must be list of NDArrays")
        if label is not None and not isinstance(label, (list, tuple)):
            raise WrongType("Label must be list of NDArrays")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        labels = [each.shape for each in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[each.shape for each in self.data or ()]} label shapes: {labels}"


class DataIter:
    """Base class of the iterators. A subclass overrides `next`, or `iter_next` and the `get` methods, and `reset`.

    It has `batch_size` and the lists of DataDesc `provide_data` and `provide_label`. An iterator that has come to its end
    stays there until `reset`.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> "DataIter":
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def reset(self) -> None:
        """Goes back to the beginning."""

    def iter_next(self) -> Any:
        """Goes to the next batch; false if there is none."""

    def getdata(self) -> Any:
        """The arrays of the current batch."""

    def getlabel(self) -> Any:
        """The labels of the current batch."""

    def getindex(self) -> Any:
        """The numbers of the current batch's samples, or None."""
        return None

    def getpad(self) -> Any:
        """The number of samples that only fill the current batch up."""
