"""The names and shapes of a module's inputs, checked against its symbol and against each other."""
from __future__ import annotations

import warnings
from typing import Any, List, Optional, Sequence, Tuple

from .. import ndarray as nd
from .. import symbol as sym
from .._array.array import NDArray
from ..io._batches import DataDesc

Shapes = Sequence[Any]  # DataDescs, or tuples (name, shape), (name, shape, dtype).


def check_names(symbol: "sym.Symbol", names: Sequence[str], kind: str, needed: bool = True) -> List[str]:
    """The names as a list. ValueError, or a warning if they are not `needed`: the symbol lacks one."""
    arguments = symbol.list_arguments()
    for name in names:
        if name not in arguments:
            inputs = [each for each in arguments if not each.endswith(("_weight", "_bias", "_gamma", "_beta"))]
            _tell(
                f"You created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not found "
                f"in symbol.list_arguments(). Did you mean one of: {', '.join(inputs) or 'none'}",
                needed,
            )
    return list(names)


def described(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Shapes, label_shapes: Optional[Shapes]
) -> Tuple[List[DataDesc], Optional[List[DataDesc]]]:
    """DataDescs of the data and of the labels. ValueError: the data have other names than the module's; labels may."""
    data = descriptions(data_shapes)
    labels = None if label_shapes is None else descriptions(label_shapes)
    _check_same(data_names, data, "data", needed=True)
    _check_same(label_names, labels or [], "label", needed=False)
    return data, labels


def of_arrays(old: Sequence[DataDesc], arrays: Sequence[Any]) -> List[DataDesc]:
    """The descriptions with the shapes of other arrays."""
    return [DataDesc(desc.name, array.shape, desc.dtype, desc.layout) for desc, array in zip(old, arrays)]


def of_batch_size(old: Sequence[DataDesc], size: int) -> List[DataDesc]:
    """The descriptions for another number of samples."""
    changed = []
    for desc in old:
        axis = DataDesc.get_batch_axis(desc.layout)
        shape = desc.shape if axis < 0 else tuple(desc.shape[:axis]) + (size,) + tuple(desc.shape[axis + 1 :])
        changed.append(DataDesc(desc.name, shape, desc.dtype, desc.layout))
    return changed


def batch_size(data: Sequence[DataDesc]) -> int:
    """The number of samples of a batch."""
    return data[0].shape[max(0, DataDesc.get_batch_axis(data[0].layout))]


def parts(array: NDArray, axis: int, devices: int) -> List[NDArray]:
    """The array as `devices` devices would have it: in parts along the axis, the last one with the rest; whole for all if axis < 0.

    ValueError: there are fewer samples than devices.
    """
    if devices == 1 or axis < 0:
        return [array] * devices
    size = array.shape[axis]
    bounds = [min(number * round(size / devices), size) for number in range(devices)] + [size]
    if any(begin >= end for begin, end in zip(bounds, bounds[1:])):
        raise ValueError("Too many slices. Some splits are empty.")
    return [nd.slice_axis(array, axis=axis, begin=begin, end=end) for begin, end in zip(bounds, bounds[1:])]


def descriptions(shapes: Shapes) -> List[DataDesc]:
    """DataDescs. TypeError: a shape is none."""
    for name, shape, *_ in shapes:
        if not isinstance(shape, (tuple, list)):
            raise TypeError(f"The shape of '{name}' is a tuple of sizes, not {type(shape).__name__}")
    return [each if isinstance(each, DataDesc) else DataDesc(each[0], tuple(each[1]), *each[2:]) for each in shapes]


def _check_same(names: Sequence[str], found: Sequence[DataDesc], kind: str, needed: bool) -> None:
    if sorted(names) != sorted(desc.name for desc in found):
        _tell(f"Data provided by {kind}_shapes don't match names specified by {kind}_names ({found} vs. {list(names)})", needed)


def _tell(message: str, is_error: bool) -> None:
    if is_error:
        raise ValueError(message)
    warnings.warn(message, stacklevel=5)
