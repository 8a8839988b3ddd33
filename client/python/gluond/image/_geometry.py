"""Images turned, and with a border."""
from __future__ import annotations

from numbers import Number
from typing import Any, Sequence, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import MXNetError
from ..gluon.data.vision import _images

# By OpenCV's number of the kind of a border, numpy's name of it.
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect", 16: "constant"}


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """(C, H, W), or (N, C, H, W), of float32, turned about its middle; of a batch, by an angle for all or for each.

    Zero stands where the image has ended. With `zoom_in` nothing of that is seen, with `zoom_out` the whole image is.
    TypeError: another dtype, or several angles of one image. ValueError: another number of angles than of images.
    """
    if src.dtype != np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    if src.ndim not in (3, 4):
        raise ValueError("Only 3D and 4D are supported by this function")
    if src.ndim == 3 and not isinstance(rotation_degrees, Number):
        raise TypeError("When a single image is passed the rotation angle is required to be a scalar.")
    images = src.asnumpy().reshape((-1,) + src.shape[-3:])
    degrees = rotation_degrees.asnumpy() if isinstance(rotation_degrees, NDArray) else np.asarray(rotation_degrees)
    if degrees.ndim and len(degrees) != len(images):
        raise ValueError("The number of images must be equal to the number of rotation angles")
    turned = _images.rotate(images, np.broadcast_to(degrees, len(images)), zoom_in, zoom_out)
    return ndarray.array(turned.reshape(src.shape), ctx=src.context)


def random_rotate(src: NDArray, angle_limits: Tuple[float, float], zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """As imrotate, by degrees drawn from `angle_limits`, (least, most), for each image of a batch."""
    degrees = np.random.uniform(*angle_limits, size=None if src.ndim == 3 else src.shape[0])
    return imrotate(src, degrees, zoom_in, zoom_out)


def copyMakeBorder(
    src: Any,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,  # noqa: N802
    values: Sequence[float] = (),
) -> Any:
    """(H, W, C) with more rows and columns on its sides.

    `type`: 0 a color, `values` of the channels or `value` for all; 1 the last pixel; 2 mirrored; 3 the other side's
    pixels; 4 mirrored without the last pixel. MXNetError: another `type`, or a negative number.
    """
    if type not in _BORDERS:
        raise MXNetError(f"copyMakeBorder: Unknown/unsupported border type {type}; there are " f"{', '.join(map(str, _BORDERS))}.")
    if min(top, bot, left, right) < 0:
        raise MXNetError(f"copyMakeBorder: {(top, bot, left, right)} pixels cannot be added; all have to be 0 or more.")
    pixels = src.asnumpy() if isinstance(src, NDArray) else src
    places = ((top, bot), (left, right), (0, 0))
    if _BORDERS[type] != "constant":
        bordered = np.pad(pixels, places, mode=_BORDERS[type])  # type: ignore[call-overload]
    else:
        bordered = np.empty((top + len(pixels) + bot, left + pixels.shape[1] + right, pixels.shape[2]), pixels.dtype)
        colors = [*values, *[0.0] * 4][: pixels.shape[2]] if len(values) else [value] * pixels.shape[2]
        bordered[...] = np.asarray(colors).astype(pixels.dtype)
        bordered[top : top + len(pixels), left : left + pixels.shape[1]] = pixels
    return ndarray.array(bordered, dtype=bordered.dtype, ctx=src.context) if isinstance(src, NDArray) else bordered
