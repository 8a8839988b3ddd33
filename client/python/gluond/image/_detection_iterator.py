"""ImageDetIter: batches of images with boxes."""
from __future__ import annotations

import logging
from typing import Any, List, Optional, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import MXNetError, WrongValue
from ._detection_lists import CreateDetAugmenter, work_on_host_with_boxes
from ._iterator import ImageIter, has_steps_of


class ImageDetIter(ImageIter):
    """As ImageIter, of images with boxes: labels are (N, most boxes of an image, numbers of a box), filled up with -1.

    An image's numbers are those before its boxes, at least 2, of which the second one is that of each box, at least 5;
    more; and each box's kind, left, top, right and bottom, as shares of the image, and more. Boxes whose sides are not
    in order are dropped; an image without boxes is left out. `aug_list` are DetAugmenters; or CreateDetAugmenter makes
    them of `kwargs`. RuntimeError: labels that are no such numbers.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Tuple[int, int, int],
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
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _estimate_label_shape(self) -> Tuple[int, int]:
        """The most boxes of an image, and the numbers of a box."""
        self.reset()
        most, numbers = 0, 5
        while True:
            try:
                boxes = self._parse_label(self.next_sample()[0])
            except StopIteration:
                break
            most, numbers = max(most, len(boxes)), boxes.shape[1]
        self.reset()
        return most, numbers

    def _parse_label(self, label: Any) -> np.ndarray:
        """The boxes (n, numbers of a box) of an image's numbers. RuntimeError: there is none, or they are not boxes."""
        raw = np.ravel(label.asnumpy() if isinstance(label, NDArray) else label)
        if raw.size < 7:
            raise RuntimeError(f"Label shape is invalid: {raw.shape}")
        before, numbers = int(raw[0]), int(raw[1])
        if numbers < 5 or before < 2 or (raw.size - before) % numbers:
            raise RuntimeError(f"Label shape {raw.shape} inconsistent with annotation width {numbers}.")
        boxes = raw[before:].reshape(-1, numbers)
        boxes = boxes[_in_order(boxes)]
        if not len(boxes):
            raise RuntimeError("Encounter sample with no valid label.")
        return boxes

    def _check_valid_label(self, label: np.ndarray) -> None:
        """RuntimeError: no box is left."""
        if label.ndim != 2 or label.shape[1] < 5:
            raise RuntimeError(f"Label with shape (1+, 5+) required, {label} received.")
        if not (_in_order(label) & (label[:, 0] >= 0)).any():
            raise RuntimeError("Invalid label occurs.")

    def _works_on_host(self) -> bool:
        return has_steps_of(type(self), ImageDetIter) and work_on_host_with_boxes(self.auglist)

    def _sample(self, label: Any, data: Any) -> Optional[Tuple[Any, Any]]:
        try:
            self.check_valid_image([data])
            data, boxes = self.augmentation_transform(data, self._parse_label(label))
            self._check_valid_label(boxes)
        except RuntimeError as error:
            if isinstance(error, MXNetError):
                raise
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        return self._fitting(np.transpose(data, (2, 0, 1)) if self._on_host else self.postprocess_data(data)), boxes

    def augmentation_transform(self, data: Any, label: np.ndarray) -> Any:  # type: ignore[override]
        """An image (H, W, C) and its boxes, changed by the augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def _labels(self, labels: List[Any]) -> NDArray:
        batch = np.full((self.batch_size, *self.label_shape), -1, np.float32)
        for row, boxes in zip(batch, labels):
            row[: len(boxes)] = boxes
        return ndarray.array(batch)

    def reshape(self, data_shape: Optional[Tuple[int, int, int]] = None, label_shape: Optional[Tuple[int, int]] = None) -> None:
        """Other shapes of a batch's images, which the augmenters have to make, or labels."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = data_shape
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self.provide_label[0][0], (self.batch_size, *label_shape))]
            self.label_shape = label_shape

    def check_label_shape(self, label_shape: Tuple[int, int]) -> None:
        """ValueError: it has fewer boxes, or another number of a box's numbers."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not " "allowed.")
        if label_shape[1] != self.label_shape[1]:
            raise ValueError(f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}.")

    def sync_label_shape(self, it: "ImageDetIter", verbose: bool = False) -> "ImageDetIter":
        """Gives both iterators the shape of labels of the one with more boxes; returns the other one."""
        if not isinstance(it, ImageDetIter):
            raise WrongValue("Synchronize with invalid iterator.")
        if it.label_shape[1] != self.label_shape[1]:
            raise WrongValue(f"object width mismatch: {self.label_shape[1]} and {it.label_shape[1]}.")
        most = max(self.label_shape[0], it.label_shape[0])
        for iterator in (self, it):
            if iterator.label_shape[0] < most:
                iterator.reshape(None, (most, iterator.label_shape[1]))
                if verbose:
                    logging.info("Resized label_shape to (%d, %d).", *iterator.label_shape)
        return it


def _in_order(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])
