"""Images sampled where a grid says: spatial transformers.

A grid (batch, 2, height, width) holds x and y of each pixel of the result, from -1 (the first pixel of the image) to 1 (the last).
"""

from __future__ import annotations

from typing import Any, Sequence

from ..base import MXNetError


def grid_generator(F: Any, data: Any, transform_type: str, target_shape: Sequence[int] = (0, 0)) -> Any:  # noqa: N803
    """The grid of an affine transform (batch, 6) in a target shape, or of a flow (batch, 2, height, width) in pixels (`warp`)."""
    if transform_type == "affine":
        height, width = target_shape
        x = F.broadcast_to(F.reshape(F._linspace(start=-1.0, stop=1.0, num=width), shape=(1, 1, -1)), shape=(1, height, width))
        y = F.broadcast_to(F.reshape(F._linspace(start=-1.0, stop=1.0, num=height), shape=(1, -1, 1)), shape=(1, height, width))
        places = F.concat(x, y, F.ones_like(x), dim=0)
        grid = F.dot(F.reshape(data, shape=(-1, 3)), F._cast_like(F.reshape(places, shape=(3, -1)), data))
        return F.reshape(grid, shape=(-1, 2, height, width))
    if transform_type != "warp":
        raise MXNetError(f"GridGenerator: transform_type is 'affine' or 'warp', got {transform_type!r}")
    return F.concat(_moved(F, data, 0, 3, (1, 1, 1, -1)), _moved(F, data, 1, 2, (1, 1, -1, 1)), dim=1)


def _moved(F: Any, flow: Any, part: int, axis: int, shape: Sequence[int]) -> Any:  # noqa: N803
    """One coordinate of each pixel, which the flow moves, from -1 to 1."""
    pixels = F.reshape(F._cast_like(F._contrib_arange_like(F.BlockGrad(flow), axis=axis), flow), shape=shape)
    moved = F.broadcast_add(F.slice_axis(flow, axis=1, begin=part, end=part + 1), pixels)
    return F.broadcast_div(moved, (size_of(F, flow, axis) - 1) / 2) - 1


def bilinear_sampler(F: Any, data: Any, grid: Any, cudnn_off: Any = None) -> Any:  # noqa: N803
    """The data (batch, channels, height, width) at the places of a grid, between four pixels; 0 outside."""
    height, width = size_of(F, data, 2), size_of(F, data, 3)
    return bilinear(F, data, _pixels(F, grid, 0, width), _pixels(F, grid, 1, height))


def spatial_transformer(
    F: Any,
    data: Any,
    loc: Any,
    target_shape: Sequence[int] = (0, 0),
    transform_type: str = "affine",  # noqa: N803
    sampler_type: str = "bilinear",
    cudnn_off: Any = None,
) -> Any:
    """The data, moved by an affine transform (batch, 6), in a target shape (height, width)."""
    return bilinear_sampler(F, data, grid_generator(F, loc, transform_type, target_shape))


def bilinear(F: Any, data: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """The data (batch, channels, height, width) at pixels x and y (batch, out height, out width), 0 outside."""
    height, width = size_of(F, data, 2), size_of(F, data, 3)
    rows = F.reshape(F.transpose(data, axes=(0, 2, 3, 1)), shape=(-3, 0, 0))
    rows = F.reshape(rows, shape=(-3, 0))  # One for each pixel of the batch.
    image = F.reshape(F._cast_like(F._contrib_arange_like(F.BlockGrad(data), axis=0), x), shape=(-1, 1, 1))
    left, top = F.BlockGrad(F.floor(x)), F.BlockGrad(F.floor(y))
    sampled = None
    for column, x_weight in ((left, 1 - (x - left)), (left + 1, x - left)):
        for row, y_weight in ((top, 1 - (y - top)), (top + 1, y - top)):
            is_inside = is_within(F, column, width) * is_within(F, row, height)
            place = F.broadcast_add(F.broadcast_mul(_integer(F, image), _integer(F, height)), _within(F, row, height))
            place = F.broadcast_add(F.broadcast_mul(place, _integer(F, width)), _within(F, column, width))
            weight = F.expand_dims(x_weight * y_weight * is_inside, axis=3)
            part = F.broadcast_mul(F.take(rows, F.BlockGrad(place)), F._cast_like(weight, data))
            sampled = part if sampled is None else sampled + part
    return F.transpose(sampled, axes=(0, 3, 1, 2))


def size_of(F: Any, data: Any, axis: int) -> Any:  # noqa: N803
    """The size of an axis, (1,), in the data's type: a symbol's is known when it runs."""
    return F._cast_like(F.slice_axis(F.shape_array(F.BlockGrad(data)), axis=0, begin=axis, end=axis + 1), data)


def _pixels(F: Any, grid: Any, part: int, size: Any) -> Any:  # noqa: N803
    """x or y of a grid in pixels, (batch, height, width)."""
    place = F.squeeze(F.slice_axis(grid, axis=1, begin=part, end=part + 1), axis=1)
    return F.broadcast_mul(place + 1, F._cast_like((size - 1) / 2, grid))


def is_within(F: Any, place: Any, size: Any) -> Any:  # noqa: N803
    return F.BlockGrad(F.broadcast_lesser(place, F._cast_like(size, place)) * (place >= 0))


def _within(F: Any, place: Any, size: Any) -> Any:  # noqa: N803
    """The nearest pixel that exists, an integer."""
    return _integer(F, F.broadcast_minimum(F.relu(place), F._cast_like(size - 1, place)))


def _integer(F: Any, numbers: Any) -> Any:  # noqa: N803
    """int32: float32 counts to 2^24 only."""
    return F.Cast(F.BlockGrad(numbers), dtype="int32")
