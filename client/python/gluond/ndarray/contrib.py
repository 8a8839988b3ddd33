"""Operators that MXNet keeps apart: `nd.contrib.box_iou(a, b)`."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as _np

from .._array import calls as _calls
from .._array.array import NDArray
from .._array.control_flow import cond, foreach, while_loop
from .._array.create import array
from .._array.functions_of_operators import make_function
from .._composed import candidates as _candidates
from .._documentation import fill_module
from ..context import Context
from . import _internal as _F
from ._adamw import adamw_update, mp_adamw_update, multi_adamw_update, multi_mp_adamw_update
from ._lamb import multi_lamb_update, multi_mp_lamb_update

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


def bipartite_matching(data: NDArray, is_ascend: bool = False, threshold: float = 0, topk: int = -1) -> Tuple[NDArray, NDArray]:
    """(column of each row, row of each column), -1 for none: pairs are made from the highest score of `data` (..., rows, columns) on,
    or the lowest, as long as scores are beyond the threshold, for the first `topk` + 1 of them (MXNet counts so) where it is above 0.
    Waits for the scores."""
    scores = data.asnumpy()
    rows, columns = _np.full(scores.shape[:-1], -1.0), _np.full(scores.shape[:-2] + scores.shape[-1:], -1.0)
    for place in _np.ndindex(scores.shape[:-2]):
        flat, pairs = scores[place].ravel(), 0
        for number in _np.argsort(flat if is_ascend else -flat, kind="stable"):
            row, column = divmod(int(number), scores.shape[-1])
            if rows[place][row] >= 0 or columns[place][column] >= 0:
                continue
            if not (flat[number] < threshold if is_ascend else flat[number] > threshold):
                break
            rows[place][row], columns[place][column] = column, row
            pairs += 1
            if 0 < topk < pairs:
                break
    return array(rows, data.context, data.dtype), array(columns, data.context, data.dtype)


def index_array(data: NDArray, axes: Optional[Tuple[int, ...]] = None) -> NDArray:
    """The place of each element, or its numbers along `axes`, int64: (*shape, number of axes)."""
    places = _np.stack(_np.indices(data.shape), axis=-1) if data.ndim else _np.zeros((0,))
    return array(places if axes is None else places[..., list(axes)], data.context, "int64")


def index_copy(old_tensor: NDArray, index_vector: NDArray, new_tensor: NDArray) -> NDArray:
    """`old_tensor` with the rows of `new_tensor` in the places that `index_vector` names."""
    places = index_vector.reshape((1, -1))
    is_new = _F.scatter_nd(_F.ones_like(index_vector), places, shape=(old_tensor.shape[0],))
    return _F.where(is_new, _F.scatter_nd(new_tensor, places, shape=old_tensor.shape), old_tensor)


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Optional[Context] = None
) -> Tuple[NDArray, NDArray, NDArray]:
    """(sampled classes (num_sampled,) int64, expected counts of `true_classes`, expected counts of the sampled, float64).

    Class k of 0 to `range_max` - 1 is drawn with the probability log((k + 2) / (k + 1)) / log(range_max + 1).
    """
    with ctx or true_classes.context as context:
        return _candidates.rand_zipfian(_F, true_classes.as_in_context(context), num_sampled, range_max)


__getattr__, __dir__ = fill_module(globals(), make_function, ("_contrib_",))
