"""Operators on images that `nd` computes in another way."""

from __future__ import annotations

from typing import Any, Callable

from ..base import MXNetError
from ._functions import call
from .symbol import Symbol


class _Functions:
    """Operators on symbols, by the names that the server has for them."""

    def __getattr__(self, op: str) -> Callable[..., Symbol]:
        def function(*symbols: Any, name: Any = None, **attributes: Any) -> Symbol:
            named = {key: attributes.pop(key) for key, value in list(attributes.items()) if isinstance(value, Symbol)}
            return call(op, symbols, named, attributes, name=name)

        return function


_F = _Functions()


def to_tensor(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), 0 to 255 -> (C, H, W) or (N, C, H, W), float32, 0 to 1."""
    channels_last_but_one = _F.swapaxes(_F.Cast(data, dtype="float32"), dim1=-1, dim2=-2)
    return _F.swapaxes(channels_last_but_one, dim1=-2, dim2=-3) / 255


def crop(data: Any, x: int, y: int, width: int, height: int) -> Any:
    """The part of (H, W, C) or (N, H, W, C) from column x and row y on."""
    if x < 0 or y < 0:
        raise MXNetError(f"crop: x={x}, y={y} is outside of the image")
    rows = _F.slice_axis(data, axis=-3, begin=y, end=y + height)
    return _F.slice_axis(rows, axis=-2, begin=x, end=x + width)


def flip_left_right(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), mirrored."""
    return _F.reverse(data, axis=-2)


def flip_top_bottom(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), upside down."""
    return _F.reverse(data, axis=-3)


def normalize(data: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
    """(data - mean) / std of (C, H, W) or (N, C, H, W); a number, or one for each channel."""
    return _F.broadcast_div(_F.broadcast_sub(data, _of_channels(mean)), _of_channels(std))


def _of_channels(values: Any) -> Any:
    """A number for each channel, or for all, in shape (C, 1, 1)."""
    values = values if isinstance(values, (tuple, list)) else [values]
    return _F.concat(*[_F._full(shape=(1, 1, 1), value=float(each)) for each in values], dim=0)
