"""Operators that MXNet keeps apart: `nd.contrib.box_iou(a, b)`."""

from __future__ import annotations

import math as _math
from typing import Any, Optional, Tuple

from .. import _composed
from .._array import calls as _calls
from .._array.array import NDArray
from .._array.control_flow import cond, foreach, while_loop
from .._array.create import array
from .._array.functions_of_operators import make_function
from .._documentation import fill_module
from ..context import Context
from . import _internal as _F
from ._adamw import adamw_update, mp_adamw_update, multi_adamw_update, multi_mp_adamw_update
from .random import uniform as _uniform

_INF = float("inf")


def isinf(data: NDArray) -> NDArray:
    """Ones where an element is infinite, zeros elsewhere."""
    return data.abs() == _INF


def isfinite(data: NDArray) -> NDArray:
    """Ones where an element is neither infinite nor NaN."""
    return (data == data) * (data.abs() != _INF)


def isnan(data: NDArray) -> NDArray:
    """Ones where an element is NaN."""
    return data != data


def boolean_mask(data: NDArray, index: NDArray, axis: int = 0) -> NDArray:
    """The slices of `data` along `axis` where `index` is not 0. Waits for `index`: it tells the result's shape."""
    chosen = array(index.asnumpy().ravel().nonzero()[0], index.context, "int64")
    return _calls.invoke(_calls.intern("take", {"axis": str(axis)}, 2, 1), (data, chosen))


def allclose(a: NDArray, b: NDArray, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = True) -> NDArray:
    """1, in shape (1,), where |a - b| <= atol + rtol |b| holds for all elements, else 0."""
    return _composed.allclose(_F, a, b, rtol, atol, equal_nan)


def interleaved_matmul_encdec_qk(queries: NDArray, keys_values: NDArray, heads: int) -> NDArray:
    """The scores of attention, (batch heads, query length, key length), of queries (length, batch, heads dim) and of keys and
    values (length, batch, heads 2 dim) side by side."""
    return _composed.interleaved_matmul_encdec_qk(_F, queries, keys_values, heads)


def interleaved_matmul_encdec_valatt(keys_values: NDArray, attention: NDArray, heads: int) -> NDArray:
    """The values, weighted by attention: (query length, batch, heads dim)."""
    return _composed.interleaved_matmul_encdec_valatt(_F, keys_values, attention, heads)


def SyncBatchNorm(*tensors: NDArray, **attributes: Any) -> NDArray:  # noqa: N802
    """BatchNorm. A batch that is split over devices is normalized on each by itself; `ndev` must be 1."""
    return _composed.sync_batch_norm(_F, *tensors, **attributes)


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int,
                 ctx: Optional[Context] = None) -> Tuple[NDArray, NDArray, NDArray]:
    """(sampled classes (num_sampled,) int64, expected counts of `true_classes`, expected counts of the sampled, float64).

    Class k of 0 to `range_max` - 1 is drawn with the probability log((k + 2) / (k + 1)) / log(range_max + 1).
    """
    context = ctx or true_classes.context
    drawn = _uniform(0, _math.log(range_max + 1), shape=(num_sampled,), dtype="float64", ctx=context)
    sampled = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: NDArray) -> NDArray:
        classes = classes.as_in_context(context).astype("float64")
        return ((classes + 2) / (classes + 1)).log() * (num_sampled / _math.log(range_max + 1))

    return sampled, expected(true_classes), expected(sampled)


__getattr__, __dir__ = fill_module(globals(), make_function, ("_contrib_",))
