"""Operators on images (height, width, channels), red first, of 0 to 255: bytes, or a float type. An image is bytes after its change
if it is before: whole numbers are cut off, and limited. Random changes are the same for all pixels; the server draws them.
"""

from __future__ import annotations

from typing import Any, Sequence, Union

from ..base import MXNetError, WrongShape

_RED_GREEN_BLUE = (0.299, 0.587, 0.114)  # The parts of gray.
_LIGHTING = (
    (55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009),
    (55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140),
    (55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203),
)  # The main components of ImageNet's colors, for red, green and blue.
_LEAST_SPREAD = 2.0**-23  # A color that has less between its channels is gray.


def to_tensor(F: Any, data: Any) -> Any:  # noqa: N803
    """(H, W, C) or (N, H, W, C), 0 to 255 -> (C, H, W) or (N, C, H, W), float32, 0 to 1."""
    return F.swapaxes(F.swapaxes(F.Cast(data, dtype="float32"), dim1=-1, dim2=-2), dim1=-2, dim2=-3) / 255


def normalize(F: Any, data: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:  # noqa: N803
    """(data - mean) / std of (C, H, W) or (N, C, H, W); a number, or one for each channel."""
    shift, scale = (_constant(F, value if isinstance(value, (tuple, list)) else [value], (-1, 1, 1)) for value in (mean, std))
    return F.broadcast_div(F.broadcast_sub(data, F._cast_like(shift, data)), F._cast_like(scale, data))


def crop(F: Any, data: Any, x: int, y: int, width: int, height: int) -> Any:  # noqa: N803
    """The part of (H, W, C) or (N, H, W, C) from column x and row y on."""
    shape = getattr(data, "shape", (y + height, x + width, 0))
    if x < 0 or y < 0 or y + height > shape[-3] or x + width > shape[-2]:
        raise WrongShape(f"crop: x={x}, y={y}, width={width}, height={height} leaves the image of shape {shape}")
    return F.slice_axis(F.slice_axis(data, axis=-3, begin=y, end=y + height), axis=-2, begin=x, end=x + width)


def flip_left_right(F: Any, data: Any) -> Any:  # noqa: N803
    """(H, W, C) or (N, H, W, C), mirrored."""
    return F.reverse(data, axis=-2)


def flip_top_bottom(F: Any, data: Any) -> Any:  # noqa: N803
    """(H, W, C) or (N, H, W, C), upside down."""
    return F.reverse(data, axis=-3)


def resize(F: Any, data: Any, size: Union[int, Sequence[int]], keep_ratio: bool = False, interp: int = 1) -> Any:  # noqa: N803
    """(H, W, C) or (N, H, W, C) in `size`, a number or (width, height); with `keep_ratio`, a number is that of the shorter edge."""
    if interp != 1:
        raise MXNetError(f"image.resize: interp is 1, between four pixels, got {interp}; mx.image.imresize has other ways")
    width, height = (size, size) if isinstance(size, int) else (*size, *size)[:2]
    if keep_ratio and isinstance(size, int):
        if not hasattr(data, "shape"):
            raise MXNetError("image.resize: keep_ratio needs the image's shape, which a symbol has not; give size=(width, height)")
        rows, columns = data.shape[-3:-1]
        width, height = (size, size * rows // columns) if columns < rows else (size * columns // rows, size)
    images = F.reshape(
        F.swapaxes(F.swapaxes(F.Cast(data, dtype="float32"), dim1=-1, dim2=-2), dim1=-2, dim2=-3), shape=(-1, 0, 0, 0), reverse=True
    )
    resized = F._contrib_BilinearResize2D(images, height=height, width=width, align_corners=False)
    pixels = F.reshape_like(F.transpose(resized, axes=(0, 2, 3, 1)), data, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=-3)
    return _like(F, pixels, data, 0.5)


def random_brightness(F: Any, data: Any, min_factor: float, max_factor: float) -> Any:  # noqa: N803
    """Brighter or darker by a factor."""
    return brighter(F, data, _drawn(F, min_factor, max_factor))


def random_contrast(F: Any, data: Any, min_factor: float, max_factor: float) -> Any:  # noqa: N803
    """Farther from the image's mean gray, or nearer, by a factor."""
    return contrasted(F, data, _drawn(F, min_factor, max_factor))


def random_saturation(F: Any, data: Any, min_factor: float, max_factor: float) -> Any:  # noqa: N803
    """Farther from gray, or nearer, by a factor. The gray is MXNet 1.9.1's: the share of blue alone."""
    return saturated(F, data, _drawn(F, min_factor, max_factor))


def random_hue(F: Any, data: Any, min_factor: float, max_factor: float) -> Any:  # noqa: N803
    """Colors turned by a part of the circle."""
    return turned(F, data, _drawn(F, min_factor, max_factor))


def adjust_lighting(F: Any, data: Any, alpha: Sequence[float]) -> Any:  # noqa: N803
    """The main components of ImageNet's colors added, by three strengths."""
    return _lit(F, data, _constant(F, alpha, (1, 1, 3)))


def random_lighting(F: Any, data: Any, alpha_std: float = 0.05) -> Any:  # noqa: N803
    """adjust_lighting by normal strengths."""
    return _lit(F, data, F._random_normal(shape=(1, 1, 3)) * alpha_std)


def brighter(F: Any, image: Any, factor: Any) -> Any:  # noqa: N803
    """The image times the factor, (1, 1, 1)."""
    return _like(F, F.broadcast_mul(F.Cast(image, dtype="float32"), factor), image)


def contrasted(F: Any, image: Any, factor: Any) -> Any:  # noqa: N803
    """The image's distances from its mean gray, times the factor."""
    pixels = F.Cast(image, dtype="float32")
    if _is_gray(image):
        gray = F.mean(pixels, keepdims=True)
    else:
        gray = F.mean(
            F.sum(F.broadcast_mul(pixels, _constant(F, _RED_GREEN_BLUE, (1, 1, 3))), axis=-1, keepdims=True), keepdims=True
        )
    return _mixed(F, image, pixels, gray, factor)


def saturated(F: Any, image: Any, factor: Any) -> Any:  # noqa: N803
    """The pixels' distances from their grays, times the factor."""
    if _is_gray(image):
        return F.identity(image)
    pixels = F.Cast(image, dtype="float32")
    return _mixed(F, image, pixels, F.slice_axis(pixels, axis=-1, begin=2, end=3) * _RED_GREEN_BLUE[2], factor)


def turned(F: Any, image: Any, part: Any) -> Any:  # noqa: N803
    """The colors turned by a part of the circle, by way of hue, lightness and saturation."""
    if _is_gray(image):
        return F.identity(image)
    pixels = F.Cast(image, dtype="float32") / 255
    red, green, blue = (F.slice_axis(pixels, axis=-1, begin=channel, end=channel + 1) for channel in range(3))
    most, least = F.max(pixels, axis=-1, keepdims=True), F.min(pixels, axis=-1, keepdims=True)
    light, spread = (most + least) / 2, most - least
    is_color = spread > _LEAST_SPREAD
    divisor = F.where(is_color, spread, F.ones_like(spread))
    sixths = F.where(
        most == red, (green - blue) / divisor, F.where(most == green, (blue - red) / divisor + 2, (red - green) / divisor + 4)
    )
    whole = F.where(light < 0.5, most + least, 2 - most - least)
    saturation = F.where(is_color, spread / F.where(is_color, whole, F.ones_like(whole)), F.zeros_like(spread))
    reach = saturation * F.broadcast_minimum(light, 1 - light)
    hue = F.broadcast_add(sixths * 2, part * 12)
    channels = [
        light - reach * F.clip(F.broadcast_minimum(place - 3, 9 - place), a_min=-1, a_max=1)
        for place in (_in_circle(F, hue + shift) for shift in (0, 8, 4))
    ]
    return _like(F, F.concat(*channels, dim=-1) * 255, image)


def _in_circle(F: Any, twelfths: Any) -> Any:  # noqa: N803
    """From 0 to 12."""
    return twelfths - 12 * F.BlockGrad(F.floor(twelfths / 12))


def _lit(F: Any, image: Any, strengths: Any) -> Any:  # noqa: N803
    if _is_gray(image):
        return F.identity(image)
    colors = F.concat(*[F.sum(strengths * _constant(F, row, (1, 1, 3)), axis=-1, keepdims=True) for row in _LIGHTING], dim=-1)
    return _like(F, F.broadcast_add(F.Cast(image, dtype="float32"), colors), image)


def _mixed(F: Any, image: Any, pixels: Any, gray: Any, factor: Any) -> Any:  # noqa: N803
    return _like(F, F.broadcast_add(F.broadcast_mul(pixels, factor), F.broadcast_mul(gray, 1 - factor)), image)


def _is_gray(image: Any) -> bool:
    """Whether there is one channel. Symbols, whose shape is not known, have three."""
    return getattr(image, "shape", (3,))[-1] == 1


def _drawn(F: Any, least: float, most: float) -> Any:  # noqa: N803
    return F._random_uniform(shape=(1, 1, 1)) * (most - least) + least


def _constant(F: Any, values: Sequence[float], shape: Sequence[int]) -> Any:  # noqa: N803
    return F.reshape(F.concat(*[F._full(shape=(1,), value=float(value)) for value in values], dim=0), shape=shape)


def _like(F: Any, values: Any, image: Any, rounding: float = 0.0) -> Any:  # noqa: N803
    """The values in the image's type; for bytes with `rounding` added, cut off and limited."""
    half = F.Cast(
        F._cast_like(F._full(shape=(1,), value=0.5), F.BlockGrad(image)), dtype="float32"
    )  # 0 in a type of whole numbers.
    is_float = F.broadcast_like(half, F.reshape(F.BlockGrad(values), shape=(-1,)))
    chosen = F.where(F.reshape_like(is_float, values), values, F.clip(values + rounding, a_min=0, a_max=255))
    return F._cast_like(chosen, image)
