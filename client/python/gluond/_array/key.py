"""The meaning of an index: `parse(key, shape)` gives Basic or Advanced. Of NDArray this module knows the type only."""

from __future__ import annotations

import warnings
from math import prod
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from .calls import Array


class Basic:
    """Integers and slices: for each dimension of the array a slice, and the result's shape.

    taken: the shape before integers lose their dimension and None makes one.
    """

    def __init__(self, slices: Sequence[slice], shape: Tuple[int, ...]) -> None:
        self.slices = list(slices)
        self.shape = shape
        self.taken = tuple(len(range(one.start, one.stop, one.step)) for one in self.slices)

    def bounds(self) -> Tuple[tuple, tuple, tuple]:
        """begin, end, step for the operator slice. Going down to the first element, the end is None."""
        return (
            tuple(one.start for one in self.slices),
            tuple(None if one.stop < 0 else one.stop for one in self.slices),
            tuple(one.step for one in self.slices),
        )

    def everything(self, shape: Tuple[int, ...]) -> bool:
        """Whether all elements are chosen, in order."""
        return self.taken == shape and all(one.step == 1 for one in self.slices)

    def contiguous(self, shape: Tuple[int, ...]) -> Optional[int]:
        """Where the chosen elements begin, if they lie one behind the other."""
        if prod(self.taken) == 0:
            return None
        begin, row, inside = 0, 1, True
        for one, taken, size in reversed(list(zip(self.slices, self.taken, shape))):
            if taken > 1 and (one.step != 1 or not inside):
                return None
            inside = inside and taken == size
            begin += one.start * row
            row *= size
        return begin


class Advanced:
    """Arrays of indices for `axes` of the array in its `expanded` shape, slices for the `rest`."""

    def __init__(
        self, expanded: Tuple[int, ...], axes: List[int], arrays: List[Any], rest: List[slice], key: tuple, together: bool
    ) -> None:
        self.expanded = expanded
        self.axes = axes
        self.arrays = arrays
        self.rest = rest
        self.key = key
        try:
            self.index_shape = np.broadcast_shapes(*(tuple(one.shape) for one in arrays))
        except ValueError:
            raise IndexError(
                "shape mismatch: indexing arrays could not be broadcast together with shapes "
                + " ".join(str(tuple(one.shape)) for one in arrays)
            ) from None
        # numpy puts the indexed dimensions where they were, if they are neighbours in the key, else in front.
        self.place = axes[0] if together else 0
        kept = tuple(len(range(one.start, one.stop, one.step)) for one in rest)
        self.shape = kept[: self.place] + self.index_shape + kept[self.place :] or (1,)

    def order(self) -> List[int]:
        """The order that brings the indexed dimensions of the array to the front."""
        return self.axes + [axis for axis in range(len(self.expanded)) if axis not in self.axes]

    def back(self) -> List[int]:
        """The order that brings the indexed dimensions from the front to their place."""
        lead = len(self.index_shape)
        kept = list(range(lead, lead + len(self.rest)))
        return kept[: self.place] + list(range(lead)) + kept[self.place :]

    def positions(self) -> np.ndarray:
        """Row-major positions of the chosen elements, in the result's shape; all index arrays are numpy's."""
        strides = [prod(self.expanded[axis + 1 :]) for axis in range(len(self.expanded))]
        chosen = np.zeros(self.index_shape, np.int64)
        for axis, array in zip(self.axes, self.arrays):
            chosen = chosen + array * strides[axis]
        for axis, one in zip(self.order()[len(self.axes) :], self.rest):
            chosen = np.add.outer(chosen, np.arange(one.start, one.stop, one.step, dtype=np.int64) * strides[axis])
        return chosen.transpose(self.back()).reshape(self.shape)

    def parts(self) -> List[Basic]:
        """What each element of the index arrays chooses, in their order; these are numpy's, and no dimension is new."""
        kept = tuple(len(range(one.start, one.stop, one.step)) for one in self.rest) or (1,)
        parts = []
        for places in zip(*(array.ravel().tolist() for array in np.broadcast_arrays(*self.arrays))):
            chosen = {axis: slice(place, place + 1, 1) for axis, place in zip(self.axes, places)}
            rest = iter(self.rest)
            parts.append(Basic([chosen[axis] if axis in chosen else next(rest) for axis in range(len(self.expanded))], kept))
        return parts

    def fetched(self) -> tuple:
        """The key with the server's arrays as numpy's."""
        return tuple(one.asnumpy() if isinstance(one, Array) else one for one in self.key)


