"""Pixels of image files, by Pillow."""
from __future__ import annotations

import io
from typing import Any

import numpy as np

from ....base import MXNetError, cannot_open


def decode(data: bytes, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """(H, W, 3) bytes of an image file's content, blue first unless `to_rgb`; (H, W, 1), gray, with `flag` 0.

    ImportError: Pillow is not installed. MXNetError: it is no image.
    """
    if not data:
        raise MXNetError("imdecode: Input cannot be an empty buffer")
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("image files are read by Pillow, which is not installed: pip install pillow") from error
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB" if flag else "L"))
    except (OSError, SyntaxError) as error:
        raise MXNetError("imdecode: Decoding failed. Invalid image file.") from error
    if not flag:
        return pixels[..., np.newaxis]
    return pixels if to_rgb else pixels[..., ::-1]


def read(path: Any, flag: int = 1, to_rgb: bool = True) -> np.ndarray:
    """As decode, of a file. FileError: it cannot be opened."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise cannot_open(error) from error
    return decode(data, flag, to_rgb)
