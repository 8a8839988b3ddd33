"""MNIST, FashionMNIST, CIFAR10 and CIFAR100, and folders of images, from files that are there: gluond downloads nothing."""
from __future__ import annotations

import gzip
import os
import struct
import tarfile
import warnings
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from .... import _image_files, recordio
from ....base import data_dir
from .. import _host
from ..dataset import Dataset, RecordFileDataset
from ._image_lists import listed, read_list

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageFolderDataset", "ImageRecordDataset", "ImageListDataset"]

_HOME = data_dir()


class _Images(Dataset):
    """Samples (image, label) of `_data`, an array of images, and `_label`, changed by `transform(image, label)`."""

    _data: np.ndarray
    _label: np.ndarray

    def __init__(self, transform: Optional[Callable[[Any, Any], Any]]) -> None:
        self._transform = transform
        self.host_ready = transform is None or _host.is_ready(transform)

    def __getitem__(self, idx: Any) -> Tuple[Any, Any]:
        image, label = _host.sample(self._data[idx]), self._label[idx]
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self._label)


class MNIST(_Images):
    """Handwritten digits: samples (image (28, 28, 1) uint8, label int32), 60,000 to train and 10,000 to test.

    `root`: the folder with train-images-idx3-ubyte.gz and the other three files of Yann LeCun's, packed or not.
    `transform(image, label)` changes each sample.
    """

    _elsewhere: Sequence[str] = ()
    _fetch = "from the MNIST database of handwritten digits"

    def __init__(
        self,
        root: str = os.path.join(_HOME, "datasets", "mnist"),
        train: bool = True,
        transform: Optional[Callable[[Any, Any], Any]] = None,
    ) -> None:
        super().__init__(transform)
        part = "train" if train else "t10k"
        folders = [os.path.expanduser(root), *self._elsewhere]
        self._data = read_idx(self._find(folders, f"{part}-images-idx3-ubyte"), 3)[..., np.newaxis]
        self._label = read_idx(self._find(folders, f"{part}-labels-idx1-ubyte"), 1).astype(np.int32)

    def _find(self, folders: List[str], name: str) -> str:
        path = find_idx(folders, name)
        if path is not None:
            return path
        raise FileNotFoundError(
            f"{type(self).__name__}: there is no {name}.gz in {' or '.join(folders)}. gluond "
            f"downloads nothing; get the four files {self._fetch}, or name their folder: "
            f"{type(self).__name__}(root=...)."
        )


class FashionMNIST(MNIST):
    """Pictures of clothes, in the form of MNIST. Debian's package dataset-fashion-mnist is found by itself."""

    _elsewhere = ("/usr/share/datasets/fashion-mnist",)
    _fetch = "by `apt install dataset-fashion-mnist`"

    def __init__(
        self,
        root: str = os.path.join(_HOME, "datasets", "fashion-mnist"),
        train: bool = True,
        transform: Optional[Callable[[Any, Any], Any]] = None,
    ) -> None:
        super().__init__(root, train, transform)


