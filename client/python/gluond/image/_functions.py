"""Functions of images (H, W, C), which are NDArrays, or numpy arrays; the result is of the same kind."""
from __future__ import annotations

import random
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .. import _image_files, ndarray
from .._array.array import NDArray
from ..base import MXNetError, WrongValue
from ..gluon.data.vision import _resizing

Size = Tuple[int, int]
Place = Tuple[int, int, int, int]  # x, y, width, height


def _sample(pixels: np.ndarray, ctx: Any = None) -> NDArray:
    return ndarray.array(np.ascontiguousarray(pixels), dtype=pixels.dtype, ctx=ctx)


def imread(filename: str, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """An image file's pixels, (H, W, 3) uint8, or gray ones (H, W, 1) with `flag` 0; blue comes first unless `to_rgb`.

    ImportError: Pillow is not installed. MXNetError: the file cannot be opened, or is no image.
    """
    return _sample(_image_files.read(filename, flag, to_rgb))


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """As imread, of a file's content: bytes, or an array of them. ValueError: `buf` is a str, or something else."""
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, (bytes, bytearray, np.ndarray)):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray, if you would like to input type str, please " "convert to bytes"
        )
    return _sample(_image_files.decode(bytes(buf), flag, to_rgb))


def imresize(src: Any, w: int, h: int, interp: int = 1) -> Any:
    """(H, W, C) -> (h, w, C). `interp`: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos.

    MXNetError: a size below 1, or another `interp`.
    """
    if w < 1 or h < 1:
        raise MXNetError(f"imresize: a size of {w} by {h} is not possible; both numbers have to be 1 or more.")
    if interp not in range(5):
        raise MXNetError(f"imresize: Unknown interpolation method {interp}; there are 0 to 4.")
    pixels = _resizing.resize(src.asnumpy() if isinstance(src, NDArray) else src, int(w), int(h), interp)
    return _sample(pixels, src.context) if isinstance(src, NDArray) else pixels


def scale_down(src_size: Size, size: Size) -> Size:
    """`size` (width, height), made smaller in its proportions so that it fits into `src_size`."""
    width, height = size
    if src_size[1] < height:
        width, height = float(width * src_size[1]) / height, src_size[1]  # type: ignore[assignment]
    if src_size[0] < width:
        width, height = src_size[0], float(height * src_size[0]) / width  # type: ignore[assignment]
    return int(width), int(height)


def interpolation(interp: int, sizes: Sequence[int] = ()) -> int:
    """The number for imresize: of 9, by old and new height and width; of 10, at random. ValueError: there is no such one."""
    if interp == 9:
        if not sizes:
            return 2
        old_height, old_width, height, width = sizes
        return 2 if height > old_height and width > old_width else 3 if height < old_height and width < old_width else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in range(5):
        raise ValueError(f"Unknown interp method {interp}")
    return interp


def resize_short(src: Any, size: int, interp: int = 2) -> Any:
    """Resized so that the shorter edge is `size`."""
    height, width = src.shape[:2]
    new = (size * height // width, size) if height > width else (size, size * width // height)
    return imresize(src, new[1], new[0], interpolation(interp, (height, width) + new))


def fixed_crop(src: Any, x0: int, y0: int, w: int, h: int, size: Optional[Size] = None, interp: int = 2) -> Any:
    """The part at (x0, y0), resized to `size` (width, height) if there is one."""
    out = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return out
    return imresize(out, size[0], size[1], interpolation(interp, (h, w, size[1], size[0])))


def random_crop(src: Any, size: Size, interp: int = 2) -> Tuple[Any, Place]:
    """A random part of `size` (width, height), or the largest of these proportions, enlarged; and its place."""
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def center_crop(src: Any, size: Size, interp: int = 2) -> Tuple[Any, Place]:
    """The middle of `size` (width, height), or the largest of these proportions, enlarged; and its place."""
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = (width - w) // 2, (height - h) // 2
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def random_size_crop(src: Any, size: Size, area: Any, ratio: Tuple[float, float], interp: int = 2) -> Tuple[Any, Place]:
    """A random part, resized to `size` (width, height), and its place: of a share `area`, (least, most), of the image.

    Width to height is from `ratio`, (least, most). If ten parts leave the image, it is the middle. A number is (area, 1).
    """
    height, width = src.shape[:2]
    least, most = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(10):
        pixels = random.uniform(least, most) * height * width
        shape = np.exp(random.uniform(np.log(ratio[0]), np.log(ratio[1])))
        w, h = int(round(np.sqrt(pixels * shape))), int(round(np.sqrt(pixels / shape)))
        if w <= width and h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)
    return center_crop(src, size, interp)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Any:
    """(src - mean) / std, in place. Either may be None."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


def check_channels(numbers: Any, name: str) -> None:
    """AssertionError unless it is an array of one number, or of three."""
    if not isinstance(numbers, (np.ndarray, NDArray)) or numbers.shape[0] not in (1, 3):
        raise WrongValue(f"CreateAugmenter: {name} has to be True, or an array of 1 or 3 numbers.")
