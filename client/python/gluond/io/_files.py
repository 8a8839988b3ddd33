"""Batches of local files: tables of numbers, and MNIST's."""
from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import WrongShape
from ..gluon.data.vision.datasets import read_idx
from ._batches import DataDesc
from ._rounds import RoundIter


class _FileIter(RoundIter):
    """Batches of the rows of numpy arrays."""

    def __init__(
        self, data: np.ndarray, label: np.ndarray, batch_size: int, round_batch: bool, data_name: str, label_name: str
    ) -> None:
        super().__init__(len(data), batch_size, round_batch)
        self._data = data
        self._label = label
        self.provide_data = [DataDesc(data_name, (batch_size,) + data.shape[1:], data.dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size,) + label.shape[1:], label.dtype.type)]

    def _of(self, values: np.ndarray) -> NDArray:
        return ndarray.array(values[self._rows % len(values)], dtype=values.dtype)

    def getdata(self) -> NDArray:
        """The data of the current batch."""
        return self._of(self._data)

    def getlabel(self) -> NDArray:
        """The labels of the current batch."""
        return self._of(self._label)


class CSVIter(_FileIter):
    """Rows of numbers of a file `data_csv`, each of shape `data_shape`, and labels of `label_csv`, or zeros.

    Other keywords are ignored, as in MXNet. WrongShape: the rows have another size.
    """

    def __init__(
        self,
        *,
        data_csv: str,
        data_shape: Tuple[int, ...],
        batch_size: int,
        label_csv: str = "NULL",
        label_shape: Tuple[int, ...] = (1,),
        round_batch: bool = True,
        dtype: Any = "float32",
        data_name: str = "data",
        label_name: str = "softmax_label",
        **_unused: Any,
    ) -> None:
        data = _table(data_csv, data_shape, dtype or "float32")
        if label_csv == "NULL":
            label = np.zeros((len(data),) + tuple(label_shape), data.dtype)
        else:
            label = _table(label_csv, label_shape, dtype or "float32")
        if len(label) != len(data):
            raise WrongShape(f"CSVIter: {data_csv} has {len(data)} rows, {label_csv} has {len(label)}.")
        if tuple(label_shape) == (1,):
            label = label[:, 0]
        super().__init__(data, label, batch_size, round_batch, data_name, label_name)


def _table(path: str, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
    rows = np.loadtxt(path, np.float64, delimiter=",", ndmin=2).astype(dtype)
    if rows.shape[1] != np.prod(shape, dtype=int):
        raise WrongShape(f"CSVIter: the rows of {path} have {rows.shape[1]} numbers, which are not of the shape {tuple(shape)}.")
    return rows.reshape((len(rows),) + tuple(shape))


class MNISTIter(_FileIter):
    """Whole batches of MNIST's images, 0 to 1, of shape (1, 28, 28), or (784,) with `flat`; and their labels.

    `image` and `label` are local files, packed by gzip or not. With `shuffle` they are in an order that `seed` tells, which
    is the same in each epoch. The iterator has part `part_index` of `num_parts` parts of the images. Other keywords are ignored, as in
    MXNet.
    """

    def __init__(
        self,
        *,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **_unused: Any,
    ) -> None:
        images, labels = read_idx(image, 3), read_idx(label, 1)
        part = np.arange(len(images) * part_index // num_parts, len(images) * (part_index + 1) // num_parts)
        if shuffle:
            np.random.RandomState(seed).shuffle(part)
        part = part[: len(part) // batch_size * batch_size]
        shape = (-1,) if flat else (1,) + images.shape[1:]
        self._numbers = part
        super().__init__(
            images[part].reshape((len(part),) + shape).astype(np.float32) / 256,
            labels[part].astype(np.float32),
            batch_size,
            False,
            data_name,
            label_name,
        )

    def getindex(self) -> np.ndarray:
        """The numbers of the current batch's images."""
        return self._numbers[self._rows].astype(np.uint64)
