"""Images (H, W, C) of bytes turned, sheared and scaled as OpenCV does it: places to a 32nd of a pixel, bilinear."""
from __future__ import annotations

import numpy as np

_PLACES = 32  # The places between two pixels.
_HALF = _PLACES**2 // 2  # Half of a weight of 1.


def warp(image: np.ndarray, matrix: np.ndarray, width: int, height: int, fill: int) -> np.ndarray:
    """The image whose pixel at `matrix` (2, 3) times (x, y, 1) is that at (x, y); `fill` stands where there is none."""
    back = np.linalg.inv(np.vstack([matrix.astype(np.float64), [0, 0, 1]]))
    x, y = np.arange(width), np.arange(height)[:, None]
    columns, rows = (
        ((np.rint((a * y + b) * 1024).astype(np.int32) + 16 + np.rint(c * x * 1024).astype(np.int32)) >> 5) for c, a, b in back[:2]
    )
    bordered = np.pad(image, ((2, 2), (2, 2), (0, 0)), constant_values=fill)
    part_x, part_y = columns & _PLACES - 1, rows & _PLACES - 1
    # A place beyond the border is moved into it, where all pixels are the same.
    left = np.clip((columns >> 5) + 2, 0, bordered.shape[1] - 2)
    first = np.clip((rows >> 5) + 2, 0, bordered.shape[0] - 2) * bordered.shape[1] + left
    pixels = bordered.reshape(-1, image.shape[2]).astype(np.int32)
    total = np.full((height, width, image.shape[2]), _HALF, np.int32)
    for down in (0, 1):
        for across in (0, 1):
            weight = (part_y if down else _PLACES - part_y) * (part_x if across else _PLACES - part_x)
            total += np.take(pixels, first + (down * bordered.shape[1] + across), 0) * weight[..., np.newaxis]
    return (total >> 10).astype(np.uint8)
