"""Resizing images (H, W, C) as OpenCV does it: each pixel is a weighted sum of pixels in a row, then in a column.

OpenCV sums bytes in fixed point, of 11 bits, which is done here as well, so that the results are its own.
"""
from __future__ import annotations

import math
from typing import List, Tuple

import numpy as np

from ....base import WrongShape

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
_Taps = Tuple[np.ndarray, np.ndarray]  # The old pixels of each new one, (new, taps), and their weights, likewise.

_FIXED = 2048  # A weight of 1.
_CUBIC = -0.75  # OpenCV's constant of the cubic polynomials.


def resize(image: np.ndarray, width: int, height: int, interpolation: int) -> np.ndarray:
    """(H, W, C) -> (height, width, C) of the same dtype, or a batch of them. `interpolation`: one of the five numbers above."""
    if width <= 0 or height <= 0:
        raise WrongShape(f"resize: the new size {width} x {height} is none")
    if image.ndim == 4:
        return np.stack([resize(each, width, height, interpolation) for each in image])
    rows, columns = image.shape[:2]
    smaller = width <= columns and height <= rows
    if interpolation == LINEAR and columns == 2 * width and rows == 2 * height:
        interpolation = AREA
    if interpolation == NEAREST:
        return image[_nearest(rows, height)][:, _nearest(columns, width)]
    if interpolation == AREA and smaller:
        return _mean(image, _area(rows, height), _area(columns, width))
    down, across = (_taps(old, new, interpolation) for old, new in ((rows, height), (columns, width)))
    if image.dtype == np.uint8:
        return _of_bytes(image, down, across, interpolation in (LINEAR, AREA))
    return _sum(_sum(image.astype(np.float32), across, 1), down, 0).astype(image.dtype)


def _nearest(old: int, new: int) -> np.ndarray:
    return np.minimum(np.floor(np.arange(new) * (old / new)).astype(int), old - 1)


def _sum(values: np.ndarray, taps: _Taps, axis: int) -> np.ndarray:
    """The weighted sums along an axis."""
    places, weights = taps
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total = np.take(values, places[:, 0], axis) * weights[:, 0].reshape(shape)
    for i in range(1, places.shape[1]):
        total += np.take(values, places[:, i], axis) * weights[:, i].reshape(shape)
    return total


def _of_bytes(image: np.ndarray, down: _Taps, across: _Taps, linear: bool) -> np.ndarray:
    down, across = ((places, np.rint(weights * _FIXED).astype(np.int32)) for places, weights in (down, across))
    middle = _sum(image.astype(np.int32), across, 1)
    if not linear:
        exact = np.clip((_sum(middle, down, 0) + (1 << 21)) >> 22, 0, 255).astype(np.uint8)
        return exact if down[0].shape[1] != 4 else _with_floats(exact, middle, down)
    middle >>= 4
    total = sum((np.take(middle, down[0][:, i], 0) * down[1][:, i].reshape(-1, 1, 1)) >> 16 for i in range(2))
    return np.clip((total + 2) >> 2, 0, 255).astype(np.uint8)


def _with_floats(exact: np.ndarray, middle: np.ndarray, down: _Taps) -> np.ndarray:
    """Cubic sums as OpenCV has them, which sums columns in groups of eight with floating-point numbers."""
    places, weights = down[0], down[1].astype(np.float32) / np.float32(1 << 22)
    rows = middle.reshape(len(middle), -1).astype(np.float32)
    total = rows[places[:, 0]] * weights[:, :1]
    for i in range(1, 4):
        total += rows[places[:, i]] * weights[:, i : i + 1]
    found = exact.reshape(len(exact), -1).copy()
    grouped = found.shape[1] // 8 * 8
    found[:, :grouped] = np.clip(np.rint(total[:, :grouped]), 0, 255)
    return found.reshape(exact.shape)


def _mean(image: np.ndarray, down: _Taps, across: _Taps) -> np.ndarray:
    if image.dtype != np.uint8:
        return _sum(_sum(image.astype(np.float32), across, 1), down, 0).astype(image.dtype)
    if down[0].shape[1] == across[0].shape[1] == 2 and (down[1] == 0.5).all() and (across[1] == 0.5).all():
        parts = image.astype(np.int32)
        return ((parts[::2, ::2] + parts[1::2, ::2] + parts[::2, 1::2] + parts[1::2, 1::2] + 2) >> 2).astype(np.uint8)
    return np.clip(np.rint(_sum(_sum(image.astype(np.float32), across, 1), down, 0)), 0, 255).astype(np.uint8)


def _area(old: int, new: int) -> _Taps:
    """The share that each old pixel has in the area of a new one, which is not smaller."""
    begin = np.arange(new) * (old / new)
    end = np.minimum(begin + old / new, old)
    first = np.floor(begin + 1e-9).astype(int)
    places = first[:, None] + np.arange(math.ceil(old / new - 1e-9) + 1)
    shares = np.clip(np.minimum(places + 1, end[:, None]) - np.maximum(places, begin[:, None]), 0, None)
    shares[shares < 1e-6] = 0
    used = shares.any(0)
    places, shares = np.minimum(places, old - 1)[:, used], shares[:, used]
    return places, (shares / shares.sum(1, keepdims=True)).astype(np.float32)


def _taps(old: int, new: int, interpolation: int) -> _Taps:
    scale = old / new
    if interpolation == AREA:  # The image becomes larger: a pixel is a mixture only where two old ones meet in it.
        first = np.floor(np.arange(new) * scale).astype(int)
        part = (np.arange(new) + 1) - (first + 1) / scale
        part = np.where(part <= 0, 0, part - np.floor(part)).astype(np.float32)
    else:
        at = ((np.arange(new) + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(at).astype(int)
        part = at - first
    if interpolation in (LINEAR, AREA):
        before, weights = 0, [1 - part, part]
    elif interpolation == CUBIC:
        before, weights = 1, _cubic(part)
    else:
        before, weights = 3, _lanczos(part)
    places = np.clip(first[:, None] - before + np.arange(len(weights)), 0, old - 1)
    return places, np.stack(weights, 1).astype(np.float32)


def _cubic(x: np.ndarray) -> List[np.ndarray]:
    def near(y: np.ndarray) -> np.ndarray:
        return ((_CUBIC + 2) * y - (_CUBIC + 3)) * y * y + 1

    first = ((_CUBIC * (x + 1) - 5 * _CUBIC) * (x + 1) + 8 * _CUBIC) * (x + 1) - 4 * _CUBIC
    return [first, near(x), near(1 - x), 1 - first - near(x) - near(1 - x)]


def _lanczos(x: np.ndarray) -> List[np.ndarray]:
    """sinc(t) sinc(t / 4) of the distances to eight pixels, scaled to a sum of 1."""
    weights = [np.sinc(x + 3 - i) * np.sinc((x + 3 - i) / 4) for i in range(8)]
    total = np.sum(weights, axis=0)
    return [weight / total for weight in weights]
