"""Pixels of image files, by Pillow."""
from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np

from .base import MXNetError, cannot_open

# The kinds of pixels that OpenCV reads as they are, when it is asked for no other; it makes colors of the others.
_KEPT = ("L", "RGB", "RGBA", "I;16")
_MODES = {"1": "L", "LA": "RGBA", "PA": "RGBA", "I;16B": "I;16", "I": "I;16"}


def _pillow(part: str = "Image") -> Any:
    try:
        return importlib.import_module("PIL." + part)
    except ImportError as error:
        raise ImportError("image files are read by Pillow, which is not installed: pip install pillow") from error


def decode(data: bytes, flag: int = 1, to_rgb: bool = True, turn: bool = False) -> np.ndarray:
    """(H, W, 3) bytes of an image file's content, blue first unless `to_rgb`; (H, W, 1), gray, with `flag` 0.

    `flag` -1 keeps what the file has: gray (H, W, 1), or colors and transparency (H, W, 4), and 16 bits.
    With `turn` a photograph is turned as its camera was held, unless `flag` is -1.
    ImportError: Pillow is not installed. MXNetError: it is no image.
    """
    if not data:
        raise MXNetError("imdecode: Input cannot be an empty buffer")
    pillow = _pillow()
    try:
        with pillow.open(io.BytesIO(data)) as image:
            pixels = np.asarray(_as_asked(image, flag, turn))
    except (OSError, SyntaxError, ValueError) as error:
        raise MXNetError("imdecode: Decoding failed. Invalid image file.") from error
    if pixels.ndim == 2:
        return pixels[..., np.newaxis]
    return pixels if to_rgb else swapped(pixels)


def _as_asked(image: Any, flag: int, turn: bool) -> Any:
    mode = _MODES.get(image.mode, image.mode)
    if flag >= 0:
        if flag == 0:
            image.draft("L", image.size)  # A JPEG has its gray pixels apart from the colors.
        if mode == "I;16":
            image = _pillow().fromarray((np.asarray(image) >> 8).astype(np.uint8))
        image = image.convert("RGB" if flag else "L")
        return _pillow("ImageOps").exif_transpose(image) if turn else image
    if image.mode == "P" and "transparency" in image.info:
        mode = "RGBA"
    return image.convert(mode if mode in _KEPT else "RGB")


def swapped(pixels: np.ndarray) -> np.ndarray:
    """(H, W, C) with red and blue exchanged."""
    return pixels[..., [2, 1, 0, *range(3, pixels.shape[-1])]]


def read(path: Any, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """As decode, of a file. FileError: it cannot be opened."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise cannot_open(error) from error
    return decode(data, flag, to_rgb)


def encode(pixels: np.ndarray, ending: str, quality: int) -> bytes:
    """An image file's content, of (H, W) or (H, W, 1 or 3 or 4) bytes, blue first.

    `ending`: of the file's name, which tells its format. `quality`: 1 to 100 of JPEG; 0 to 9 of PNG, the more the
    smaller.
    ImportError: Pillow is not installed. MXNetError: the format cannot be written.
    """
    pillow = _pillow()
    pixels = np.asarray(pixels)
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    image = pillow.fromarray(np.ascontiguousarray(pixels if pixels.ndim == 2 else swapped(pixels)))
    kind = pillow.registered_extensions().get(ending.lower())
    if kind == "JPEG" and image.mode == "RGBA":
        image = image.convert("RGB")
    options = {"JPEG": {"quality": quality}, "PNG": {"compress_level": min(max(quality, 0), 9)}}.get(kind, {})
    file = io.BytesIO()
    try:
        if kind is None:
            raise OSError("no format has this ending")
        image.save(file, kind, **options)
    except (OSError, ValueError) as error:
        raise MXNetError(f"failed to encode an image as '{ending}': {error}") from error
    return file.getvalue()
