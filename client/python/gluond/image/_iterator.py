"""ImageIter: batches of images from a file of records, or from files that a list names."""
from __future__ import annotations

import logging
import os
import random
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .. import _image_files, ndarray, recordio
from .._array.array import NDArray
from ..base import MXNetError, WrongShape, WrongValue
from ..gluon.data.vision._image_lists import listed, read_list
from ..io._batches import DataBatch, DataIter
from ._augmenter_lists import CreateAugmenter, work_on_host
from ._functions import imdecode

_DTYPES = ("int32", "float32", "int64", "float64")
Provided = List[Tuple[str, Tuple[int, ...]]]  # The name and shape of each array of a batch.


class ImageIter(DataIter):
    """Batches of images (N, C, H, W) of float32, changed by augmenters, and of labels (N,), or (N, label_width).

    They are the records of `path_imgrec`, which `path_imgidx` finds in any order, or files in `path_root` that
    `path_imglist` names in lines of a number, labels and a path with tabs between them, or `imglist`,
    [label, ..., path]. A list beside records has the labels that count. With `shuffle` each epoch has an order of its
    own. The iterator has part `part_index` of `num_parts` parts of the images. `aug_list` are Augmenters; or CreateAugmenter
    makes them of `kwargs`.

    The last batch, where images are missing: 'pad' fills it up with the first ones, 'discard' leaves it out,
    'roll_over' puts its images before the next epoch's.

    A subclass may override next_sample, read_image, imdecode, check_valid_image, augmentation_transform and
    postprocess_data. Where it does not, and all Augmenters are of this module, images are changed in this process, and
    a batch is one upload.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Tuple[int, int, int],
        label_width: int = 1,
        path_imgrec: Optional[str] = None,
        path_imglist: Optional[str] = None,
        path_root: Optional[str] = None,
        path_imgidx: Optional[str] = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Optional[List[Any]] = None,
        imglist: Optional[List[Any]] = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise WrongValue("ImageIter: images come from path_imgrec, path_imglist or imglist; all are missing.")
        if dtype not in _DTYPES:
            raise WrongValue(f"ImageIter: labels cannot be {dtype}; there are {', '.join(_DTYPES)}.")
        self.check_data_shape(data_shape)
        self.data_shape = (data_shape[0], data_shape[1], data_shape[2])
        self.label_width = label_width
        self.provide_data: Provided = [(data_name, (batch_size, *self.data_shape))]
        self.provide_label: Provided = [(label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))]
        self.path_root = path_root
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.imgrec: Any = None
        self.imgidx: Optional[List[Any]] = None
        self.imglist: Optional[Dict[Any, Tuple[np.ndarray, str]]] = None
        if path_imglist:
            self.imglist = dict(read_list(path_imglist, dtype))
        elif isinstance(imglist, list):
            self.imglist = {str(number): item for number, item in enumerate(listed(imglist, dtype), 1)}
        self.seq: Optional[List[Any]] = list(self.imglist or ())
        if path_imgrec:
            self._open(path_imgrec, path_imgidx)
            self.seq = self.imgidx
        if self.seq is None and (shuffle or num_parts > 1):
            raise WrongValue("ImageIter: shuffle and num_parts want path_imgidx, the file of the records' places.")
        if num_parts > 1:
            if part_index >= num_parts:
                raise WrongValue(f"ImageIter: there is no part_index {part_index} of {num_parts} parts.")
            size = len(self.seq or ()) // num_parts
            self.seq = (self.seq or [])[part_index * size : (part_index + 1) * size]
        self.num_image = None if self.seq is None else len(self.seq)
        self.auglist = CreateAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        self.cur = 0
        self._allow_read = True
        self._rest: List[Tuple[Any, Any]] = []  # Samples that 'roll_over' has left of an epoch.
        self._on_host = False
        self.reset()

    def _open(self, path: str, path_of_keys: Optional[str]) -> None:
        if path_of_keys:
            self.imgrec = recordio.MXIndexedRecordIO(path_of_keys, path, "r")
            self.imgidx = list(self.imgrec.keys)
        else:
            self.imgrec = recordio.MXRecordIO(path, "r")

    def reset(self) -> None:
        """Goes back to the beginning, in another order with `shuffle`; with 'roll_over' the rest comes first."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = 0
        self._allow_read = True

    def hard_reset(self) -> None:
        """Goes back to the beginning, and forgets the rest of the last epoch."""
        self._rest = []
        self.reset()

    def next_sample(self) -> Tuple[Any, bytes]:
        """The next image's labels and its file's content. StopIteration: there is none."""
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                if self.last_batch_handle != "discard":
                    self.imgrec.reset()
                raise StopIteration
            header, content = recordio.unpack(record)
            return header.label, content
        if self.cur >= len(self.seq):
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            label, path = self.imglist[key]  # type: ignore[index]
            return label, self.read_image(path)
        header, content = recordio.unpack(self.imgrec.read_idx(key))
        return (header.label if self.imglist is None else self.imglist[key][0]), content

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        self._on_host = self._works_on_host()
        samples = self._rest or self._samples(self.batch_size)
        pad = self.batch_size - len(samples)
        if not samples or pad and self.last_batch_handle == "discard":
            raise StopIteration
        if pad and self.last_batch_handle == "roll_over" and not self._rest:
            self._rest = samples
            raise StopIteration
        missing, self._rest = pad, []
        while missing:
            more = self._samples(missing)
            if not more:
                break
            samples = samples + more
            missing -= len(more)
        if pad and self.last_batch_handle == "pad":
            self._allow_read = False
        images, labels = zip(*samples)
        return DataBatch([self._stacked(list(images))], [self._labels(list(labels))], pad)

    def _samples(self, count: int) -> List[Tuple[Any, Any]]:
        """Up to `count` samples (image (C, H, W), label), until the end."""
        found: List[Tuple[Any, Any]] = []
        while len(found) < count:
            try:
                label, content = self.next_sample()
            except StopIteration:
                break
            sample = self._sample(label, self._decoded(content))
            if sample is not None:
                found.append(sample)
        return found

    def _sample(self, label: Any, data: Any) -> Optional[Tuple[Any, Any]]:
        """One sample as it is in a batch; None where the image is not valid."""
        if self._on_host:
            return self._fitting(np.transpose(self._augmented(data), (2, 0, 1))), label
        try:
            self.check_valid_image(data)
        except RuntimeError as error:
            if isinstance(error, MXNetError):
                raise
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        return self._fitting(self.postprocess_data(self.augmentation_transform(data))), label

    def _fitting(self, image: Any) -> Any:
        if tuple(image.shape) != self.data_shape:
            raise WrongShape(
                f"{type(self).__name__}: an image has the shape {tuple(image.shape)} behind its "
                f"augmenters, and data_shape is {self.data_shape}; a crop or a resize in aug_list makes "
                "them equal."
            )
        return image

    def _works_on_host(self) -> bool:
        """Whether images can be changed as numpy arrays."""
        return has_steps_of(type(self), ImageIter) and work_on_host(self.auglist)

    def _decoded(self, content: bytes) -> Any:
        return self._located(_image_files.decode, content) if self._on_host else self.imdecode(content)

    def _augmented(self, data: Any) -> Any:
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def _stacked(self, images: List[Any]) -> NDArray:
        if all(isinstance(image, np.ndarray) for image in images):
            batch = np.zeros((self.batch_size, *self.data_shape), np.float32)
            batch[: len(images)] = images
            return ndarray.array(batch)
        parts = [image if isinstance(image, NDArray) else ndarray.array(image) for image in images]
        parts += [ndarray.zeros(self.data_shape)] * (self.batch_size - len(images))
        return ndarray.stack(*(part.astype("float32") for part in parts))

    def _labels(self, labels: List[Any]) -> NDArray:
        batch = np.zeros(self.provide_label[0][1], np.float32)
        for row, label in enumerate(labels):
            values = label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)
            if values.size not in (1, self.label_width):
                raise WrongShape(
                    f"{type(self).__name__}: an image has {values.size} labels, and label_width is " f"{self.label_width}."
                )
            batch[row] = values.ravel() if self.label_width > 1 else values.item()
        return ndarray.array(batch)

    def check_data_shape(self, data_shape: Tuple[int, ...]) -> None:
        """ValueError: it is not (3, height, width)."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: Any) -> None:
        """RuntimeError: it is no image; it is left out then."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """The image (H, W, C) of a file's content. MXNetError names the image that cannot be read."""
        return self._located(imdecode, s)

    def _located(self, decode: Any, content: bytes) -> Any:
        try:
            return decode(content)
        except MXNetError as error:
            key = None if self.seq is None else self.seq[self.cur - 1]
            where = "" if key is None else f" filename: {self.imglist[key][1]}" if self.imglist else f" index: {key}"
            raise MXNetError(f"Broken image{where}, {error}") from error

    def read_image(self, fname: str) -> bytes:
        """The content of an image's file in `path_root`."""
        with open(os.path.join(self.path_root or "", fname), "rb") as file:
            return file.read()

    def augmentation_transform(self, data: Any) -> Any:
        """An image (H, W, C), changed by the augmenters."""
        return self._augmented(data)

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """(H, W, C) -> (C, H, W)."""
        return ndarray.transpose(datum, axes=(2, 0, 1))


def has_steps_of(kind: type, base: type) -> bool:
    """Whether a subclass, of a program, has no step of its own."""
    return all(
        getattr(kind, name) is getattr(base, name)
        for name in ("imdecode", "check_valid_image", "augmentation_transform", "postprocess_data")
    )
