"""Operators on images: `nd.image.to_tensor(x)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array import calls as _calls
from .._array.array import NDArray
from .._array.create import array
from .._array.functions_of_operators import make_function
from .._documentation import fill_module
from .._operators import find as _find
from ..base import WrongShape


def to_tensor(data: NDArray) -> NDArray:
    """(H, W, C) or (N, H, W, C), 0 to 255 -> (C, H, W) or (N, C, H, W), float32, 0 to 1."""
    axes = (2, 0, 1) if data.ndim == 3 else (0, 3, 1, 2)
    return data.astype("float32").transpose(axes) / 255


def normalize(data: NDArray, mean: Any = 0.0, std: Any = 1.0) -> NDArray:
    """(data - mean) / std of (C, H, W) or (N, C, H, W); a number, or one for each channel."""
    of_channels = [array(each if isinstance(each, (tuple, list)) else [each], data.context).reshape((-1, 1, 1))
                   for each in (mean, std)]
    return (data - of_channels[0]) / of_channels[1]


def crop(data: NDArray, x: int, y: int, width: int, height: int) -> NDArray:
    """The part of (H, W, C) or (N, H, W, C) from column x and row y on."""
    if x < 0 or y < 0 or y + height > data.shape[-3] or x + width > data.shape[-2]:
        raise WrongShape(f"crop: x={x}, y={y}, width={width}, height={height} leaves the image of shape {data.shape}")
    return data[..., y:y + height, x:x + width, :]


def flip_left_right(data: NDArray) -> NDArray:
    """(H, W, C) or (N, H, W, C), mirrored."""
    return _calls.invoke(_calls.known(_find("reverse"), {"axis": str(data.ndim - 2)}, 1), (data,))


def flip_top_bottom(data: NDArray) -> NDArray:
    """(H, W, C) or (N, H, W, C), upside down."""
    return _calls.invoke(_calls.known(_find("reverse"), {"axis": str(data.ndim - 3)}, 1), (data,))


def random_flip_left_right(data: NDArray, p: float = 0.5) -> NDArray:
    """flip_left_right with probability `p`."""
    return flip_left_right(data) if np.random.uniform() < p else data


def random_flip_top_bottom(data: NDArray, p: float = 0.5) -> NDArray:
    """flip_top_bottom with probability `p`."""
    return flip_top_bottom(data) if np.random.uniform() < p else data


__getattr__, __dir__ = fill_module(globals(), make_function, ("_image_",))
