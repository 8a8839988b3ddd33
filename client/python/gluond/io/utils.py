"""Named arrays, as `mx.io.utils` makes them: what libraries' own iterators import of it."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import WrongValue

Named = List[Tuple[str, NDArray]]


def _init_data(data: Any, allow_empty: bool, default_name: str) -> Named:
    """Pairs (name, NDArray), in the order of the names, of an array, a list of arrays or a dict by name."""
    if isinstance(data, (np.ndarray, NDArray)):
        data = [data]
    if data is None and allow_empty:
        data = {}
    if isinstance(data, list):
        data = {default_name if len(data) == 1 else f"_{i}_{default_name}": array for i, array in enumerate(data)}
    if data is None or data == {} and not allow_empty:
        raise WrongValue(f"NDArrayIter: there are no arrays of {default_name}.")
    if not isinstance(data, dict):
        raise TypeError("Input must be NDArray, numpy.ndarray, a list of them or dict with them as values")
    found: Dict[str, NDArray] = {}
    for key, array in data.items():
        try:
            found[key] = array if isinstance(array, NDArray) else ndarray.array(array)
        except (TypeError, ValueError) as error:
            raise TypeError(f"Invalid type '{type(array)}' for {key}, should be NDArray or numpy.ndarray") from error
    return sorted(found.items())


def _has_instance(data: Named, dtype: Any) -> bool:
    """Whether one of the arrays is of a class."""
    return any(isinstance(array, dtype) for _, array in data)


def _getdata_by_idx(data: Named, idx: Sequence[int]) -> Named:
    """The rows of these numbers, of each array."""
    return [(name, ndarray.array(array.asnumpy()[idx], array.context)) for name, array in data]
