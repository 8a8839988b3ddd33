"""Another name: MXNet keeps the class NDArray and the functions that make arrays here."""

from __future__ import annotations

from builtins import slice as py_slice  # noqa: F401  # MXNet's file has the function `slice` beside it.

from .._array.arithmetic import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from .._array.array import NDArray
from .._array.create import arange, array, empty, eye, from_numpy, full, linspace, ones, zeros
from .._array.functions import concatenate, histogram, moveaxis, onehot_encode, split_v2, waitall
from ._type_flags import (
    _DTYPE_MX_TO_NP,
    _DTYPE_NP_TO_MX,
    _GRAD_REQ_MAP,
    _STORAGE_TYPE_ID_TO_STR,  # noqa: F401
    _STORAGE_TYPE_STR_TO_ID,
)
