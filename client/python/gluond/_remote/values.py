"""Values between this program and calls: numpy arrays, NDArrays and lists as Tensors, and back."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Union

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from .._proto import tensor_pb2
from .._wire.tensors import DTYPE_OF, flag_of, to_numpy
from ..base import MXNetError

# Data as programs give them: one array, several in the order of the model's inputs, or arrays by the inputs' names.
Arrays = Union[Any, Sequence[Any], Mapping[str, Any]]


def as_numpy(value: Any) -> np.ndarray:
    """An array's values in their own dtype; a list's as float32, as `mx.nd.array` takes them."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"want an NDArray, a numpy array or a list of numbers, got a {type(value).__name__} " f"({error})"
        ) from None


def tensor(values: np.ndarray) -> Any:
    """A Tensor of these values."""
    return tensor_pb2.Tensor(shape=values.shape, dtype=flag_of(values.dtype), raw=np.ascontiguousarray(values).tobytes())


def converted(value: Any, dtype: int, name: str) -> np.ndarray:
    """The values in the dtype of that number. MXNetError: an integer dtype that cannot hold them."""
    values, wanted = as_numpy(value), DTYPE_OF[dtype]
    if values.dtype == wanted:
        return values
    if wanted.names is not None:  # numpy has no bfloat16: its bits are the upper half of a float32's, rounded to even.
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(wanted)
    found = values.astype(wanted)
    if wanted.kind in "iub" and not np.array_equal(found, values):
        raise MXNetError(
            f"input '{name}': the values are of dtype {values.dtype}, and the model wants {wanted}, which cannot " "hold them"
        )
    return found


def as_given(values: np.ndarray, like: Any) -> Any:
    """The values as an NDArray where `like` is one, in its context; else as they are."""
    return ndarray.array(values, ctx=like.context, dtype=values.dtype) if isinstance(like, NDArray) else values


def by_name(tensors: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """The values of Tensors with raw values."""
    return {name: to_numpy(each) for name, each in tensors.items()}


def assign(data: Arrays, names: Sequence[str], what: str) -> Dict[str, Any]:
    """The arrays by name. TypeError: others than there are. what: "model 'digits'", for the error."""
    if isinstance(data, Mapping):
        given = dict(data)
        if set(given) != set(names):
            raise TypeError(f"{what} takes {_listed(names)}, got {_listed(given)}")
        return given
    several: List[Any] = list(data) if isinstance(data, (list, tuple)) and len(names) > 1 else [data]
    if len(several) != len(names):
        raise TypeError(f"{what} takes {_listed(names)}, got {len(several)} array(s)")
    return dict(zip(names, several))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def first(data: Arrays) -> Any:
    """The first array of the data, which decides the form of the results."""
    if isinstance(data, Mapping):
        return next(iter(data.values()), None)
    is_several = isinstance(data, (list, tuple)) and len(data) > 0 and isinstance(data[0], (NDArray, np.ndarray))
    return data[0] if is_several else data


def rows(arrays: Mapping[str, np.ndarray]) -> int:
    """The first dimension that all arrays have. ValueError: they differ, or one has none."""
    counts = {name: values.shape[0] if values.ndim else None for name, values in arrays.items()}
    if None in counts.values() or len(set(counts.values())) != 1:
        shapes = ", ".join(f"'{name}' {values.shape}" for name, values in arrays.items())
        raise ValueError(f"arrays of one batch have as many rows each; got {shapes}")
    return next(iter(counts.values()))  # type: ignore[return-value]