class CIFAR10(_Images):
    """Photographs of ten kinds of things: samples (image (32, 32, 3) uint8, label int32), 50,000 to train and 10,000 to test.

    `root`: the folder with cifar-10-binary.tar.gz, or with the files data_batch_1.bin to data_batch_5.bin and test_batch.bin.
    `transform(image, label)` changes each sample. FileNotFoundError: the files are not there.
    """

    _archive = "cifar-10-binary.tar.gz"
    _train_files: Sequence[str] = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    _test_files: Sequence[str] = ("test_batch.bin",)
    _label_bytes = 1
    _label_at = 0  # The byte of a picture's label.

    def __init__(
        self,
        root: str = os.path.join(_HOME, "datasets", "cifar10"),
        train: bool = True,
        transform: Optional[Callable[[Any, Any], Any]] = None,
    ) -> None:
        super().__init__(transform)
        names = self._train_files if train else self._test_files
        size = self._label_bytes + 3 * 32 * 32
        contents = self._read(os.path.expanduser(root), names)
        for name, content in zip(names, contents):
            if len(content) % size != 0:
                raise ValueError(
                    f"{type(self).__name__}: {name} is cut off: {len(content)} bytes are not pictures of {size} " "bytes."
                )
        rows = np.concatenate([np.frombuffer(content, np.uint8).reshape(-1, size) for content in contents])
        self._data = rows[:, self._label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self._label = rows[:, self._label_at].astype(np.int32)

    def _read(self, root: str, names: Sequence[str]) -> List[bytes]:
        """The contents of the files, in the folder, or in the archive there."""
        paths = [os.path.join(root, name) for name in names]
        archive = os.path.join(root, self._archive)
        if all(map(os.path.exists, paths)):
            found = []
            for path in paths:
                with open(path, "rb") as file:
                    found.append(file.read())
            return found
        if os.path.exists(archive):
            with tarfile.open(archive) as packed:
                inside = {os.path.basename(member.name): packed.extractfile(member) for member in packed if member.isfile()}
                if all(name in inside for name in names):
                    return [inside[name].read() for name in names]  # type: ignore[union-attr]
        raise FileNotFoundError(
            f"{type(self).__name__}: there is neither {names[0]} nor {self._archive} in {root}. gluond "
            "downloads nothing; get the binary version from https://www.cs.toronto.edu/~kriz/"
            f"{self._archive}, or name its folder: {type(self).__name__}(root=...)."
        )


class CIFAR100(CIFAR10):
    """As CIFAR10, of twenty kinds, or of a hundred with `fine_label`; of cifar-100-binary.tar.gz, or train.bin and test.bin."""

    _archive = "cifar-100-binary.tar.gz"
    _train_files = ("train.bin",)
    _test_files = ("test.bin",)
    _label_bytes = 2

    def __init__(
        self,
        root: str = os.path.join(_HOME, "datasets", "cifar100"),
        fine_label: bool = False,
        train: bool = True,
        transform: Optional[Callable[[Any, Any], Any]] = None,
    ) -> None:
        self._label_at = int(fine_label)
        super().__init__(root, train, transform)


class ImageFolderDataset(Dataset):
    """The images of folders in a folder: samples (image (H, W, 3) uint8, number of its folder in the order of the names).

        root/car/0001.jpg
        root/bus/0001.png

    `synsets` are the folders' names, `items` pairs (path, label). `flag` 0 reads gray images (H, W, 1).
    `transform(image, label)` changes each sample. Other files than .jpg, .jpeg and .png are warned of and left out.
    """

    def __init__(self, root: str, flag: int = 1, transform: Optional[Callable[[Any, Any], Any]] = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self._exts = [".jpg", ".jpeg", ".png"]
        self.host_ready = transform is None or _host.is_ready(transform)
        self.synsets: List[str] = []
        self.items: List[Tuple[str, int]] = []
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if os.path.isdir(path):
                self._list(path)
                self.synsets.append(folder)
            else:
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)

    def _list(self, folder: str) -> None:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            ending = os.path.splitext(name)[1]
            if ending.lower() in self._exts:
                self.items.append((path, len(self.synsets)))
            else:
                warnings.warn(f"Ignoring {path} of type {ending}. Only support {', '.join(self._exts)}", stacklevel=3)

    def __getitem__(self, idx: Any) -> Tuple[Any, Any]:
        path, label = self.items[idx]
        image = _host.sample(_image_files.read(path, self._flag))
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self.items)


class ImageRecordDataset(RecordFileDataset):
    """The images of a file of records, `filename`: samples (image (H, W, 3) uint8, its label, or several in an array).

    The file of its keys has the ending .idx. `flag` 0 reads gray images (H, W, 1).
    `transform(image, label)` changes each sample.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Optional[Callable[[Any, Any], Any]] = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform
        self.host_ready = transform is None or _host.is_ready(transform)

    def __getitem__(self, idx: Any) -> Tuple[Any, Any]:
        header, content = recordio.unpack(super().__getitem__(idx))
        image = _host.sample(_image_files.decode(content, self._flag))
        return (image, header.label) if self._transform is None else self._transform(image, header.label)


class ImageListDataset(Dataset):
    """The images of a list, in the folder `root`: samples (image (H, W, 3) uint8, labels).

    `imglist` is a file of numbers, labels and paths with tabs between them, or a list of [label, ..., path].
    `flag` 0 reads gray images (H, W, 1). `items` are pairs (path, labels).
    """

    host_ready = True

    def __init__(self, root: str = ".", imglist: Union[str, List[Any], None] = None, flag: int = 1) -> None:
        images = list(read_list(imglist).values()) if isinstance(imglist, str) else listed(imglist or [])
        self._flag = flag
        self.items = [(os.path.join(os.path.expanduser(root), path), labels) for labels, path in images]

    def __getitem__(self, idx: Any) -> Tuple[Any, Any]:
        path, labels = self.items[idx]
        return _host.sample(_image_files.read(path, self._flag)), labels

    def __len__(self) -> int:
        return len(self.items)


def find_idx(folders: Sequence[str], name: str) -> Optional[str]:
    """The path of a file in the first folder that has it, packed or not; None if no folder has it."""
    for folder in folders:
        for path in (os.path.join(folder, name + ".gz"), os.path.join(folder, name)):
            if os.path.exists(path):
                return path
    return None


def read_idx(path: str, rank: int) -> np.ndarray:
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