def parse(key: Any, shape: Tuple[int, ...]) -> Union[Basic, Advanced]:
    """IndexError, ValueError: the key does not fit an array of this shape."""
    given = _masks(key if isinstance(key, tuple) else (key,))
    for item in given:
        if isinstance(item, (np.ndarray, Array)) and not _warned:
            _warn_of_mask(item, shape)
    items = _expand(given, shape)
    out: List[int] = []
    expanded: List[int] = []
    slices: List[slice] = []
    axes: List[int] = []
    arrays: List[Any] = []
    rest: List[slice] = []
    advanced = any(_is_array(one) for one in items)
    dimension = 0
    for item in items:
        if item is None:
            out.append(1)
            expanded.append(1)
            rest.append(slice(0, 1, 1))
            continue
        size = shape[dimension]
        dimension += 1
        expanded.append(size)
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            count = len(range(start, stop, step))
            one = slice(start, start + step * count, step) if count else slice(0, 0, 1)
            slices.append(one)
            rest.append(one)
            out.append(count)
        elif _is_array(item):
            axes.append(len(expanded) - 1)
            arrays.append(_checked(item, size, dimension - 1))
        else:
            place = _place(item, size, dimension - 1)
            slices.append(slice(place, place + 1, 1))
            if advanced:
                axes.append(len(expanded) - 1)
                arrays.append(np.asarray(place))
    if advanced:
        places = [place for place, item in enumerate(given) if not (item is None or item is Ellipsis or isinstance(item, slice))]
        return Advanced(tuple(expanded), axes, arrays, rest, items, places[-1] - places[0] < len(places))
    return Basic(slices, tuple(out) or (1,))


_warned: List[str] = []  # At most one warning is given, and so many arrays of the server are looked at.
_looks = 16


def _warn_of_mask(item: Any, shape: Tuple[int, ...]) -> None:
    """Says that the result of a comparison, whose numbers are 0 and 1, is no mask."""
    global _looks
    if np.dtype(item.dtype).kind != "f" or tuple(item.shape) != shape[: len(item.shape)] or prod(item.shape) < 3:
        return
    if isinstance(item, Array):
        _looks -= 1
        if _looks < 0:
            return
        item = item.asnumpy()
    if np.isin(item, (0, 1)).all():
        _warned.append("mask")
        warnings.warn(
            f"an index of {item.dtype} chooses rows by their numbers, as in MXNet: here rows 0 and 1, for the result of "
            "a comparison has the numbers 0 and 1. To choose elements: x[mask.astype('bool')], "
            "mx.nd.contrib.boolean_mask(x, mask), or mx.nd.where(mask, a, b), which has gradients",
            stacklevel=4,
        )


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, Array))


def _masks(key: tuple) -> tuple:
    """Lists as arrays, and boolean arrays as the indices that they choose."""
    items: List[Any] = []
    for item in key:
        if isinstance(item, (list, tuple, range)):
            item = np.asarray(item)
            if item.size == 0:
                item = item.astype(np.int64)
        if isinstance(item, Array) and item.dtype == np.bool_:
            item = item.asnumpy()
        if isinstance(item, np.ndarray) and item.dtype == np.bool_ and item.ndim:
            items.extend(np.nonzero(item))
        elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
            items.append(int(item))
        else:
            items.append(item)
    return tuple(items)


def _expand(items: tuple, shape: Tuple[int, ...]) -> tuple:
    """The items with slices for all dimensions left, in the place of the Ellipsis or at the end."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise IndexError(f"too many indices ({used}) for array with {len(shape)} dimensions")
    fill = (slice(None),) * (len(shape) - used)
    where = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(where) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not where:
        return items + fill
    return items[: where[0]] + fill + items[where[0] + 1 :]


def _place(item: Any, size: int, axis: int) -> int:
    if isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)):
        raise ValueError(f"NDArray does not support slicing with key {item} of type {type(item)}.")
    if not -size <= item < size:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {size}")
    return int(item) % size


def _checked(item: Any, size: int, axis: int) -> Any:
    """Checks index arrays of this program, and counts negative ones from the end. The server clips index arrays of its
    own."""
    if not isinstance(item, np.ndarray):
        return item
    if item.dtype.kind == "f" and np.array_equal(item, np.floor(item)):
        item = item.astype(np.int64)
    if item.dtype.kind not in "iu":
        raise ValueError(f"NDArray does not support slicing with an array of dtype {item.dtype}.")
    if item.size and not (-size <= item.min() and item.max() < size):
        bad = item.max() if item.max() >= size else item.min()
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return np.where(item < 0, item + size, item)
