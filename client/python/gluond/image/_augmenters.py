"""Augmenters: changes of images, most of them random.

An Augmenter is called with an image (H, W, C), an NDArray, or a numpy array; the result is of the same kind.
"""
from __future__ import annotations

import json
import random
from typing import Any, Sequence, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ._functions import Size, center_crop, color_normalize, imresize, interpolation, random_crop, random_size_crop, resize_short


class Augmenter:
    """Base class. `kwargs` are the settings that `dumps` writes; arrays become lists."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {
            name: value.asnumpy().tolist()
            if isinstance(value, NDArray)
            else value.tolist()
            if isinstance(value, np.ndarray)
            else value
            for name, value in kwargs.items()
        }

    def dumps(self) -> Any:
        """The class's name in lower case and the settings, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, *label: Any) -> Any:
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Augmenters one after the other."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> Any:
        """The class's name in lower case, and what the Augmenters inside write."""
        return [type(self).__name__.lower(), [each.dumps() for each in self.ts]]

    def __call__(self, src: Any) -> Any:
        for augmenter in self.ts:
            src = augmenter(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters in a random order, which they then keep in the list."""

    def __call__(self, src: Any) -> Any:
        random.shuffle(self.ts)  # type: ignore[arg-type]
        return super().__call__(src)


class _SizeAug(Augmenter):
    """Has a size and an interpolation."""

    def __init__(self, size: Any, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp


class ResizeAug(_SizeAug):
    """The shorter edge becomes `size`."""

    def __call__(self, src: Any) -> Any:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(_SizeAug):
    """To `size` (width, height), whatever the proportions are."""

    def __call__(self, src: Any) -> Any:
        width, height = self.size
        return imresize(src, width, height, interpolation(self.interp, (src.shape[0], src.shape[1], height, width)))


class RandomCropAug(_SizeAug):
    """A random part of `size` (width, height)."""

    def __call__(self, src: Any) -> Any:
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(_SizeAug):
    """The middle of `size` (width, height)."""

    def __call__(self, src: Any) -> Any:
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A random part of random size and proportions, resized to `size`; see random_size_crop."""

    def __init__(self, size: Size, area: Any, ratio: Tuple[float, float], interp: int = 2) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size = size
        self.area = area
        self.ratio = ratio
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


def _beside(src: Any, values: Any) -> Any:
    """`values` as an array of the kind of `src`."""
    if isinstance(src, NDArray):
        return values if isinstance(values, NDArray) else ndarray.array(values, ctx=src.context)
    return values.asnumpy() if isinstance(values, NDArray) else np.asarray(values, np.float32)


def mirrored(src: Any) -> Any:
    """The columns in the opposite order."""
    return ndarray.flip(src, axis=1) if isinstance(src, NDArray) else src[:, ::-1]


def _mixed(src: Any, matrix: Any) -> Any:
    """Each pixel's channels times (C, C)."""
    beside = _beside(src, matrix)
    return ndarray.dot(src, beside) if isinstance(src, NDArray) else np.dot(src, beside)


def _gray(src: Any) -> Any:
    """Each channel's part in a pixel's brightness."""
    return src * _beside(src, [[[0.299, 0.587, 0.114]]])


class BrightnessJitterAug(Augmenter):
    """Brighter or darker by a share of up to `brightness`, in place."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: Any) -> Any:
        src *= 1.0 + random.uniform(-self.brightness, self.brightness)
        return src


class ContrastJitterAug(Augmenter):
    """Nearer to, or farther from, the image's mean gray by a share of up to `contrast`, in place."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        gray = _gray(src)
        mean = gray.sum() * (3.0 * (1.0 - alpha) / gray.size)
        src *= alpha
        src += mean
        return src


class SaturationJitterAug(Augmenter):
    """Nearer to, or farther from, each pixel's gray by a share of up to `saturation`, in place."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        gray = _gray(src).sum(axis=2, keepdims=True) * (1.0 - alpha)
        src *= alpha
        src += gray
        return src


class HueJitterAug(Augmenter):
    """Colors turned by up to `hue` half circles either way."""

    _TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    _FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: Any) -> Any:
        turn = random.uniform(-self.hue, self.hue) * np.pi
        cos, sin = np.cos(turn), np.sin(turn)
        turned = self._FROM_YIQ @ np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]) @ self._TO_YIQ
        return _mixed(src, turned.T)


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation, those above 0, in a random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation))
        super().__init__([kind(strength) for kind, strength in kinds if strength > 0])


class LightingAug(Augmenter):
    """AlexNet's noise, of standard deviation `alphastd`, along the main components of the colors, in place."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval = eigval
        self.eigvec = eigvec

    def __call__(self, src: Any) -> Any:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        src += _beside(src, np.dot(self.eigvec * alpha, self.eigval))
        return src


class ColorNormalizeAug(Augmenter):
    """(image - mean) / std, in place; either may be None."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (each if each is None or isinstance(each, NDArray) else ndarray.array(each) for each in (mean, std))

    def __call__(self, src: Any) -> Any:
        return color_normalize(src, *(None if each is None else _beside(src, each) for each in (self.mean, self.std)))


class RandomGrayAug(Augmenter):
    """Gray, in all three channels, with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        if random.random() < self.p:
            src = _mixed(src, [[0.21] * 3, [0.72] * 3, [0.07] * 3])
        return src


class HorizontalFlipAug(Augmenter):
    """Mirrored with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        return mirrored(src) if random.random() < self.p else src


class CastAug(Augmenter):
    """To another dtype."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Any) -> Any:
        return src.astype(self.typ)
