"""Batches of a gluon DataLoader for a Module: `mod.fit(mx.contrib.io.DataLoaderIter(loader))`."""

from __future__ import annotations

from typing import Any, List, Optional

from .. import ndarray as nd
from .._array.array import NDArray
from ..io._batches import DataDesc, DataIter

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """The batches of a DataLoader of pairs (data, label), as arrays of `dtype`.

    A shorter last batch is filled up with zeros, `getpad()` rows of them.
    """

    def __init__(self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: str = "float32") -> None:
        data, label = next(iter(loader))
        super().__init__(data.shape[0])
        self._loader, self._dtype = loader, dtype
        self._batch: Any = None
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self.reset()

    def reset(self) -> None:
        """Begins a pass over the loader."""
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        """Whether there is a further batch, which is the current one then."""
        self._batch = next(self._batches, None)
        return self._batch is not None

    def getdata(self) -> List[NDArray]:
        """The current batch's data."""
        return [self._filled(self._batch[0])]

    def getlabel(self) -> List[NDArray]:
        """The current batch's labels."""
        return [self._filled(self._batch[1])]

    def getpad(self) -> int:
        """The rows that the current batch lacks."""
        return int(self.batch_size - self._batch[0].shape[0])

    def getindex(self) -> Optional[Any]:
        """None: a loader tells no numbers of rows."""
        return None

    def _filled(self, array: NDArray) -> NDArray:
        array = array.astype(self._dtype)
        if not self.getpad():
            return array
        return nd.concat(array, nd.zeros((self.getpad(), *array.shape[1:]), dtype=self._dtype, ctx=array.context), dim=0)
