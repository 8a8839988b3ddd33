"""The changes that ImageRecordIter makes to each image, by the names that MXNet gives them."""
from __future__ import annotations

import ast
import dataclasses
import math
from typing import Any, Dict, Optional, Tuple

import numpy as np

from ..base import MXNetError
from ..gluon.data.vision import _colors, _resizing
from ..gluon.data.vision._warping import warp


@dataclasses.dataclass
class Changes:
    """Settings, in the order in which they work: of an image's size and place, and its colors.

    To turn, shear and scale, any inter_method is bilinear.

        Changes(resize=256, rand_crop=True)(pixels, (224, 224), np.random.RandomState(0))

    MXNetError: two settings do not go together, or the image is too small for one.
    """

    resize: int = -1  # The shorter edge.
    max_rotate_angle: int = 0
    rotate: int = -1  # Degrees, in place of random ones.
    max_shear_ratio: float = 0.0
    max_random_scale: float = 1.0
    min_random_scale: float = 1.0
    max_aspect_ratio: float = 0.0  # Alone, the most by which width to height leaves 1.
    min_aspect_ratio: Optional[float] = None
    max_img_size: float = 1e10
    min_img_size: float = 0.0
    fill_value: int = 255
    pad: int = 0
    random_resized_crop: bool = False
    max_random_area: float = 1.0
    min_random_area: float = 1.0
    max_crop_size: int = -1
    min_crop_size: int = -1
    rand_crop: bool = False
    inter_method: int = 1
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0
    pca_noise: float = 0.0

    def __post_init__(self) -> None:
        if self.inter_method not in (0, 1, 2, 3, 4, 9, 10):
            raise MXNetError(f"ImageRecordIter: invalid inter_method {self.inter_method}; there are 0 to 4, 9 and 10.")
        if self.random_resized_crop and (
            self.rand_crop
            or (self.max_random_scale, self.min_random_scale) != (1, 1)
            or (self.max_crop_size, self.min_crop_size) != (-1, -1)
        ):
            raise MXNetError(
                "ImageRecordIter: random_resized_crop conflicts with rand_crop, min_random_scale, "
                "max_random_scale, min_crop_size and max_crop_size."
            )
        if self.inter_method == 0 and self._is_warped:
            raise MXNetError("ImageRecordIter: inter_method 0 cannot turn, shear or scale an image; 1 can.")
        if self.min_aspect_ratio is not None and not 0 < self.min_aspect_ratio <= self.max_aspect_ratio:
            raise MXNetError(
                f"ImageRecordIter: min_aspect_ratio {self.min_aspect_ratio} has to be above 0, and "
                f"max_aspect_ratio {self.max_aspect_ratio} not below it."
            )

    def __call__(self, image: np.ndarray, size: Tuple[int, int], random: np.random.RandomState) -> np.ndarray:
        """(H, W, C) bytes -> (height, width, C) bytes of `size` (height, width)."""
        rows, columns = image.shape[:2]
        if self.resize != -1:
            height, width = (
                (self.resize * rows // columns, self.resize) if rows > columns else (self.resize, self.resize * columns // rows)
            )
            image = self._resized(image, height, width, random)
        if self._is_warped:
            image = self._warped(image, random)
        if self.pad > 0:
            image = np.pad(image, ((self.pad,) * 2, (self.pad,) * 2, (0, 0)), constant_values=self.fill_value)
        part = self._part(image, random)
        image = self._cropped(image, size, random) if part is None else self._resized(part, *size, random)
        if image.shape[2] == 3:
            image = self._colored(image, random)
        return image

    def _resized(self, image: np.ndarray, rows: int, columns: int, random: np.random.RandomState) -> np.ndarray:
        method = self.inter_method
        if method == 9:
            old_rows, old_columns = image.shape[:2]
            is_larger, is_smaller = rows > old_rows and columns > old_columns, rows < old_rows and columns < old_columns
            method = 2 if is_larger else 3 if is_smaller else 1
        elif method == 10:
            method = random.randint(5)
        return _resizing.resize(image, columns, rows, method)

    @property
    def _ratios(self) -> Tuple[float, float]:
        """The least and the most of width to height."""
        if self.max_aspect_ratio <= 0:
            return 1, 1
        if self.min_aspect_ratio is None:
            return 1 - self.max_aspect_ratio, 1 + self.max_aspect_ratio
        return self.min_aspect_ratio, self.max_aspect_ratio

    @property
    def _is_warped(self) -> bool:
        return (
            self.max_rotate_angle > 0
            or self.max_shear_ratio > 0
            or self.rotate > 0
            or (self.max_random_scale, self.min_random_scale) != (1, 1)
            or not self.random_resized_crop
            and self._ratios != (1, 1)
            or (self.max_img_size, self.min_img_size) != (1e10, 0)
        )

    def _warped(self, image: np.ndarray, random: np.random.RandomState) -> np.ndarray:
        rows, columns = image.shape[:2]
        shear = random.uniform(-1, 1) * self.max_shear_ratio
        angle = math.radians(self.rotate if self.rotate > 0 else random.randint(-self.max_rotate_angle, self.max_rotate_angle + 1))
        scale = random.uniform(self.min_random_scale, self.max_random_scale)
        ratio = random.uniform(*self._ratios)
        high = 2 * scale / (1 + ratio)
        wide = ratio * high
        width, height = (max(self.min_img_size, min(self.max_img_size, scale * old)) for old in (columns, rows))
        cos, sin = math.cos(angle), math.sin(angle)
        matrix = np.array(
            [[high * cos - shear * sin * wide, high * sin + shear * cos * wide, 0], [-sin * wide, cos * wide, 0]], np.float32
        )
        matrix[:, 2] = (np.array([width, height]) - matrix[:, :2] @ [columns, rows]) / 2
        return warp(image, matrix, int(width), int(height), self.fill_value)

    def _part(self, image: np.ndarray, random: np.random.RandomState) -> Optional[np.ndarray]:
        """A part of random size; None unless it is asked for, or where ten of them leave the image."""
        rows, columns = image.shape[:2]
        if self.random_resized_crop:
            if self._ratios == (1, 1) and (self.max_random_area, self.min_random_area) == (1, 1):
                return None
            for _ in range(10):
                area = int(random.uniform(self.min_random_area, self.max_random_area) * rows * columns)
                ratio = random.uniform(*self._ratios)
                height, width = int(math.sqrt(area / ratio)), int(math.sqrt(area * ratio))
                if random.uniform() > 0.5:
                    height, width = width, height
                if 0 < height <= rows and 0 < width <= columns:
                    return self._placed(image, height, width, random, True)
            side = min(rows, columns)
            return self._placed(image, side, side, random, False)
        if (self.max_crop_size, self.min_crop_size) == (-1, -1):
            return None
        if not self.min_crop_size <= self.max_crop_size <= min(rows, columns):
            raise MXNetError(
                f"ImageRecordIter: an image of {rows} by {columns} is smaller than max_crop_size "
                f"{self.max_crop_size}, or that is below min_crop_size {self.min_crop_size}."
            )
        side = random.randint(self.min_crop_size, self.max_crop_size + 1)
        return self._placed(image, side, side, random, self.rand_crop)

    def _cropped(self, image: np.ndarray, size: Tuple[int, int], random: np.random.RandomState) -> np.ndarray:
        """A part of `size`, of an image that is enlarged to it where it is smaller."""
        one = np.float32(1)
        if len(image) < size[0]:
            image = self._resized(image, size[0], int(size[0] * one / len(image) * image.shape[1]), random)
        if image.shape[1] < size[1]:
            image = self._resized(image, int(size[1] * one / image.shape[1] * len(image)), size[1], random)
        return self._placed(image, *size, random, self.rand_crop)

    @staticmethod
    def _placed(image: np.ndarray, height: int, width: int, random: np.random.RandomState, anywhere: bool) -> np.ndarray:
        y, x = len(image) - height, image.shape[1] - width
        y, x = (random.randint(y + 1), random.randint(x + 1)) if anywhere else (y // 2, x // 2)
        return image[y : y + height, x : x + width]

    def _colored(self, image: np.ndarray, random: np.random.RandomState) -> np.ndarray:
        strengths = (self.brightness, self.contrast, self.saturation)
        if max(strengths) > 0:
            image = image[..., ::-1]  # MXNet takes blue for red here, so that its gray is another one.
            for i in random.permutation(3):
                blend = (_colors.brighter, _colors.contrasted, _colors.saturated)[i]
                image = _colors.like(blend(image.astype(np.float32), 1 + random.uniform(-1, 1) * strengths[i]), image)
            image = image[..., ::-1]
        most = np.array([self.random_h, self.random_l, self.random_s])
        if most.any():
            image = _colors.moved_in_hls(image, np.trunc(random.uniform(-1, 1, 3) * most))
        if self.pca_noise > 0:
            image = _colors.like(image + _colors.lighting(random.normal(0, self.pca_noise, 3)), image)
        return image


@dataclasses.dataclass
class Numbers:
    """Settings of the numbers that pixels become: ((pixel - mean) * contrast + illumination) * scale / std.

    `mean_img` is a file of an array (C, H, W), which is subtracted in place of the means.
    """

    mirror: bool = False
    rand_mirror: bool = False
    mean_img: str = ""
    mean_r: float = 0.0
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 1.0
    std_g: float = 1.0
    std_b: float = 1.0
    std_a: float = 1.0
    scale: float = 1.0
    max_random_contrast: float = 0.0
    max_random_illumination: float = 0.0

    def __call__(self, image: np.ndarray, mean: Optional[np.ndarray], random: np.random.RandomState) -> np.ndarray:
        """(H, W, C) bytes -> (C, H, W) float32."""
        flipped = self.mirror or self.rand_mirror and random.uniform() < 0.5
        numbers = (image[:, ::-1] if flipped else image).transpose(2, 0, 1).astype(np.float32)
        if mean is None:
            mean = _for_channels(numbers, self.mean_r, self.mean_g, self.mean_b, self.mean_a)
        elif flipped:
            mean = mean[..., ::-1]
        contrast = 1 + random.uniform(-1, 1) * self.max_random_contrast
        illumination = random.uniform(-1, 1) * self.max_random_illumination
        std = _for_channels(numbers, self.std_r, self.std_g, self.std_b, self.std_a)
        return ((numbers - mean) * np.float32(contrast) + np.float32(illumination)) * np.float32(self.scale) / std


def _for_channels(image: np.ndarray, *numbers: float) -> np.ndarray:
    """(C, 1, 1), for an image (C, H, W)."""
    return np.array(numbers[: len(image)], np.float32).reshape(-1, 1, 1)


def taken(settings: Any, keywords: Dict[str, Any]) -> Any:
    """One of the classes above with its settings, which are taken out of `keywords`. MXNetError: a wrong value."""
    fields = {field.name: field.default for field in dataclasses.fields(settings)}
    return settings(**{name: as_number(name, keywords.pop(name), default) for name, default in fields.items() if name in keywords})


def as_number(name: str, value: Any, default: Any) -> Any:
    """A value of the type of `default`, from what MXNet takes for it: a text, or another number."""
    if isinstance(default, str) or value is None:
        return value
    try:
        value = ast.literal_eval(value.strip().capitalize()) if isinstance(value, str) else value
        kind: Any = float if default is None else type(default)
        if kind is tuple:
            return tuple(int(size) for size in value)
        if kind is float or kind(value) == value:
            return kind(value)
    except (ValueError, TypeError, SyntaxError):
        pass
    raise MXNetError(f"Invalid Parameter format for {name} expect {type(default).__name__} but value={value!r}")
