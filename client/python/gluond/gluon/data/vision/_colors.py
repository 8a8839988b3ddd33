"""Colors of images (H, W, C), which are numpy arrays, red first."""
from __future__ import annotations

import numpy as np

GRAY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]], np.float32)
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]], np.float32)
# The main components of the colors of ImageNet.
_VALUES = np.array([55.46, 4.794, 1.148], np.float32)
_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float32)


def like(values: np.ndarray, original: np.ndarray) -> np.ndarray:
    """`values` in the dtype of `original`; bytes are rounded, and limited to 0..255."""
    if original.dtype == np.uint8:
        values = np.clip(np.rint(values), 0, 255)
    return values.astype(original.dtype)


def brighter(image: np.ndarray, factor: float) -> np.ndarray:
    """An image of float32; darker by a factor below 1."""
    return image * np.float32(factor)


def contrasted(image: np.ndarray, factor: float) -> np.ndarray:
    """An image of float32; nearer to its mean gray by a factor below 1."""
    gray = (image @ GRAY).mean() if image.shape[-1] == 3 else image.mean()
    return image * np.float32(factor) + gray * np.float32(1 - factor)


def saturated(image: np.ndarray, factor: float) -> np.ndarray:
    """An image of float32; nearer to each pixel's gray by a factor below 1. A gray image stays so."""
    if image.shape[-1] != 3:
        return image
    return image * np.float32(factor) + (image @ GRAY)[..., np.newaxis] * np.float32(1 - factor)


def hue(image: np.ndarray, turn: float) -> np.ndarray:
    """Colors turned by `turn` half circles."""
    u, w = np.cos(turn * np.pi), np.sin(turn * np.pi)
    rotation = np.array([[1, 0, 0], [0, u, -w], [0, w, u]], np.float32)
    return like(image @ (_FROM_YIQ @ rotation @ _TO_YIQ).T, image)


def lighting(strengths: np.ndarray) -> np.ndarray:
    """The color that each of the main components adds, by its strength."""
    return _VECTORS @ (np.asarray(strengths, np.float32) * _VALUES)


def moved_in_hls(image: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Bytes, moved in hue (half degrees), lightness and saturation (of 255), each limited to its range."""
    most, least = image.max(-1).astype(np.float32) / 255, image.min(-1).astype(np.float32) / 255
    light, spread = (most + least) / 2, most - least
    span = np.where(light < 0.5, most + least, 2 - most - least)
    saturation = np.divide(spread, span, out=np.zeros_like(spread), where=span > 0)
    red, green, blue = np.moveaxis(image.astype(np.float32) / 255, -1, 0)
    safe = np.where(spread > 0, spread, 1)
    turn = (
        np.where(most == red, (green - blue) / safe, np.where(most == green, 2 + (blue - red) / safe, 4 + (red - green) / safe))
        * 30
    )
    turn = np.where(spread > 0, turn + 180 * (turn < 0), 0)
    turn = np.clip(turn + by[0], 0, 180)
    light, saturation = np.clip(light + by[1] / 255, 0, 1), np.clip(saturation + by[2] / 255, 0, 1)
    reach = saturation * np.minimum(light, 1 - light)
    places = [(turn / 15 + n) % 12 for n in (0, 8, 4)]
    channels = [light - reach * np.clip(np.minimum(place - 3, 9 - place), -1, 1) for place in places]
    return like(np.stack(channels, -1) * 255, image)
