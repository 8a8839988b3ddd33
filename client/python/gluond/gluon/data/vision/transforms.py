"""Transforms of images, for `dataset.transform_first`. They take NDArrays and numpy arrays, and give the same kind.

    transformer = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
    DataLoader(dataset.transform_first(transformer), batch_size=64, num_workers=4)
"""
from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence, Tuple, Union

import numpy as np

from ....base import WrongShape
from ..._block import Block
from ...nn.containers import Sequential
from .. import _host
from . import _colors, _images, _resizing
from ._rotations import RandomRotation, Rotate
from ._transform import Transform

__all__ = [
    "Compose",
    "Cast",
    "ToTensor",
    "Normalize",
    "Resize",
    "CenterCrop",
    "CropResize",
    "RandomResizedCrop",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomHue",
    "RandomColorJitter",
    "RandomLighting",
    "RandomGray",
    "RandomApply",
    "HybridCompose",
    "HybridRandomApply",
    "Rotate",
    "RandomRotation",
]


class Compose(Sequential):
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        self._steps = list(transforms)
        for step in self._steps:
            if isinstance(step, Block):
                self.add(step)
        self.host_ready = all(_host.is_ready(step) for step in self._steps)

    def forward(self, x: Any, *args: Any) -> Any:
        """The transform of one image."""
        for step in self._steps:
            x = step(x)
        return (x,) + args if args else x


class Cast(Transform):
    """To another dtype."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        return x.astype(self._dtype)


class ToTensor(Transform):
    """(H, W, C) of 0..255 to (C, H, W) float32 of 0..1; batches (N, H, W, C) as well."""

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        if x.ndim not in (3, 4):
            raise WrongShape(f"ToTensor wants an image (H, W, C), or a batch of them; got shape {x.shape}")
        return np.ascontiguousarray(np.moveaxis(x, -1, -3)).astype(np.float32) / np.float32(255)


class Normalize(Transform):
    """(x - mean) / std of (C, H, W), with a number for each channel, or one for all."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = np.asarray(mean, np.float32).reshape(-1, 1, 1)
        self._std = np.asarray(std, np.float32).reshape(-1, 1, 1)

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        if x.ndim not in (3, 4) or x.shape[-3] not in (1, 3):
            raise WrongShape(f"Normalize wants an image (C, H, W) of 1 or 3 channels, or a batch of them; got shape {x.shape}")
        return (x - self._mean) / self._std


