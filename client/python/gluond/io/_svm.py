"""LibSVMIter: batches of sparse rows of a text file, as dense arrays."""
from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import MXNetError, WrongShape, cannot_open
from ._batches import DataDesc
from ._rounds import RoundIter


class _Sample(NamedTuple):
    """One line: `1.5 0:0.5 7:2` has the label 1.5 and two numbers at their places."""

    label: float
    places: np.ndarray
    numbers: np.ndarray


class LibSVMIter(RoundIter):
    """Batches of the rows of `data_libsvm`, (N, *data_shape) float32, and of their labels, (N,).

    A line is `label place:number place:number`, with places from 0 on. With `label_libsvm` the labels are such rows
    too, of `label_shape`. The iterator has part `part_index` of `num_parts` parts of the file. The last batch that is not whole
    is filled up with the first rows, behind which the next epoch begins. Arrays are dense; a batch has to fit into
    memory.
    Other keywords are ignored, as in MXNet. MXNetError: a line is no such one, or does not fit its shape.
    """

    def __init__(
        self,
        *,
        data_libsvm: str,
        data_shape: Tuple[int, ...],
        batch_size: int,
        label_libsvm: str = "NULL",
        label_shape: Tuple[int, ...] = (1,),
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **_unused: Any,
    ) -> None:
        if not round_batch:
            raise MXNetError("LibSVMIter: sparse batch loader doesn't support round_batch == false yet")
        self._data = _read(data_libsvm, num_parts, part_index)
        self._has_labels = label_libsvm != "NULL"
        self._labels = _read(label_libsvm, num_parts, part_index) if self._has_labels else self._data
        self._label_file = label_libsvm if self._has_labels else data_libsvm
        if not self._data:
            raise MXNetError(f"LibSVMIter: {data_libsvm} has no rows, or no one for this part.")
        if len(self._labels) != len(self._data):
            raise WrongShape(f"LibSVMIter: {data_libsvm} has {len(self._data)} rows, {label_libsvm} has " f"{len(self._labels)}.")
        if not self._has_labels and tuple(label_shape) != (1,):
            raise WrongShape(f"LibSVMIter: label_shape is expected to be (1,) without label_libsvm; it is " f"{label_shape}.")
        super().__init__(len(self._data), batch_size, True)
        self._file = data_libsvm
        labels = (batch_size, *label_shape) if self._has_labels else (batch_size,)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape))]
        self.provide_label = [DataDesc(label_name, labels)]

    def getdata(self) -> NDArray:
        """The data of the current batch."""
        return self._dense(self._data, self.provide_data[0].shape, self._file)

    def getlabel(self) -> NDArray:
        """The labels of the current batch."""
        if self._has_labels:
            return self._dense(self._labels, self.provide_label[0].shape, self._label_file)
        return ndarray.array([self._data[row].label for row in self.getindex()])

    def _dense(self, rows: List[_Sample], shape: Tuple[int, ...], path: str) -> NDArray:
        batch = np.zeros((self.batch_size, int(np.prod(shape[1:]))), np.float32)
        for to, number in zip(batch, self.getindex()):
            row = rows[number]
            if len(row.places) and row.places.max() >= batch.shape[1]:
                raise WrongShape(
                    f"LibSVMIter: a row of {path} has a number at place {row.places.max()}, and its shape " f"is {shape[1:]}."
                )
            to[row.places] = row.numbers
        return ndarray.array(batch.reshape(shape))


def _read(path: str, parts: int, number: int) -> List[_Sample]:
    """A part's rows: those of the lines that begin in its bytes of the file."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise cannot_open(error) from error
    size = -(-len(content) // parts)
    found, begin = [], 0
    for count, line in enumerate(content.split(b"\n"), 1):
        # A line at the very beginning of a part belongs to the part before, as a reader skips to the next line's end.
        belongs = begin == 0 == number or size * number < begin <= size * (number + 1)
        words = line.split(b"#")[0].split()
        if belongs and words:
            try:
                found.append(_row(words))
            except ValueError as error:
                raise MXNetError(
                    f"{path}, line {count}: a label and pairs place:number are expected; it is "
                    f"{line.decode(errors='replace')[:80]!r}."
                ) from error
        begin += len(line) + 1
    return found


def _row(words: List[bytes]) -> _Sample:
    """The numbers of a line's words. A label may have a weight behind a colon; a place without a number has 1."""
    pairs = [word.partition(b":")[::2] for word in words[1:] if not word.startswith(b"qid:")]
    places = np.array([int(place) for place, _ in pairs], np.int64)
    if (places < 0).any():
        raise ValueError("a place is below 0")
    numbers = np.array([float(value or 1) for _, value in pairs], np.float32)
    return _Sample(float(words[0].partition(b":")[0]), places, numbers)
