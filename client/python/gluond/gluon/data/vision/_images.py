"""Images (H, W, C) as numpy arrays: parts, and turns."""
from __future__ import annotations

from typing import Tuple, Union

import numpy as np

from ....base import WrongShape


def pair(size: Union[int, Tuple[int, int]]) -> Tuple[int, int]:
    """(width, height)."""
    if not isinstance(size, int) and len(size) != 2:
        raise WrongShape(f"a size is a number, or (width, height); got {size}")
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def crop(image: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    """A part of the image, or of a batch of images, which it must contain."""
    if min(x, y) < 0 or min(width, height) <= 0 or y + height > image.shape[-3] or x + width > image.shape[-2]:
        raise WrongShape(f"crop: x={x}, y={y}, width={width}, height={height} leaves the image of shape {image.shape}")
    return image[..., y : y + height, x : x + width, :]


def rotate(images: np.ndarray, degrees: np.ndarray, zoom_in: bool = False, zoom_out: bool = False) -> np.ndarray:
    """(N, C, H, W) float32, each turned about its middle by its own `degrees`; zero stands where the image has ended.

    With `zoom_in` nothing of that is seen, with `zoom_out` the whole image is.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    return np.stack([_rotate_one(image, angle, zoom_in, zoom_out) for image, angle in zip(images, degrees)])


def _rotate_one(image: np.ndarray, degrees: float, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    rows, columns = image.shape[1:]
    angle = np.float32(np.pi * degrees / 180)
    cos, sin = np.cos(angle), np.sin(angle)
    # Width and height of the image after the turn, by those before it.
    wide = (abs(columns * cos) + abs(rows * sin)) / columns
    high = (abs(rows * cos) + abs(columns * sin)) / rows
    scale = np.float32(max(wide, high) if zoom_out else min(1 / wide, 1 / high) if zoom_in else 1)
    y, x = np.arange(rows, dtype=np.float32) - (rows - 1) / 2, np.arange(columns, dtype=np.float32) - (columns - 1) / 2
    across = (x * cos - y[:, None] * sin) * scale + (columns - 1) / 2
    down = (x * sin + y[:, None] * cos) * scale + (rows - 1) / 2
    left, top = np.floor(across).astype(int), np.floor(down).astype(int)
    turned = np.zeros_like(image)
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        weight = (1 - abs(down - row)) * (1 - abs(across - column))
        weight[(row < 0) | (row >= rows) | (column < 0) | (column >= columns)] = 0
        turned += image[:, np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1)] * weight.astype(np.float32)
    return turned
