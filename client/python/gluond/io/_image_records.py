"""ImageRecordIter: batches of images from a file of records, decoded by threads ahead of their use."""
from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .. import _image_files, ndarray, recordio
from .._array.array import NDArray
from ..base import MXNetError, WrongShape
from ..gluon.data.vision._image_lists import read_list
from ._batches import DataDesc
from ._image_changes import Changes, Numbers, as_number, taken
from ._rounds import RoundIter

_FLAGS = {1: 0, 3: 1, 4: -1}  # By an image's channels, the way to decode it.


class ImageRecordIter(RoundIter):
    """Batches of the images of `path_imgrec`, (N, *data_shape), and of their labels, (N,) or (N, label_width).

    `data_shape` is (channels, height, width), of 1, 3 or 4 channels. The labels are the records', or those that the
    list `path_imglist` has for their ids. With `shuffle` each epoch has an order of its own, which `seed` tells;
    `seed_aug` tells the random changes. The iterator has part `part_index` of `num_parts` parts of the file, or of
    its keys with `path_imgidx`. The last batch that is not whole is filled up with the first images, behind which the next
    epoch begins with `round_batch`. Other keywords are the changes of _image_changes.py; more are ignored, as in MXNet.

    `dtype`: "float32", "uint8", whose pixels stay as they are, or "int8", which is limited to -128..127.
    """

    def __init__(
        self,
        *,
        path_imgrec: str,
        data_shape: Any,
        batch_size: int,
        path_imgidx: str = "",
        path_imglist: str = "",
        label_width: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        seed_aug: Optional[int] = None,
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        preprocess_threads: int = 4,
        dtype: Optional[str] = "float32",
        data_name: str = "data",
        label_name: str = "softmax_label",
        **keywords: Any,
    ) -> None:
        self._shape = as_number("data_shape", data_shape, ())
        self._dtype = np.dtype(dtype or "float32")
        if len(self._shape) != 3 or self._shape[0] not in _FLAGS:
            raise MXNetError(f"ImageRecordIter: value {data_shape} for data_shape has to be (1, 3 or 4, height, " "width).")
        if self._dtype not in ("float32", "uint8", "int8"):
            raise MXNetError(f"ImageRecordIter: unknown dtype {dtype}; there are float32, uint8 and int8.")
        self._label_width = as_number("label_width", label_width, 1)
        self._reader = recordio.MXRecordIO(path_imgrec, "r")
        self._places = _part(path_imgrec, path_imgidx, as_number("num_parts", num_parts, 1), as_number("part_index", part_index, 0))
        if not self._places:
            raise MXNetError(f"ImageRecordIter: {path_imgrec} has no images, or no one for this part.")
        super().__init__(len(self._places), as_number("batch_size", batch_size, 1), as_number("round_batch", round_batch, True))
        self._list = read_list(path_imglist) if path_imglist else None
        self._changes: Changes = taken(Changes, keywords)
        self._numbers: Numbers = taken(Numbers, keywords)
        self._shuffle = as_number("shuffle", shuffle, False)
        self._random = np.random.RandomState(as_number("seed", seed, 0))
        self._random_changes = np.random.RandomState(seed_aug)
        self._orders = [self._order(), self._order()]  # This epoch's and the next one's.
        self._threads = ThreadPoolExecutor(max(1, as_number("preprocess_threads", preprocess_threads, 4)))
        self._ahead: Tuple[List[int], List["Future[Any]"]] = ([], [])
        self._samples: List[Any] = []
        batch = (self.batch_size, *self._shape)
        labels = (self.batch_size,) if self._label_width == 1 else (self.batch_size, self._label_width)
        self.provide_data = [DataDesc(data_name, batch, self._dtype.type)]
        self.provide_label = [DataDesc(label_name, labels)]
        self._mean = self._mean_image() if self._numbers.mean_img else None

    def _order(self) -> np.ndarray:
        return self._random.permutation(self._count) if self._shuffle else np.arange(self._count)

    def reset(self) -> None:
        """Goes back to the beginning, in another order with `shuffle`; with `round_batch` behind the first images."""
        begun = self._begin > 0
        super().reset()
        if begun:
            self._orders = [self._orders[1], self._order()]

    def iter_next(self) -> bool:
        """Goes to the next batch; false if there is none. MXNetError: an image of it cannot be made."""
        if not super().iter_next():
            return False
        expected = self._begun(self._rows)
        if self._begin < self._count:
            self._ahead = self._begin_at(self._next_rows())
        self._samples = [each.result() for each in expected]
        return True

    def _begun(self, rows: np.ndarray) -> List["Future[Any]"]:
        numbers = self._records(rows)
        return self._ahead[1] if self._ahead[0] == numbers else self._begin_at(rows)[1]

    def _begin_at(self, rows: np.ndarray) -> Tuple[List[int], List["Future[Any]"]]:
        """The numbers of rows' records, and their samples, which threads make."""
        numbers = self._records(rows)
        seeds = self._random_changes.randint(1 << 31, size=len(numbers))
        return numbers, [
            self._threads.submit(self._sample, number, self._content(number), seed) for number, seed in zip(numbers, seeds)
        ]

    def _records(self, rows: np.ndarray) -> List[int]:
        return [int(self._orders[int(row >= self._count)][row % self._count]) for row in rows]

    def _content(self, number: int) -> bytes:
        self._reader._file.seek(self._places[number])
        return self._reader.read() or b""

    def _sample(self, number: int, record: bytes, seed: int) -> Tuple[np.ndarray, Any, int]:
        """(image (C, H, W), labels, id) of a record."""
        header, content = recordio.unpack(record)
        random = np.random.RandomState(seed)
        try:
            image = _image_files.decode(content, _FLAGS[self._shape[0]])
        except MXNetError as error:
            raise MXNetError(f"{self._reader.uri}: record {number}, id {header.id}: {error}") from error
        if image.shape[2] != self._shape[0]:
            raise WrongShape(
                f"{self._reader.uri}: Invalid image with index {header.id}. Expected {self._shape[0]} "
                f"channels, got {image.shape[2]}."
            )
        image = self._changes(image, self._shape[1:], random)
        if self._dtype == np.uint8:
            return image.transpose(2, 0, 1), self._label(header), header.id
        numbers = self._numbers(image, self._mean, random)
        if self._dtype == np.int8:
            numbers = np.clip(np.rint(numbers), -128, 127)
        return numbers, self._label(header), header.id

    def _label(self, header: Any) -> np.ndarray:
        label = header.label
        if self._list is not None:
            if header.id not in self._list:
                raise MXNetError(f"{self._reader.uri}: there is no image {header.id} in path_imglist.")
            label = self._list[header.id][0]
        label = np.atleast_1d(np.asarray(label, np.float32))
        if self._list is None and len(label) != self._label_width or len(label) < self._label_width:
            raise WrongShape(
                f"{self._reader.uri}: image {header.id} has {len(label)} labels, and label_width is " f"{self._label_width}."
            )
        return label[0] if self._label_width == 1 else label[: self._label_width]

    def _mean_image(self) -> np.ndarray:
        """The array of `mean_img`; a file that is not there is made of all images."""
        path = self._numbers.mean_img
        if os.path.exists(path):
            found: Any = ndarray.load(path)
            return (found["mean_img"] if isinstance(found, dict) else found[0]).asnumpy()
        total = np.zeros(self._shape, np.float64)
        for number in range(self._count):
            image = _image_files.decode(recordio.unpack(self._content(number))[1], _FLAGS[self._shape[0]])
            total += self._changes(image, self._shape[1:], np.random.RandomState(0)).transpose(2, 0, 1)
        mean = (total / self._count).astype(np.float32)
        ndarray.save(path, {"mean_img": ndarray.array(mean)})
        return mean

    def getdata(self) -> NDArray:
        """The data of the current batch."""
        return ndarray.array(np.stack([image for image, _, _ in self._samples]), dtype=self._dtype)

    def getlabel(self) -> NDArray:
        """The labels of the current batch."""
        return ndarray.array(np.stack([label for _, label, _ in self._samples]))

    def getindex(self) -> np.ndarray:
        """The ids of its records."""
        return np.array([number for _, _, number in self._samples], np.uint64)


def ImageRecordUInt8Iter(**keywords: Any) -> ImageRecordIter:  # noqa: N802
    """ImageRecordIter of bytes."""
    keywords["dtype"] = "uint8"
    return ImageRecordIter(**keywords)


def ImageRecordInt8Iter(**keywords: Any) -> ImageRecordIter:  # noqa: N802
    """ImageRecordIter of bytes with a sign."""
    keywords["dtype"] = "int8"
    return ImageRecordIter(**keywords)


def _part(path: str, path_of_keys: str, parts: int, number: int) -> List[int]:
    """The places of a part's records: by their number where the keys are known, else by bytes of the file."""
    if not 0 <= number < parts:
        raise MXNetError(f"ImageRecordIter: there is no part_index {number} of num_parts {parts}.")
    if path_of_keys:
        places = sorted(recordio.MXIndexedRecordIO(path_of_keys, path, "r").idx.values())
        size = -(-len(places) // parts)
        return places[size * number : size * (number + 1)]
    size = -(-os.path.getsize(path) // parts)
    size += -size % 4
    return [place for place in recordio.record_places(path) if size * number <= place < size * (number + 1)]
