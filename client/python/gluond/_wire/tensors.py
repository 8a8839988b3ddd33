"""Tensors of the wire as numpy arrays, and the dtypes' numbers (MXNet's type flags)."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ..base import MXNetError

FLAG_OF: Dict[np.dtype, int] = {
    np.dtype(name): flag
    for name, flag in (
        ("float32", 0),
        ("float64", 1),
        ("float16", 2),
        ("uint8", 3),
        ("int32", 4),
        ("int8", 5),
        ("int64", 6),
        ("bool", 7),
    )
}
DTYPE_OF: Dict[int, np.dtype] = {flag: dtype for dtype, flag in FLAG_OF.items()}
BFLOAT16 = 12
# numpy has no bfloat16; its bits travel as these.
BFLOAT16_BITS = np.dtype([("bfloat16", np.uint16)])
_F32 = np.dtype(np.float32)
DTYPE_OF[BFLOAT16] = BFLOAT16_BITS
FLAG_OF[BFLOAT16_BITS] = BFLOAT16


def flag_of(dtype: Any) -> int:
    """The number of a dtype; MXNetError where the server has no such type."""
    dtype = np.dtype(dtype)
    flag = FLAG_OF.get(dtype)
    if flag is None:
        raise MXNetError(f"dtype {dtype} is none of the server's: {', '.join(str(known) for known in FLAG_OF)}")
    return flag


def to_numpy(tensor: Any) -> np.ndarray:
    """A Tensor with raw values, as an array of its own that may be written. bfloat16 comes as float32."""
    values = np.frombuffer(tensor.raw, DTYPE_OF[tensor.dtype]).reshape(tuple(tensor.shape))
    return readable(values) if tensor.dtype == BFLOAT16 else values.copy()


def readable(values: np.ndarray) -> np.ndarray:
    """The values; those of bfloat16, which numpy does not have, as float32."""
    if values.dtype != BFLOAT16_BITS:
        return values
    return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def in_numpy(dtype: np.dtype) -> np.dtype:
    """The dtype that values have here."""
    return _F32 if dtype is BFLOAT16_BITS or dtype == BFLOAT16_BITS else dtype


def to_bits(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The elements as the server keeps them: contiguous, in `dtype`. bfloat16 is rounded to the nearest even."""
    if in_numpy(dtype) is dtype:
        return np.ascontiguousarray(values, dtype)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).view(BFLOAT16_BITS)