class Resize(Transform):
    """To `size`, a number or (width, height); with `keep_ratio`, a number is that of the shorter edge.

    `interpolation`: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos.
    """

    def __init__(self, size: Union[int, Tuple[int, int]], keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size
        self._keep = keep_ratio
        self._interpolation = interpolation

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        width, height = _images.pair(self._size)
        if self._keep and isinstance(self._size, int):
            rows, columns = x.shape[-3:-1]
            if columns > rows:
                width = self._size * columns // rows
            else:
                height = self._size * rows // columns
        return _resizing.resize(x, width, height, self._interpolation)


class CenterCrop(Transform):
    """The middle of `size` (width, height); a smaller image is enlarged."""

    def __init__(self, size: Union[int, Tuple[int, int]], interpolation: int = 1) -> None:
        super().__init__()
        self._size = _images.pair(size)
        self._interpolation = interpolation

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        rows, columns = x.shape[-3:-1]
        width, height = min(self._size[0], columns), min(self._size[1], rows)
        part = _images.crop(x, (columns - width) // 2, (rows - height) // 2, width, height)
        return _resizing.resize(part, *self._size, self._interpolation) if (width, height) != self._size else part


class CropResize(Transform):
    """The part at (x, y) of `width` and `height`, then resized to `size` if there is one."""

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: Union[int, Tuple[int, int], None] = None,
        interpolation: Optional[int] = None,
    ) -> None:
        super().__init__()
        self._part = (x, y, width, height)
        self._size = None if size is None else _images.pair(size)
        self._interpolation = 1 if interpolation is None else interpolation

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        part = _images.crop(x, *self._part)
        return part if self._size is None else _resizing.resize(part, *self._size, self._interpolation)


class RandomCrop(Transform):
    """A random part of `size` (width, height), after `pad` zeros on each side."""

    def __init__(self, size: Union[int, Tuple[int, int]], pad: int = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._size = _images.pair(size)
        self._pad = pad
        self._interpolation = interpolation

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        if self._pad:
            x = np.pad(x, ((self._pad, self._pad), (self._pad, self._pad), (0, 0)))
        width, height = self._size
        if width > x.shape[1] or height > x.shape[0]:
            x = _resizing.resize(x, max(width, x.shape[1]), max(height, x.shape[0]), self._interpolation)
        left = np.random.randint(x.shape[1] - width + 1)
        top = np.random.randint(x.shape[0] - height + 1)
        return _images.crop(x, left, top, width, height)


class RandomResizedCrop(Transform):
    """A random part of a share `scale` of the area and a ratio `ratio` of width to height, resized to `size`."""

    def __init__(
        self,
        size: Union[int, Tuple[int, int]],
        scale: Tuple[float, float] = (0.08, 1.0),
        ratio: Tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._size = _images.pair(size)
        self._scale = (scale, 1.0) if isinstance(scale, float) else scale
        self._ratio = ratio
        self._interpolation = interpolation

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        rows, columns = x.shape[:2]
        for _ in range(10):
            area = np.random.uniform(*self._scale) * rows * columns
            ratio = math.exp(np.random.uniform(math.log(self._ratio[0]), math.log(self._ratio[1])))
            width, height = int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))
            if 0 < width <= columns and 0 < height <= rows:
                left, top = np.random.randint(columns - width + 1), np.random.randint(rows - height + 1)
                return _resizing.resize(_images.crop(x, left, top, width, height), *self._size, self._interpolation)
        side = min(rows, columns)
        middle = _images.crop(x, (columns - side) // 2, (rows - side) // 2, side, side)
        return _resizing.resize(middle, *self._size, self._interpolation)


class _RandomFlip(Transform):
    _axis = 0

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        return np.flip(x, self._axis) if np.random.uniform() < self.p else x


class RandomFlipLeftRight(_RandomFlip):
    """Mirrors an image with probability `p`."""

    _axis = 1


class RandomFlipTopBottom(_RandomFlip):
    """Turns an image upside down with probability `p`."""


class _RandomStrength(Transform):
    """A change by a factor drawn from [max(0, 1 - strength), 1 + strength]."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self._strength = strength

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        factor = np.random.uniform(max(0.0, 1 - self._strength), 1 + self._strength)
        return _colors.like(self._blend(x.astype(np.float32), factor), x)

    @staticmethod
    def _blend(image: np.ndarray, factor: float) -> np.ndarray:
        raise NotImplementedError


class RandomBrightness(_RandomStrength):
    """Brighter or darker."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)

    _blend = staticmethod(_colors.brighter)


class RandomContrast(_RandomStrength):
    """Nearer to, or farther from, the image's mean gray."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)

    _blend = staticmethod(_colors.contrasted)


class RandomSaturation(_RandomStrength):
    """Nearer to, or farther from, each pixel's gray."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)

    _blend = staticmethod(_colors.saturated)


class RandomHue(Transform):
    """Colors turned by up to `hue` half circles either way."""

    def __init__(self, hue: float) -> None:
        super().__init__()
        self._hue = hue

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        return _colors.hue(x, np.random.uniform(-self._hue, self._hue)) if x.shape[-1] == 3 else x


class RandomColorJitter(Transform):
    """Brightness, contrast, saturation and hue, in a random order."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        kinds = ((RandomBrightness, brightness), (RandomContrast, contrast), (RandomSaturation, saturation), (RandomHue, hue))
        self._steps = [kind(strength) for kind, strength in kinds if strength > 0]

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        for i in np.random.permutation(len(self._steps)):
            x = self._steps[i].apply_to(x)
        return x


class RandomLighting(Transform):
    """AlexNet's noise along the main components of ImageNet's colors, of standard deviation `alpha`."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        return _colors.like(x + _colors.lighting(np.random.normal(0, self._alpha, 3)), x)


class RandomGray(Transform):
    """Gray with probability `p`, with as many channels."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        if np.random.uniform() >= self.p or x.shape[-1] != 3:
            return x
        gray = (x.astype(np.float32) @ _colors.GRAY)[..., np.newaxis]
        return _colors.like(np.repeat(gray, 3, -1), x)


class RandomApply(Sequential):
    """Applies transforms with probability `p`."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p
        self.host_ready = _host.is_ready(transforms)

    def forward(self, x: Any, *args: Any) -> Any:
        """The transform of one image."""
        return self.transforms(x) if np.random.uniform() < self.p else x


class HybridCompose(Compose):
    """Compose: transforms run in the client, and there is no graph of them."""


class HybridRandomApply(RandomApply):
    """RandomApply: transforms run in the client, and there is no graph of them."""
