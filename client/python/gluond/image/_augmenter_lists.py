"""Lists of Augmenters: the usual ones, and whether a list works on numpy arrays."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .. import ndarray
from ._augmenters import (
    Augmenter,
    BrightnessJitterAug,
    CastAug,
    CenterCropAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ContrastJitterAug,
    HorizontalFlipAug,
    HueJitterAug,
    LightingAug,
    RandomCropAug,
    RandomGrayAug,
    RandomSizedCropAug,
    ResizeAug,
    SaturationJitterAug,
)
from ._functions import check_channels

MEAN, STD = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)  # ImageNet's colors.


def CreateAugmenter(
    data_shape: Tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,  # noqa: N802
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> List[Augmenter]:
    """The usual Augmenters, in MXNet's order, for images of `data_shape` (channels, height, width).

    `resize`: the shorter edge, before the crop, which is in the middle unless `rand_crop`, of random size if
    `rand_resize` as well. `mean` and `std`: True for ImageNet's, or arrays.
    AssertionError: `rand_resize` without `rand_crop`.
    """
    size = (data_shape[2], data_shape[1])
    found: List[Optional[Augmenter]] = [ResizeAug(resize, inter_method) if resize > 0 else None]
    if rand_resize:
        if not rand_crop:
            raise AssertionError("CreateAugmenter: rand_resize wants rand_crop as well.")
        found.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        found.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    found += [HorizontalFlipAug(0.5) if rand_mirror else None, CastAug()]
    mean, std = (ndarray.array(usual) if numbers is True else numbers for numbers, usual in ((mean, MEAN), (std, STD)))
    return [each for each in found if each is not None] + colors(
        mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray
    )


def colors(
    mean: Any, std: Any, brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float, rand_gray: float
) -> List[Augmenter]:
    """The Augmenters of colors, in MXNet's order; see CreateAugmenter."""
    found: List[Augmenter] = []
    if brightness or contrast or saturation:
        found.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        found.append(HueJitterAug(hue))
    if pca_noise > 0:
        values = np.array([55.46, 4.794, 1.148])
        vectors = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
        found.append(LightingAug(pca_noise, values, vectors))
    if rand_gray > 0:
        found.append(RandomGrayAug(rand_gray))
    for numbers, name in ((mean, "mean"), (std, "std")):
        if numbers is not None:
            check_channels(numbers, name)
    if mean is not None or std is not None:
        found.append(ColorNormalizeAug(mean, std))
    return found


_IN_PLACE = (BrightnessJitterAug, ContrastJitterAug, SaturationJitterAug, LightingAug, ColorNormalizeAug)


def work_on_host(augmenters: Sequence[Any]) -> bool:
    """Whether these, one after the other, do the same to a numpy array of bytes as to an NDArray.

    A program's own Augmenter may want an NDArray. Those that change an image in place want floating-point numbers.
    """
    is_float = False
    for augmenter in augmenters:
        if type(augmenter).__module__ != Augmenter.__module__:
            return False
        if hasattr(augmenter, "ts") and not work_on_host([CastAug()] * is_float + list(augmenter.ts)):
            return False
        is_float = is_float or isinstance(augmenter, CastAug) and np.dtype(augmenter.typ).kind == "f"
        if isinstance(augmenter, _IN_PLACE) and not is_float:
            return False
    return True
