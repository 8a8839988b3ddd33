"""Images (H, W, C) as numpy arrays: resizing and colors."""
from __future__ import annotations

from typing import Tuple, Union

import numpy as np

GRAY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]], np.float32)
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]], np.float32)


def pair(size: Union[int, Tuple[int, int]]) -> Tuple[int, int]:
    """(width, height)."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def like(values: np.ndarray, original: np.ndarray) -> np.ndarray:
    """`values` in the dtype of `original`; bytes are rounded, and limited to 0..255."""
    if original.dtype == np.uint8:
        values = np.clip(np.rint(values), 0, 255)
    return values.astype(original.dtype)


def resize(image: np.ndarray, width: int, height: int, nearest: bool = False) -> np.ndarray:
    """Bilinear, with pixels' centers in their middle; or the nearest pixel."""
    rows = (np.arange(height) + 0.5) * image.shape[0] / height - 0.5
    columns = (np.arange(width) + 0.5) * image.shape[1] / width - 0.5
    if nearest:
        return image[np.clip(np.rint(rows), 0, image.shape[0] - 1).astype(int)][
            :, np.clip(np.rint(columns), 0, image.shape[1] - 1).astype(int)]
    r0, r1, r = _between(rows, image.shape[0])
    c0, c1, c = _between(columns, image.shape[1])
    r, c = r[:, None, None], c[None, :, None]
    top = image[r0][:, c0] * (1 - c) + image[r0][:, c1] * c
    bottom = image[r1][:, c0] * (1 - c) + image[r1][:, c1] * c
    return like(top * (1 - r) + bottom * r, image)


def _between(at: np.ndarray, size: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pixels before and after each place, and how far it is from the first."""
    at = np.clip(at, 0, size - 1)
    before = np.floor(at).astype(int)
    return before, np.minimum(before + 1, size - 1), at - before


def crop(image: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    """A part of the image, which it must contain."""
    if x < 0 or y < 0 or y + height > image.shape[0] or x + width > image.shape[1]:
        raise ValueError(f"crop: x={x}, y={y}, width={width}, height={height} leaves the image of shape {image.shape}")
    return image[y:y + height, x:x + width]


def hue(image: np.ndarray, turn: float) -> np.ndarray:
    """Colors turned by `turn` half circles."""
    u, w = np.cos(turn * np.pi), np.sin(turn * np.pi)
    rotation = np.array([[1, 0, 0], [0, u, -w], [0, w, u]], np.float32)
    return like(image @ (_FROM_YIQ @ rotation @ _TO_YIQ).T, image)
