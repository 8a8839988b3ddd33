"""Lists of augmenters of images with boxes."""
from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from ._augmenter_lists import MEAN, STD, colors, work_on_host
from ._augmenters import CastAug, ForceResizeAug, ResizeAug
from ._detection_augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),  # noqa: N802
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several DetRandomCropAug, at random. An argument is a list with one value for each, or a value for all."""
    lists = [
        each if isinstance(each, list) else [each]
        for each in (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    ]
    count = max(map(len, lists))
    if any(len(each) not in (1, count) for each in lists):
        raise AssertionError(f"CreateMultiRandCropAugmenter: lists have one value, or {count}.")
    aligned = zip(*(each * count if len(each) == 1 else each for each in lists))
    return DetRandomSelectAug([DetRandomCropAug(*values) for values in aligned], skip_prob=skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,  # noqa: N802
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> List[DetAugmenter]:
    """The usual augmenters, in MXNet's order, for images of `data_shape` (channels, height, width).

    `resize`: the shorter edge, first of all. `rand_crop` and `rand_pad` are probabilities. `mean` and `std`: True for
    ImageNet's, or arrays.
    """
    found: List[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        found.append(
            CreateMultiRandCropAugmenter(
                min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts, skip_prob=1 - rand_crop
            )
        )
    if rand_mirror > 0:
        found.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        found.append(DetRandomSelectAug([pad], 1 - rand_pad))
    size = (data_shape[2], data_shape[1])
    mean, std = (np.array(usual) if numbers is True else numbers for numbers, usual in ((mean, MEAN), (std, STD)))
    return found + [
        DetBorrowAug(each)
        for each in [
            ForceResizeAug(size, inter_method),
            CastAug(),
            *colors(mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray),
        ]
    ]


def work_on_host_with_boxes(augmenters: Sequence[Any]) -> bool:
    """As work_on_host, for these."""
    borrowed = []
    for augmenter in augmenters:
        if type(augmenter).__module__ != DetAugmenter.__module__:
            return False
        if isinstance(augmenter, DetRandomSelectAug) and not work_on_host_with_boxes(augmenter.aug_list):
            return False
        if isinstance(augmenter, DetBorrowAug):
            borrowed.append(augmenter.augmenter)
    return work_on_host(borrowed)
