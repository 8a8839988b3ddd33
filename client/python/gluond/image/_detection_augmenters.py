"""Augmenters of images with boxes: called with an image (H, W, C) and labels (n, 5 or more), they give both.

A label is a number of its kind, the box's left, top, right and bottom as shares of the image, and more that stay.
"""
from __future__ import annotations

import json
import random
import warnings
from math import sqrt
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from ..base import numeric_types
from ._augmenters import Augmenter, mirrored
from ._functions import fixed_crop
from ._geometry import copyMakeBorder

_Both = Tuple[Any, np.ndarray]
_Place = Tuple[int, int, int, int]  # x, y, width, height
_LEFT_RIGHT, _TOP_BOTTOM = (1, 3), (2, 4)


class DetAugmenter:
    """Base class. `kwargs` are the settings that `dumps` writes."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = Augmenter(**kwargs)._kwargs

    def dumps(self) -> Any:
        """The class's name in lower case and the settings, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """An Augmenter that leaves boxes where they are. TypeError: `augmenter` is none."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """The class's name in lower case, and what the Augmenter writes."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several at random, or with probability `skip_prob` none. ValueError: one is no DetAugmenter."""

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        if not all(isinstance(each, DetAugmenter) for each in self.aug_list):
            raise ValueError("Allow DetAugmenter in list only")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """The class's name in lower case, and what the others write."""
        return [type(self).__name__.lower(), [each.dumps() for each in self.aug_list]]

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrored with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        if random.random() < self.p:
            src, label = mirrored(src), label.copy()
            label[:, _LEFT_RIGHT] = 1 - label[:, _LEFT_RIGHT[::-1]]
        return src, label


def _range(numbers: Any) -> Sequence[float]:
    return (numbers, numbers) if isinstance(numbers, numeric_types) else numbers


def _areas(label: np.ndarray) -> np.ndarray:
    """Each box's share of the image; 0 for one whose sides are not in order."""
    return np.maximum(0, label[:, 3] - label[:, 1]) * np.maximum(0, label[:, 4] - label[:, 2])


class _RandomPlace(DetAugmenter):
    """Tries `max_attempts` places whose width to height is in one range, and whose share of the image in another."""

    _above = 0.0  # The least number that the largest area has to be above.

    def __init__(self, **kwargs: Any) -> None:
        ranges = {name: _range(kwargs[name]) for name in ("aspect_ratio_range", "area_range")}
        super().__init__(**{**kwargs, **ranges})
        self.aspect_ratio_range, self.area_range = ranges.values()
        self.max_attempts = kwargs["max_attempts"]
        areas, ratios = self.area_range, self.aspect_ratio_range
        wrong = (
            "area_range"
            if areas[1] <= self._above or areas[0] > areas[1]
            else ("aspect_ratio_range" if ratios[0] <= 0 or ratios[0] > ratios[1] else "")
        )
        self.enabled = not wrong
        if wrong:
            warnings.warn(f"Skip {type(self).__name__} due to invalid {wrong}: {getattr(self, wrong)}", stacklevel=3)

    def _heights(self, height: int, width: int) -> Any:
        """For each attempt (width to height, the least height, the most height), by the areas."""
        least, most = (share * height * width for share in self.area_range)
        for _ in range(self.max_attempts if self.enabled and height > 0 and width > 0 else 0):
            ratio = random.uniform(*self.aspect_ratio_range)
            if ratio > 0:
                yield ratio, int(round(sqrt(least / ratio))), int(round(sqrt(most / ratio)))


class DetRandomCropAug(_RandomPlace):
    """A random part that covers at least `min_object_covered` of each box that it meets.

    The part's width to height is in `aspect_ratio_range`, its share of the image in `area_range`. Boxes of which less
    than `min_eject_coverage` is left are dropped. If `max_attempts` parts do not fit, the image stays as it is.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        height, width = src.shape[:2]
        for ratio, rows, most in self._heights(height, width):
            place = self._place(ratio, rows, most, height, width)
            kept = None if place is None else self._of_cut(label, place, height, width)
            if kept is not None:
                return fixed_crop(src, *place), kept  # type: ignore[misc]
        return src, label

    def _place(self, ratio: float, rows: int, most: int, height: int, width: int) -> Optional[_Place]:
        """A part of about these proportions; None where rounding leaves none."""
        least_area, most_area = (share * height * width for share in self.area_range)
        if round(most * ratio) > width:
            most = int((width + 0.4999999) / ratio)
        most = min(most, height)
        rows = random.randint(rows, most) if rows < most else most
        columns = int(round(rows * ratio))
        if rows * columns < least_area:
            rows += 1
            columns = int(round(rows * ratio))
        if rows * columns > most_area:
            rows -= 1
            columns = int(round(rows * ratio))
        if not (least_area <= rows * columns <= most_area and 0 <= columns <= width and 0 <= rows <= height):
            return None
        y = random.randint(0, height - rows)
        return random.randint(0, width - columns), y, columns, rows

    def _of_cut(self, label: np.ndarray, place: _Place, height: int, width: int) -> Optional[np.ndarray]:
        """The labels of the boxes in a part, as shares of it; None where the part does not fit."""
        x, y, columns, rows = place
        if columns * rows < 2:
            return None
        boxes, areas = label.copy(), _areas(label)
        boxes[:, _LEFT_RIGHT] = (boxes[:, _LEFT_RIGHT] - x / width) / (columns / width)
        boxes[:, _TOP_BOTTOM] = (boxes[:, _TOP_BOTTOM] - y / height) / (rows / height)
        boxes[:, 1:5] = np.clip(boxes[:, 1:5], 0, 1)
        covered = _areas(boxes) * columns * rows / (width * height) / np.where(areas > 0, areas, np.inf)
        met = covered[(covered > 0) & (areas * width * height > 2)]
        if not met.size or met.min() <= self.min_object_covered:
            return None
        kept = boxes[covered > self.min_eject_coverage]
        return kept if len(kept) else None


class DetRandomPadAug(_RandomPlace):
    """The image at a random place of a larger one of the color `pad_val`.

    Its width to height is in `aspect_ratio_range`, its size by that of the image in `area_range`.
    """

    _above = 1.0

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts, pad_val=pad_val)
        self.pad_val = (pad_val,) * 3 if isinstance(pad_val, numeric_types) else pad_val

    def __call__(self, src: Any, label: np.ndarray) -> _Both:
        height, width = src.shape[:2]
        for ratio, rows, most in self._heights(height, width):
            if round(rows * ratio) < width:
                rows = int((width + 0.499999) / ratio)
            rows = min(max(rows, height), most)
            rows = random.randint(rows, most) if rows < most else rows
            columns = int(round(rows * ratio))
            if rows - height < 2 or columns - width < 2:
                continue
            y, x = random.randint(0, rows - height), random.randint(0, columns - width)
            label = label.copy()
            label[:, _LEFT_RIGHT] = (label[:, _LEFT_RIGHT] * width + x) / columns
            label[:, _TOP_BOTTOM] = (label[:, _TOP_BOTTOM] * height + y) / rows
            below, right = rows - y - height, columns - x - width
            return copyMakeBorder(src, y, below, x, right, 16, values=self.pad_val), label
        return src, label
