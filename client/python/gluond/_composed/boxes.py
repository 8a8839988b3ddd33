"""Boxes of objects and the offsets that a network tells for anchors. Corners are xmin, ymin, xmax, ymax."""

from __future__ import annotations

from typing import Any, Tuple


def box_encode(F: Any, samples: Any, matches: Any, anchors: Any, refs: Any, means: Any, stds: Any) -> Tuple[Any, Any]:  # noqa: N803
    """(offsets (batch, anchors, 4), masks of the same shape): from anchors (batch, anchors, 4) to the boxes of `refs` (batch, boxes,
    4) that `matches` (batch, anchors) names, where `samples` is above 0.5; 0 elsewhere.

    A symbol's arguments stand in the order in which the formulas name them; so samples come first, and anchors before boxes."""
    boxes = _matched(F, refs, matches)
    x, y, width, height = _centers(F, boxes)
    anchor_x, anchor_y, anchor_width, anchor_height = _centers(F, anchors)
    offsets = F.concat(
        (anchor_x - x) / -anchor_width,
        (anchor_y - y) / -anchor_height,
        F.log(width / anchor_width),
        F.log(height / anchor_height),
        dim=2,
    )
    offsets = F.broadcast_div(F.broadcast_sub(offsets, F.reshape(means, shape=(1, 1, 4))), F.reshape(stds, shape=(1, 1, 4)))
    is_valid = F.broadcast_like(F.expand_dims((samples > 0.5) * F._cast_like(F.ones_like(matches), samples), axis=2), offsets)
    return F.where(is_valid, offsets, F.zeros_like(offsets)), is_valid


def box_decode(
    F: Any,
    data: Any,
    anchors: Any,
    std0: float = 1.0,
    std1: float = 1.0,
    std2: float = 1.0,
    std3: float = 1.0,  # noqa: N803
    clip: float = -1.0,
    format: str = "center",
) -> Any:  # noqa: A002
    """The boxes (batch, anchors, 4), by corners, that offsets from anchors (1, anchors, 4) tell. format: of the anchors, `corner` or
    `center` (x, y, width, height). clip: the largest logarithm of a size, where it is above 0."""
    x, y, width, height = _centers(F, anchors) if format == "corner" else _columns(F, anchors)
    right, down, wider, higher = _columns(F, data)
    sizes = [wider * std2, higher * std3]
    if clip > 0:
        sizes = [F.broadcast_minimum(size, F.ones_like(size) * clip) for size in sizes]
    x = F.broadcast_add(F.broadcast_mul(right * std0, width), x)
    y = F.broadcast_add(F.broadcast_mul(down * std1, height), y)
    half_width, half_height = (F.broadcast_mul(F.exp(size), side) / 2 for size, side in zip(sizes, (width, height)))
    return F.concat(x - half_width, y - half_height, x + half_width, y + half_height, dim=2)


def _matched(F: Any, refs: Any, matches: Any) -> Any:  # noqa: N803
    """The box of each anchor: row `match` of the batch's own."""
    count = F.slice_axis(F.shape_array(F.BlockGrad(refs)), axis=0, begin=1, end=2)
    batch = F.reshape(F.Cast(F._contrib_arange_like(F.BlockGrad(refs), axis=0), dtype="int64"), shape=(-1, 1))
    places = F.broadcast_add(F.broadcast_mul(batch, count), F.Cast(F.BlockGrad(matches), dtype="int64"))
    return F.take(F.reshape(refs, shape=(-3, 0)), places)


def _columns(F: Any, boxes: Any) -> Any:  # noqa: N803
    return [F.slice_axis(boxes, axis=2, begin=i, end=i + 1) for i in range(4)]


def _centers(F: Any, boxes: Any) -> Any:  # noqa: N803
    """Center x, center y, width and height, each (batch, boxes, 1)."""
    left, top, right, bottom = _columns(F, boxes)
    return left + (right - left) / 2, top + (bottom - top) / 2, right - left, bottom - top
