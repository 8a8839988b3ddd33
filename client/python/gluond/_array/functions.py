"""Functions of NDArrays that are no operators of the server."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from .._wire import connect
from . import calls
from .array import NDArray
from .create import from_numpy


def waitall() -> None:
    """Waits until the server has done everything that this process has asked for; raises errors of earlier calls."""
    connect.current().wait_all()


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """The arrays one behind the other along `axis`."""
    arrays = list(arrays)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    attributes = {"num_args": str(len(arrays)), "dim": str(axis)}
    return calls.invoke(calls.intern("Concat", attributes, len(arrays), 1), arrays)


def split_v2(ary: NDArray, indices_or_sections: Union[int, Sequence[int]], axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Parts of an array along `axis`: so many equal ones, or cut at these positions.

    squeeze_axis: without the dimension, where the parts have size 1 there.
    """
    return ary.split_v2(indices_or_sections, axis, squeeze_axis)


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Dimensions `source` at the places `destination`; the others keep their order."""
    ndim = tensor.ndim
    try:
        source = _axes(source, ndim)
        destination = _axes(destination, ndim)
    except IndexError as error:
        raise ValueError(str(error)) from None
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    if len({*source}) < len(source) or len({*destination}) < len(destination):
        raise ValueError(f"moveaxis: {source} to {destination}: an axis stands there twice")
    order = [axis for axis in range(ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source)):
        order.insert(place, axis)
    return tensor.transpose(order)


def _axes(axes: Any, ndim: int) -> Tuple[int, ...]:
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise IndexError(f"axis {axis} is out of bounds for an array of {ndim} dimensions")
    return tuple(axis % ndim for axis in axes)


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Row i of `out` becomes zeros, with a one at indices[i]."""
    call = calls.intern("one_hot", {"depth": str(out.shape[1]), "dtype": np.dtype(out.dtype).name}, 1, 1)
    return calls.invoke(call, (indices,), out)


def histogram(a: NDArray, bins: Union[int, NDArray] = 10, range: Optional[Tuple[float, float]] = None) -> list:
    """Counts of the elements in each bin, and the bins' edges; computed by numpy, here."""
    counts, edges = np.histogram(a.asnumpy(), bins.asnumpy() if isinstance(bins, NDArray) else bins, range)
    return [from_numpy(counts.astype(np.int64)), from_numpy(edges.astype(np.dtype(a.dtype)))]


def reset_arrays(*arrays: NDArray, num_arrays: Optional[int] = None) -> None:
    """Fills the arrays with zeros."""
    for each in arrays:
        each[:] = 0
