"""x[key] and x[key] = value, with numpy's meaning of the key.

Integers, slices, None and Ellipsis are *basic*: where the chosen elements lie one behind the other, the result is a view,
else a copy by the operator `slice`. Lists, arrays and masks are *advanced*: gather_nd collects the elements, and
_scatter_set_nd writes them. An integer leaves no dimension behind, but for the last one: there are no scalars in MXNet.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence, Tuple, Union

import numpy as np

from .._attributes import text
from .._wire.frame import frame
from . import calls, transfer
from .calls import Array
from .key import Advanced, Basic, parse
from .reshape import reshape


# The server copies as many bytes in the time that a part of an array takes to be written by a command of its own.
_BYTES_PER_PART = 64 << 10


class Indexing:
    """NDArray is one."""

    __slots__ = ()

    def __getitem__(self: Any, key: Any) -> Any:
        if self._where.here is not None:
            found = self._where.get(self, key)
            if found is not None:
                return found
        shape = self.shape
        if type(key) is int and shape and -shape[0] <= key < shape[0]:  # Every loop over rows comes here.
            row = prod(shape[1:])
            if row:
                return self._view(key % shape[0] * row, shape[1:] or (1,))
        parsed = parse(key, self.shape)
        if isinstance(parsed, Basic):
            return _get_basic(self, parsed)
        return _get_advanced(self, parsed)

    def __setitem__(self: Any, key: Any, value: Any) -> None:
        calls.check_writable(self, "write to")
        if self._where.set(self, key, value):
            return
        parsed = parse(key, self.shape)
        if frame().recording:
            calls.check_not_in_graph(
                (self,),
                (value,) if isinstance(value, Array) and not (isinstance(parsed, Basic) and parsed.everything(self.shape)) else (),
            )
        if isinstance(parsed, Basic):
            _set_basic(self, parsed, value)
        else:
            _set_advanced(self, parsed, value)

    def __iter__(self: Any) -> Any:
        return (self[place] for place in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).sum().asscalar() > 0)

    def slice_assign(self, rhs: Any, begin: Any, end: Any, step: Any = None) -> Any:
        """Writes rhs to the elements of a slice."""
        return calls.invoke(_slice_call("_slice_assign", begin, end, step, 2), (self, rhs), self)

    def slice_assign_scalar(self, value: float, begin: Any, end: Any, step: Any = None) -> Any:
        """Writes a number to the elements of a slice."""
        return calls.invoke(_slice_call("_slice_assign_scalar", begin, end, step, 1, scalar=value), (self,), self)

    def split_v2(self: Any, indices_or_sections: Union[int, Sequence[int]], axis: int = 0, squeeze_axis: bool = False) -> Any:
        """See nd.split_v2."""
        size = self.shape[axis]
        if isinstance(indices_or_sections, int):
            if size % indices_or_sections:
                raise ValueError("array split does not result in an equal division")
            count = indices_or_sections
            attributes = {"sections": str(count), "indices": "()"}
        elif isinstance(indices_or_sections, tuple):
            count = len(indices_or_sections) + 1
            attributes = {"indices": text((0,) + indices_or_sections)}
        else:
            raise ValueError("indices_or_sections must either int, or tuple / list of ints")
        attributes.update({"axis": str(axis), "squeeze_axis": str(squeeze_axis)})
        return calls.invoke(calls.intern("_split_v2", attributes, 1, count), (self,))

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Any, shape: Tuple[int, ...]) -> bool:
        """Whether the elements that slices choose lie one behind the other, so that x[slc_key] is a view."""
        key = parse(slc_key, shape)
        return prod(key.shape) == 0 or isinstance(key, Basic) and key.contiguous(shape) is not None

    def _reshape(self, *shape: Any, **kwargs: Any) -> Any:
        return reshape(self, *shape, **kwargs)


def _slice_call(op: str, begin: Any, end: Any, step: Any, inputs: int, **more: Any) -> Any:
    attributes = {"begin": text(tuple(begin)), "end": text(tuple(end)), "step": text(tuple(step or ()))}
    attributes.update((name, text(float(value))) for name, value in more.items())
    return calls.intern(op, attributes, inputs, 1)


def _get_basic(x: Any, key: Basic) -> Any:
    if prod(key.taken) == 0:
        return transfer.put(type(x), np.empty(key.shape, x.dtype), x._context, np.dtype(x.dtype))
    begin = key.contiguous(x.shape)
    if begin is not None:
        return x._view(begin, key.shape)
    out = calls.invoke(_slice_call("slice", *key.bounds(), 1), (x,))
    out._dtype = x._dtype
    out._shape = key.taken
    return out if key.taken == key.shape else out.reshape(key.shape)


def _set_basic(x: Any, key: Basic, value: Any) -> None:
    if key.everything(x.shape) and key.shape == x.shape:
        return _set_all(x, value)
    if prod(key.taken) == 0:
        return None
    if isinstance(value, (int, float, np.number, np.bool_)):
        x.slice_assign_scalar(value, *key.bounds())
        return None
    value = _as_array(x, value)
    value = transfer.broadcast(value, key.shape)
    if value.shape != key.taken:
        value = value.reshape(key.taken)
    x.slice_assign(value, *key.bounds())
    return None


def _set_all(x: Any, value: Any) -> None:
    if isinstance(value, Array):
        return transfer.overwrite(x, transfer.broadcast(value, x.shape))
    x.dtype  # Known, for the values to be made in it.
    if isinstance(value, (int, float, np.number, np.bool_)):
        transfer.fill(x, value)
        return None
    values = _numpy(x, value)
    try:
        values = np.broadcast_to(values.reshape(_without_leading_ones(values.shape, x.ndim)), x.shape)
    except ValueError:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes[original->remapped]: "
            f"{values.shape} and requested shape {x.shape}"
        ) from None
    if frame().when_fresh:  # Only an operator's write can depend on the gradient's freshness.
        return transfer.overwrite(x, transfer.put(type(x), values, x._context, np.dtype(x.dtype)))
    calls.write((x,), lambda: transfer.send(x, values))
    return None


def _without_leading_ones(shape: Tuple[int, ...], ndim: int) -> Tuple[int, ...]:
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return shape


def _numpy(x: Any, value: Any) -> np.ndarray:
    """A value that is assigned, as numpy's; TypeError where it is no array."""
    try:
        values = np.asarray(value)
        if values.dtype.kind not in "biuf":
            raise TypeError
        return values
    except (TypeError, ValueError):
        raise TypeError(
            f"{type(x)} does not support assignment with non-array-like object {value} of type " f"{type(value)}"
        ) from None


