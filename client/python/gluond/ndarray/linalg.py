"""Linear algebra: `nd.linalg.gemm2(a, b)`."""

from __future__ import annotations

import math
from typing import Tuple

import numpy as np

from .._array.array import NDArray
from .._array.create import array
from .._array.functions_of_operators import make_function
from .._documentation import fill_module
from . import _internal as _F


def extracttrian(A: NDArray, offset: int = 0, lower: bool = True) -> NDArray:  # noqa: N803
    """The elements of the lower triangles of matrices, row by row, or of the upper, column by column. offset: of the diagonal that
    bounds it, whose sign decides which triangle it is, where it is not 0."""
    rows, columns = _triangle(A.shape[-1], offset, lower)
    places = array(rows * A.shape[-1] + columns, A.context, "int64")
    return _F.take(A.reshape((*A.shape[:-2], -1)), places, axis=A.ndim - 2)


def maketrian(A: NDArray, offset: int = 0, lower: bool = True) -> NDArray:  # noqa: N803
    """The matrices whose triangles extracttrian gives: 0 elsewhere."""
    count = A.shape[-1]
    size = abs(offset) + round((math.sqrt(8 * count + 1) - 1) / 2)
    places = np.full((size, size), count)
    places[_triangle(size, offset, lower)] = np.arange(count)
    padded = _F.concat(A, _F.zeros_like(_F.slice_axis(A, axis=-1, begin=0, end=1)), dim=A.ndim - 1)
    return _F.take(padded, array(places, A.context, "int64"), axis=A.ndim - 1)


def _triangle(size: int, offset: int, lower: bool) -> Tuple[np.ndarray, np.ndarray]:
    """The rows and columns of a triangle's elements: of a lower one row by row, of an upper one column by column."""
    if offset < 0 or offset == 0 and lower:
        return np.tril_indices(size, offset)
    columns, rows = np.tril_indices(size, -offset)
    return rows, columns


__getattr__, __dir__ = fill_module(globals(), make_function, ("_linalg_", "linalg_"))
