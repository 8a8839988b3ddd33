"""Transforms that turn images."""
from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from . import _images
from ._transform import Transform


class _Rotation(Transform):
    """Images are (C, H, W), or (N, C, H, W), of float32. TypeError: it is another dtype."""

    def __init__(self, zoom_in: bool, zoom_out: bool) -> None:
        super().__init__()
        self._zoom = (zoom_in, zoom_out)

    def _turned(self, x: np.ndarray, degrees: Any) -> np.ndarray:
        if x.dtype != np.float32:
            raise TypeError("This transformation only supports float32. Consider calling it after ToTensor")
        batch = x.reshape((-1,) + x.shape[-3:])
        return _images.rotate(batch, np.broadcast_to(degrees, len(batch)), *self._zoom).reshape(x.shape)


class Rotate(_Rotation):
    """Turned by `rotation_degrees`, and enlarged or made smaller as _images.rotate tells."""

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__(zoom_in, zoom_out)
        self._degrees = rotation_degrees

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        return self._turned(x, self._degrees)


class RandomRotation(_Rotation):
    """Turned, with a probability, by degrees drawn from `angle_limits`, (least, most), for each image of a batch."""

    def __init__(
        self, angle_limits: Tuple[float, float], zoom_in: bool = False, zoom_out: bool = False, rotate_with_proba: float = 1.0
    ) -> None:
        super().__init__(zoom_in, zoom_out)
        if angle_limits[0] >= angle_limits[1]:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._limits = angle_limits
        self._probability = rotate_with_proba

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        if np.random.random() > self._probability:
            return x
        return self._turned(x, np.random.uniform(*self._limits, size=None if x.ndim == 3 else len(x)))
