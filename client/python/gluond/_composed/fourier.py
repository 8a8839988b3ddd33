"""Discrete Fourier transforms of the last axis, by a product with a matrix. Complex numbers are two neighbours: real, imaginary."""

from __future__ import annotations

import math
from typing import Any

from .sampling import size_of


def fft(F: Any, data: Any, compute_size: int = 128) -> Any:  # noqa: N803
    """(..., d) real -> (..., 2 d). `compute_size` makes no difference."""
    return F.dot(data, _matrix(F, F.reshape(_first_row(F, data), shape=(-1, 1)), data))


def ifft(F: Any, data: Any, compute_size: int = 128) -> Any:  # noqa: N803
    """(..., 2 d) -> the real parts, (..., d), times d, as cuFFT has them. `compute_size` makes no difference."""
    return F.dot(data, _matrix(F, F.reshape(_first_row(F, data), shape=(-1, 2)), data), transpose_b=True)


def _first_row(F: Any, data: Any) -> Any:  # noqa: N803
    return F.slice_axis(F.reshape(F.BlockGrad(data), shape=(-1, 0), reverse=True), axis=0, begin=0, end=1)


def _matrix(F: Any, numbers: Any, data: Any) -> Any:  # noqa: N803
    """(d, 2 d): cosines and negative sines of the d-th parts of the circle; numbers: (d, any)."""
    places, d = F._contrib_arange_like(numbers, axis=0), size_of(F, numbers, 0)
    products = F.broadcast_mul(F.reshape(places, shape=(-1, 1)), F.reshape(places, shape=(1, -1)))
    parts = F.broadcast_sub(products, F.broadcast_mul(F.floor(F.broadcast_div(products, d)), d))  # Less than a whole circle.
    angles = F.broadcast_div(F.Cast(parts, dtype="float64"), F.Cast(d, dtype="float64")) * (2 * math.pi)
    return F._cast_like(F.reshape(F.stack(F.cos(angles), -F.sin(angles), axis=2), shape=(0, -1)), data)
