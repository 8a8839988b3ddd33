"""Attributes of nodes: text, as in MXNet's files. Keys in double underscores are hidden from operators.

Some hidden keys have a short form (`lr_mult` for `__lr_mult__`), which is understood and shown as well.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._attributes import dtype_name

# Hidden keys that have a short form.
SHORT = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")

# The numbers that stand for dtypes in `__dtype__`.
DTYPE_FLAGS = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "uint8": 3,
    "int32": 4,
    "int8": 5,
    "int64": 6,
    "bool": 7,
    "int16": 8,
    "uint16": 9,
    "uint32": 10,
    "uint64": 11,
    "bfloat16": 12,
}
FLAG_DTYPES = {flag: name for name, flag in DTYPE_FLAGS.items()}


def long_form(key: str) -> str:
    """The key under which an attribute is kept."""
    return f"__{key}__" if key in SHORT else key


def normalized(attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes under the keys that they are kept under."""
    return {long_form(key): value for key, value in attrs.items()}


def shown(attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes as users see them: short forms beside the long ones."""
    result = dict(attrs)
    for key in SHORT:
        if f"__{key}__" in attrs:
            result[key] = attrs[f"__{key}__"]
    return result


def dtype_of(dtype: Any) -> str:
    """`float32`, for anything that names a dtype: np.float32, "float32". TypeError: nothing that the server has."""
    name = dtype_name(dtype)
    if name not in DTYPE_FLAGS:
        raise TypeError(f"data type {dtype!r} is none of: {', '.join(DTYPE_FLAGS)}")
    return name
