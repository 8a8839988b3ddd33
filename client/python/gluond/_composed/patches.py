"""Patches of images: what convolutions are made of."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ..base import MXNetError


def im2col(
    F: Any,
    data: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    dilate: Sequence[int] = (),  # noqa: N803
    pad: Sequence[int] = (),
) -> Any:
    """The patches of (batch, channels, height, width) as columns: (batch, channels kernel size, number of patches)."""
    size = _product(kernel)
    single = F.expand_dims(F.reshape(data, shape=(-3, -2)), axis=1)  # Each channel is an image.
    patches = F.Convolution(
        single,
        F._cast_like(_one_hot(F, kernel), data),
        kernel=kernel,
        stride=stride,
        dilate=dilate,
        pad=pad,
        num_filter=size,
        no_bias=True,
    )
    columns = F.reshape(patches, shape=(0, 0, -1))
    channels = F.reshape_like(columns, F.reshape(data, shape=(0, 0, -1)), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
    return F.reshape(channels, shape=(0, -3, 0))


def col2im(
    F: Any,
    data: Any,
    output_size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int] = (),  # noqa: N803
    dilate: Sequence[int] = (),
    pad: Sequence[int] = (),
) -> Any:
    """The sum of the patches in the places that im2col takes them from: (batch, channels, *output_size)."""
    rank = len(kernel)
    stride, dilate, pad = stride or (1,) * rank, dilate or (1,) * rank, pad or (0,) * rank
    fitting = [output_size[i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1 for i in range(rank)]
    counts, rests = [fitting[i] // stride[i] + 1 for i in range(rank)], tuple(fitting[i] % stride[i] for i in range(rank))
    by_channel = F.reshape(data, shape=(0, -4, -1, _product(kernel), 0))
    patches = F.reshape(F.reshape(by_channel, shape=(-3, 0, 0)), shape=(0, 0, *counts))
    images = F.Deconvolution(
        patches,
        F._cast_like(_one_hot(F, kernel), data),
        kernel=kernel,
        stride=stride,
        dilate=dilate,
        pad=pad,
        num_filter=1,
        no_bias=True,
        adj=rests,
    )
    channels = F.reshape_like(
        images, F.slice_axis(by_channel, axis=2, begin=0, end=1), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2
    )
    return F.reshape(channels, shape=(0, 0, *output_size))


def _one_hot(F: Any, kernel: Sequence[int]) -> Any:  # noqa: N803
    """A filter for each place of the kernel, that picks it."""
    return F.reshape(F._eye(N=_product(kernel)), shape=(-1, 1, *kernel))


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def correlation(
    F: Any,
    data1: Any,
    data2: Any,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,  # noqa: N803
    stride2: int = 1,
    pad_size: int = 0,
    is_multiply: bool = True,
) -> Any:
    """The mean over channels and patches of the products of two images (batch, channels, height, width), or of the amounts of their
    differences: a channel for each displacement of the second, row by row."""
    width = (0, 0, 0, 0) + (pad_size,) * 4
    data1, data2 = (F.pad(data, mode="constant", constant_value=0, pad_width=width) for data in (data1, data2))
    reach = max_displacement // stride2
    steps = [step * stride2 for step in range(-reach, reach + 1)]
    first = _shifted(F, data1, max_displacement, 0, 0)
    found = []
    for down in steps:
        for right in steps:
            second = _shifted(F, data2, max_displacement, down, right)
            together = first * second if is_multiply else _amount(F, first - second)
            found.append(F.mean(together, axis=1, keepdims=True))
    return F.Pooling(F.concat(*found, dim=1), kernel=(kernel_size,) * 2, stride=(stride1,) * 2, pool_type="avg")


def _amount(F: Any, difference: Any) -> Any:  # noqa: N803
    """The absolute value, with a gradient of 1 at 0, as MXNet's."""
    return difference * F.BlockGrad((difference >= 0) * 2 - 1)


def _shifted(F: Any, data: Any, margin: int, down: int, right: int) -> Any:  # noqa: N803
    """The image without a margin, seen from a place further down and to the right."""
    for axis, shift in ((2, down), (3, right)):
        end = margin - shift
        data = F.slice_axis(data, axis=axis, begin=margin + shift, end=-end if end else None)
    return data


def crop(
    F: Any,
    *data: Any,
    offset: Sequence[int] = (0, 0),
    h_w: Sequence[int] = (0, 0),
    center_crop: bool = False,  # noqa: N803
    num_args: Optional[int] = None,
) -> Any:
    """The part of (batch, channels, height, width) from `offset` on, of size `h_w`, or of the second array's size."""
    if center_crop:
        raise MXNetError("Crop: center_crop=True is not supported; give the offset")
    image, (top, left) = data[0], offset
    if len(data) == 1:
        return F.slice(image, begin=(None, None, top, left), end=(None, None, top + h_w[0], left + h_w[1]))
    return F.slice_like(F.slice(image, begin=(None, None, top, left), end=(None, None, None, None)), data[1], axes=(2, 3))