def _as_array(x: Any, value: Any) -> Any:
    """A value that is assigned, as an NDArray of x's dtype on its device."""
    dtype = np.dtype(x.dtype)
    if isinstance(value, Array):
        value = value.as_in_context(x._context)
        return value if value.dtype == x.dtype else value.astype(dtype)
    return transfer.put(type(x), _numpy(x, value).astype(dtype), x._context, dtype)


def _get_advanced(x: Any, key: Advanced) -> Any:
    source = x._reshape(key.expanded) if key.expanded != x.shape else x
    order = key.order()
    if order != sorted(order):
        source = source.transpose(order)
    indices = _indices(x, key)
    out = calls.invoke(calls.intern("gather_nd", {}, 2, 1), (source, indices))
    out._dtype = x._dtype
    out._shape = key.index_shape + tuple(key.expanded[axis] for axis in order[len(key.axes) :])
    out = _slice_rest(out, key)
    back = key.back()
    if back != sorted(back):
        out = out.transpose(back)
    return out if out.shape == key.shape else out.reshape(key.shape)


def _slice_rest(out: Any, key: Advanced) -> Any:
    """Applies the slices of the dimensions that no array indexes."""
    lead = len(key.index_shape)
    if all(one == slice(0, size, 1) for one, size in zip(key.rest, out.shape[lead:])):
        return out
    return out[(slice(None),) * lead + tuple(_python_slice(one) for one in key.rest)]


def _python_slice(one: slice) -> slice:
    return slice(one.start, None if one.stop < 0 else one.stop, one.step)


def _indices(x: Any, key: Advanced) -> Any:
    """The index arrays, broadcast and stacked, as gather_nd takes them: (axes, ...)."""
    if all(isinstance(one, np.ndarray) for one in key.arrays):
        stacked = np.stack(np.broadcast_arrays(*key.arrays)).astype(np.int64)
        return transfer.put(type(x), stacked, x._context, np.dtype(np.int64))
    parts: List[Any] = []
    for one in key.arrays:
        if isinstance(one, np.ndarray):
            one = transfer.put(type(x), one.astype(np.int64), x._context, np.dtype(np.int64))
        one = one.astype(np.int64, copy=False)
        parts.append(one if one.shape == key.index_shape else one.broadcast_to(key.index_shape))
    return calls.invoke(calls.intern("stack", {"num_args": str(len(parts)), "axis": "0"}, len(parts), 1), parts)


def _set_advanced(x: Any, key: Advanced, value: Any) -> None:
    """Writes the chosen elements; where these are few of many, part by part, as the server's operator for all copies x."""
    if not all(isinstance(one, np.ndarray) for one in key.arrays):
        fetched = parse(key.fetched(), x.shape)
        if isinstance(fetched, Basic):  # An array without dimensions is an integer.
            return _set_basic(x, fetched, value)
        key = fetched
    if prod(key.shape) == 0:
        return None
    parts = prod(key.index_shape)
    if key.expanded == x.shape and parts * _BYTES_PER_PART <= x.size * np.dtype(x.dtype).itemsize:
        return _set_parts(x, key, value)
    values = _spread(x, value, key.shape).reshape((-1,))
    places = np.stack(np.unravel_index(key.positions().reshape(-1), x.shape))
    indices = transfer.put(type(x), places, x._context, np.dtype(np.int64))
    calls.invoke(calls.intern("_scatter_set_nd", {"shape": text(x.shape)}, 3, 1), (x, values, indices), x)
    return None


def _set_parts(x: Any, key: Advanced, value: Any) -> None:
    """Writes what each element of the index arrays chooses by an assignment of its own."""
    parts = key.parts()
    if isinstance(value, (int, float, np.number, np.bool_)):
        for part in parts:
            _set_basic(x, part, value)
        return
    values = _spread(x, value, key.shape)
    lead = len(key.index_shape)
    if key.place:
        values = values.transpose([*range(key.place, key.place + lead), *range(key.place), *range(key.place + lead, values.ndim)])
    values = values.reshape((len(parts),) + parts[0].shape)
    for place, part in enumerate(parts):
        _set_basic(x, part, values[place])


def _spread(x: Any, value: Any, shape: Tuple[int, ...]) -> Any:
    """A value that is assigned to elements of this shape, as an NDArray of this shape."""
    if isinstance(value, Array):
        return transfer.broadcast(_as_array(x, value), shape)
    values = np.full((), value) if isinstance(value, (int, float, np.number, np.bool_)) else _numpy(x, value)
    try:
        values = np.broadcast_to(values.reshape(_without_leading_ones(values.shape, len(shape))), shape)
    except ValueError:
        raise ValueError(
            f"shape mismatch: value array of shape {values.shape} could not be broadcast to indexing " f"result of shape {shape}"
        ) from None
    return _as_array(x, values)
