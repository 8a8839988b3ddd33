"""NDArrayIter: batches of arrays."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import WrongValue
from ._batches import DataBatch, DataDesc, DataIter
from .utils import Named, _init_data


class NDArrayIter(DataIter):
    """Batches of rows of arrays, which stay on the server.

    `data` and `label` are an NDArray or a numpy array, a list of them, or a dict by name. numpy arrays become float32.
    `last_batch_handle` tells what becomes of a last batch that is not whole: 'pad' fills it up with the first rows; 'discard' leaves
    it out;
    'roll_over' puts it before the next epoch's first rows. With `shuffle` the rows have another order after each `reset`.

        for batch in mx.io.NDArrayIter(x, y, batch_size=64, shuffle=True):
            batch.data[0], batch.label[0]

    Names: a lone array has `data_name` or `label_name`; of several in a list, the first one has _0_ before it.
    ValueError: there are no data. TypeError: they are no arrays.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        self.data = _init_data(data, False, data_name)
        self.label = _init_data(label, True, label_name)
        self.idx = np.arange(self.data[0][1].shape[0])
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.layout = layout
        self.num_data = len(self.idx)
        self.cursor = -batch_size
        self._rest: Optional[Tuple[List[NDArray], List[NDArray]]] = None  # Rows that 'roll_over' has left of an epoch.
        self.reset()

    @property
    def provide_data(self) -> List[DataDesc]:
        """The descriptions of a batch's data."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> List[DataDesc]:
        """The descriptions of a batch's labels."""
        return self._describe(self.label)

    @property
    def data_list(self) -> List[NDArray]:
        """All arrays, those of the data first."""
        return [array for _, array in self.data + self.label]

    @property
    def num_source(self) -> int:
        """The number of arrays."""
        return len(self.data) + len(self.label)

    @property
    def _axis(self) -> int:
        return DataDesc.get_batch_axis(self.layout)

    def _describe(self, arrays: Named) -> List[DataDesc]:
        axis = self._axis
        return [
            DataDesc(name, array.shape[:axis] + (self.batch_size,) + array.shape[axis + 1 :], array.dtype, self.layout)
            for name, array in arrays
        ]

    def reset(self) -> None:
        """Goes back to the beginning; with 'roll_over' to what is left of the last epoch, if it came to its end."""
        if self.shuffle:
            self._shuffle()
        at_the_end = self.num_data - self.batch_size < self.cursor < self.num_data
        rest = self.cursor - self.num_data if self.last_batch_handle == "roll_over" and at_the_end else 0
        self.cursor = rest - self.batch_size

    def hard_reset(self) -> None:
        """Goes back to the beginning, and forgets what is left of the last epoch."""
        if self.shuffle:
            self._shuffle()
        self.cursor = -self.batch_size
        self._rest = None

    def _shuffle(self) -> None:
        """Orders the rows anew, from their present order. Integers become float32, as in MXNet."""
        np.random.shuffle(self.idx)
        rows = ndarray.array(self.idx, dtype="int32")
        self.data, self.label = (
            [(name, ndarray.take(array, rows.as_in_context(array.context)).astype("float32")) for name, array in arrays]
            for arrays in (self.data, self.label)
        )

    def iter_next(self) -> bool:
        """Goes to the next batch; false if there is none."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        self._rest = None
        if data[0].shape[self._axis] != self.batch_size:
            self._rest = (data, label)
            raise StopIteration
        return DataBatch(data, label, self.getpad())

    def getdata(self) -> List[NDArray]:
        """The data of the current batch; a part of a batch at the end, unless the rest is padded."""
        return self._batch(self.data, 0)

    def getlabel(self) -> List[NDArray]:
        """The labels of the current batch; as for the data."""
        return self._batch(self.label, 1)

    def getpad(self) -> int:
        """The number of rows that fill the last batch up; with 'roll_over' of those from the last epoch."""
        if self.last_batch_handle == "pad":
            return max(0, self.cursor + self.batch_size - self.num_data)
        return max(0, -self.cursor) if self.last_batch_handle == "roll_over" and self.cursor > -self.batch_size else 0

    def _batch(self, arrays: Named, part: int) -> List[NDArray]:
        if self.cursor >= self.num_data:
            raise WrongValue("DataIter needs reset.")
        end = self.cursor + self.batch_size
        if self.cursor < 0:
            if self._rest is None:
                raise WrongValue("next epoch should have cached data")
            return self._joined([self._rest[part], self._rows(arrays, 0, end)])
        pieces = [self._rows(arrays, self.cursor, min(end, self.num_data))]
        missing = end - self.num_data if self.last_batch_handle == "pad" else 0
        while missing > 0:
            pieces.append(self._rows(arrays, 0, min(missing, self.num_data)))
            missing -= self.num_data
        return self._joined(pieces)

    def _rows(self, arrays: Named, begin: int, end: int) -> List[NDArray]:
        axis = self._axis
        found = [ndarray.slice_axis(array, axis=axis, begin=begin, end=end) for _, array in arrays]
        for (_, array), rows in zip(arrays, found):  # Programs ask each batch for its shape; the server need not be asked.
            rows._shape = array.shape[:axis] + (end - begin,) + array.shape[axis:][1:]  # The axis may be -1.
        return found

    def _joined(self, pieces: List[List[NDArray]]) -> List[NDArray]:
        return pieces[0] if len(pieces) == 1 else [ndarray.concat(*parts, dim=self._axis) for parts in zip(*pieces)]
