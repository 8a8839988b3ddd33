"""Convolutions that read where a network says, instead of at the places of a regular window (Dai et al., 2017).

The data is read at all places of all windows, window beside window, into an image of kernel times as many rows and columns. Over
that an ordinary convolution goes in steps of a kernel.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from ..base import MXNetError
from .sampling import bilinear, is_within, size_of


def deformable_convolution(
    F: Any,
    data: Any,
    offset: Any,
    weight: Any = None,
    bias: Any = None,  # noqa: N803
    kernel: Sequence[int] = (),
    stride: Sequence[int] = (),
    dilate: Sequence[int] = (),
    pad: Sequence[int] = (),
    num_deformable_group: int = 1,
    **how: Any,
) -> Any:
    """The convolution of data (N, C, height, width), each place of whose windows is moved by `offset` (N, 2 groups kernel area,
    rows, columns): for each of `num_deformable_group` parts of the channels, and each place, down and to the right. how: as
    Convolution's.
    """
    return _convolution(F, data, offset, None, (weight, bias), kernel, stride, dilate, pad, num_deformable_group, how)


def modulated_deformable_convolution(
    F: Any,
    data: Any,
    offset: Any,
    mask: Any,
    weight: Any = None,
    bias: Any = None,  # noqa: N803
    kernel: Sequence[int] = (),
    stride: Sequence[int] = (),
    dilate: Sequence[int] = (),
    pad: Sequence[int] = (),
    num_deformable_group: int = 1,
    **how: Any,
) -> Any:
    """The same where what is read at each place is multiplied by `mask` (N, groups kernel area, rows, columns)."""
    return _convolution(F, data, offset, mask, (weight, bias), kernel, stride, dilate, pad, num_deformable_group, how)


def _convolution(
    F: Any,
    data: Any,
    offset: Any,
    mask: Optional[Any],
    weights: Tuple[Any, Any],
    kernel: Sequence[int],  # noqa: N803
    stride: Sequence[int],
    dilate: Sequence[int],
    pad: Sequence[int],
    groups: int,
    how: Any,
) -> Any:
    if how.pop("layout", None) not in (None, "NCHW"):
        raise MXNetError("A deformable convolution has the layout NCHW")
    for unused in ("workspace", "im2col_step"):
        how.pop(unused, None)
    windows = list(zip(kernel, stride or (1, 1), dilate or (1, 1), pad or (0, 0)))
    read = []
    for group in range(groups):
        moved = _spread(F, _part(F, offset, groups, group), kernel, 2)
        moves = [F.squeeze(F.slice_axis(moved, axis=1, begin=part, end=part + 1), axis=1) for part in (0, 1)]
        y, x = (F.broadcast_add(moves[part], _places(F, moved, part, *window)) for part, window in enumerate(windows))
        image = _part(F, data, groups, group)
        if mask is None:
            read.append(_clamped(F, image, x, y))
        else:
            read.append(F.broadcast_mul(bilinear(F, image, x, y), _spread(F, _part(F, mask, groups, group), kernel, 1)))
    given = [each for each in weights if each is not None]
    return F.Convolution(F.concat(*read, dim=1) if groups > 1 else read[0], *given, kernel=kernel, stride=kernel, **how)


def _clamped(F: Any, image: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """The image at pixels x and y, as the first version of MXNet's operator reads it: 0 outside, and beyond the middle of the last
    pixel that pixel. The modulated one fades out."""
    width, height = size_of(F, image, 3), size_of(F, image, 2)
    is_inside = F.expand_dims(is_within(F, x, width) * is_within(F, y, height), axis=1)
    return F.broadcast_mul(bilinear(F, image, _up_to_last(F, x, width), _up_to_last(F, y, height)), is_inside)


def _up_to_last(F: Any, place: Any, size: Any) -> Any:  # noqa: N803
    last = F.broadcast_like(F.reshape(F._cast_like(size - 1, place), shape=(1, 1, 1)), place)
    return F.where(place >= last, last, place)


def _part(F: Any, x: Any, groups: int, group: int) -> Any:  # noqa: N803
    """The channels of one group."""
    return F.SliceChannel(x, num_outputs=groups, axis=1)[group] if groups > 1 else x


def _spread(F: Any, maps: Any, kernel: Sequence[int], count: int) -> Any:  # noqa: N803
    """(N, kernel area count, rows, columns) -> (N, count, rows kernel, columns kernel)."""
    parts = F.reshape(F.reshape(maps, shape=(0, -4, kernel[0], -1, 0, 0)), shape=(0, 0, -4, kernel[1], count, 0, 0))
    return F.reshape(F.transpose(parts, axes=(0, 3, 4, 1, 5, 2)), shape=(0, 0, -3, -3))


def _places(F: Any, moved: Any, part: int, kernel: int, stride: int, dilate: int, pad: int) -> Any:  # noqa: N803
    """The rows (part 0), or the columns, that windows which are not moved read."""
    number = F._cast_like(F._contrib_arange_like(F.BlockGrad(moved), axis=2 + part), moved)
    window = F.floor((number + 0.5) / kernel)
    return F.reshape(window * (stride - kernel * dilate) + number * dilate - pad, shape=(1, 1, -1) if part else (1, -1, 1))
