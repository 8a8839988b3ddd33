"""MNIST and FashionMNIST, from files that are there: gluond downloads nothing."""
from __future__ import annotations

import gzip
import os
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .. import _host
from ..dataset import Dataset

__all__ = ["MNIST", "FashionMNIST"]

_HOME = os.environ.get("MXNET_HOME", os.path.join("~", ".mxnet"))


class MNIST(Dataset):
    """Handwritten digits: samples (image (28, 28, 1) uint8, label int32), 60,000 to train and 10,000 to test.

    `root`: the folder with train-images-idx3-ubyte.gz and the other three files of Yann LeCun's, packed or not.
    `transform(image, label)` changes each sample.
    """

    _elsewhere: Sequence[str] = ()
    _fetch = "from the MNIST database of handwritten digits"

    def __init__(self, root: str = os.path.join(_HOME, "datasets", "mnist"), train: bool = True,
                 transform: Optional[Callable[[Any, Any], Any]] = None) -> None:
        self._transform = transform
        self.host_ready = transform is None or _host.is_ready(transform)
        part = "train" if train else "t10k"
        folders = [os.path.expanduser(root), *self._elsewhere]
        self._data = _read_idx(self._find(folders, f"{part}-images-idx3-ubyte"), 3)[..., np.newaxis]
        self._label = _read_idx(self._find(folders, f"{part}-labels-idx1-ubyte"), 1).astype(np.int32)

    def _find(self, folders: List[str], name: str) -> str:
        for folder in folders:
            for path in (os.path.join(folder, name + ".gz"), os.path.join(folder, name)):
                if os.path.exists(path):
                    return path
        raise FileNotFoundError(f"{type(self).__name__}: there is no {name}.gz in {' or '.join(folders)}. gluond "
                                f"downloads nothing; get the four files {self._fetch}, or name their folder: "
                                f"{type(self).__name__}(root=...).")

    def __getitem__(self, idx: Any) -> Tuple[Any, Any]:
        image, label = _host.sample(self._data[idx]), self._label[idx]
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self._label)


class FashionMNIST(MNIST):
    """Pictures of clothes, in the form of MNIST. Debian's package dataset-fashion-mnist is found by itself."""

    _elsewhere = ("/usr/share/datasets/fashion-mnist",)
    _fetch = "by `apt install dataset-fashion-mnist`"

    def __init__(self, root: str = os.path.join(_HOME, "datasets", "fashion-mnist"), train: bool = True,
                 transform: Optional[Callable[[Any, Any], Any]] = None) -> None:
        super().__init__(root, train, transform)


def _read_idx(path: str, rank: int) -> np.ndarray:
    """A file of bytes in the IDX format, of so many dimensions."""
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 + 4 * rank or data[:4] != bytes([0, 0, 8, rank]):
        raise ValueError(f"{path} is no IDX file of {rank} dimensions of bytes.")
    shape = struct.unpack_from(f">{rank}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path} is cut off: {shape} are promised, {values.size} values are there.")
    return values.reshape(shape)
