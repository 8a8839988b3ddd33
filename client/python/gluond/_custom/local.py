"""The arrays of custom operators: their values are here, and go to the server when one of its operators reads them.

An operator that computes with numpy therefore sends and fetches nothing: `x.asnumpy()` copies, and what it assigns to an
output stays here until the whole call is answered. One that computes with `mx.nd` works as well.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, List, NoReturn, Optional, Sequence

import numpy as np

from .. import context as _context
from .._array import calls, transfer
from .._array.array import NDArray
from .. import _side_effects
from .._wire import connect, encoding
from .._wire.frame import frame
from .._wire.tensors import flag_of
from ..base import MXNetError
from .values import Kind, in_numpy, to_bits

_upload_lock = threading.RLock()


def upload_lock() -> Any:
    """Held while values that are here are sent, so that they are sent once."""
    return _upload_lock


class LocalArray(NDArray):
    """An NDArray whose values may be here (`_values`), on the server (`_sent`), or both.

    An array of the server that is assigned to the whole of it is kept as `_source` until somebody looks: then its shape
    is checked. `_exists`: the server knows the name `_own`. `_is_shared`: other arrays have the same numpy array, which
    is copied before it is written.
    """

    __slots__ = ("_own", "_values", "_sent", "_exists", "_source", "_is_shared", "_is_writable")

    def __init__(self, session: Any, context: Any, kind: Kind, values: Optional[np.ndarray], *, writable: bool = True,
                 shared: bool = False, sent: Optional[bytes] = None) -> None:
        """values: None is zeros, unless `sent` names an array of the server's that has them."""
        self._session = session
        self._context = context
        self._shape = kind.shape
        self._dtype = kind.dtype
        self._grad = None
        self._version = 0
        self._own = sent or next(encoding.names)
        self._values: Any = np.zeros(kind.shape, in_numpy(kind.dtype)) if values is None and sent is None else values
        self._sent = self._exists = sent is not None
        self._source: Any = None
        self._is_shared = shared
        self._is_writable = writable

    @property
    def writable(self) -> bool:
        """False for arrays that an operator reads."""
        return self._is_writable

    def __del__(self) -> None:
        if self._exists:
            self._session.dead_arrays.append(self._own)

    # Where the values are.

    @property
    def _name(self) -> bytes:
        if self._source is not None:
            self._settle()
        elif not self._sent:
            self._send()
        return self._own

    def _send(self) -> None:
        with _upload_lock:
            if self._sent:
                return
            values = to_bits(self._values, self._dtype).reshape(self._shape)
            if values.nbytes <= self._session.max_tensor_bytes:
                transfer._send_whole(self._session, self._own, values, self._context._device)
            else:
                whole = calls.blank(NDArray, self._session, self._context, self._shape, self._dtype)
                transfer.send(whole, values)
                self._session.submit(encoding.assign(self._own, whole._name))
            self._sent = self._exists = True

    def _settle(self) -> None:
        """Makes the assigned array this one's value, in its dtype and shape."""
        source, self._source = self._source, None
        if source._shape == self._shape and source._dtype == self._dtype and source._context is self._context:
            if self._exists:
                self._session.dead_arrays.append(self._own)
            self._own, source._name = source._name, encoding.NO_ARRAY  # The source has no other user.
            self._sent = self._exists = True
            return
        self._sent = self._exists = True
        transfer.overwrite(self, transfer.broadcast(source, self._shape))

    def asnumpy(self) -> np.ndarray:
        """The values, as a numpy array of its own."""
        if self._values is not None:
            return self._values.copy()
        values = super().asnumpy()
        if not self._is_writable:
            self._values = values
            return values.copy()
        return values

    def _known(self) -> Optional[np.ndarray]:
        """The values, which other arrays may share; None: they are not here."""
        if self._values is not None:
            self._is_shared = True
        return self._values

    def _has_history(self) -> Optional[bool]:
        return True if self._grad is not None else None if self._values is None else False

    def wait_to_read(self) -> None:
        """Waits for the values, if they are not here."""
        if self._values is None:
            super().wait_to_read()

    wait_to_write = wait_to_read

    # Writes.

    def _changed(self) -> None:
        """Called when the array gets other values: it loses its history."""
        self._version += 1

    def _written(self) -> None:
        self._values = None
        self._source = None
        self._sent = self._exists = True
        self._changed()

    def _refuse(self, what: str) -> None:
        if not self._is_writable:
            raise ValueError(f"trying to {what} a readonly NDArray: an operator's inputs belong to its caller; assign to "
                             "out_data or in_grad, or compute in a copy (x.copy())")

    def _keep(self, values: Any, shared: bool) -> None:
        self._values = values
        self._is_shared = shared
        self._source = None
        self._sent = False
        self._changed()

    def _own_values(self) -> np.ndarray:
        """The values, to be written: the server's copy, if it has one, is outdated then."""
        if self._values is None:
            self._values = self.asnumpy()
        elif self._is_shared or not self._values.flags.writeable:
            self._values = self._values.copy()
        self._is_shared = self._sent = False
        self._changed()
        return self._values

    def __setitem__(self, key: Any, value: Any) -> None:
        if value is self and _is_whole(key):
            return
        self._refuse("write to")
        if _is_whole(key):
            self._set_whole(value)
            return
        here = _here(value)
        if here is None or self._values is None or _needs_server(key):
            super().__setitem__(key, value)
        else:
            self._own_values()[key] = here

    def _set_whole(self, value: Any) -> None:
        here = _here(value)
        if here is None:
            self._set_source(value)
        elif isinstance(value, LocalArray) and value._shape == self._shape and value._dtype == self._dtype:
            self._keep(value._known(), shared=True)
        else:
            values = np.empty(self._shape, in_numpy(self._dtype))
            try:
                values[...] = here
            except ValueError as error:
                raise ValueError(f"an array of shape {np.shape(here)} cannot be assigned to one of shape {self._shape}: "
                                 f"{error}") from None
            self._keep(values, shared=False)

    def _set_source(self, value: NDArray) -> None:
        if not isinstance(value, NDArray):
            raise TypeError(f"{type(self)} does not support assignment with non-array-like object {value} of type "
                            f"{type(value)}")
        if value._session is not self._session:
            calls.check_together((self, value), "assign")
        if value._shape is not None and value._shape != self._shape:
            value = transfer.broadcast(value, self._shape)  # ValueError where it does not fit.
        source = calls.blank(NDArray, self._session, value._context, value._shape, value._dtype)
        self._session.submit(encoding.assign(source._name, value._name, recording=frame().recording))
        self._values = None
        self._source = source
        self._changed()

    def __getitem__(self, key: Any) -> Any:
        if _is_whole(key):
            return self
        if not self._is_writable and self._values is not None and not _needs_server(key):
            part = self._values[key]
            if np.ndim(part):
                return LocalArray(self._session, self._context, Kind(part.shape, self._dtype), part, shared=True)
        return super().__getitem__(key)

    def _in_place(self, other: Any, function: Callable, what: str, remote: Callable) -> Any:
        self._refuse(what)
        here = _here(other)
        if here is None or self._values is None:
            return remote(self, other)
        values = self._own_values()
        function(values, here, out=values, casting="unsafe")
        return self

    def __iadd__(self, other: Any) -> Any:
        return self._in_place(other, np.add, "add to", NDArray.__iadd__)

    def __isub__(self, other: Any) -> Any:
        return self._in_place(other, np.subtract, "subtract from", NDArray.__isub__)

    def __imul__(self, other: Any) -> Any:
        return self._in_place(other, np.multiply, "multiply to", NDArray.__imul__)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place(other, np.true_divide, "divide from", NDArray.__itruediv__)

    __idiv__ = __itruediv__


class AbsentArray(NDArray):
    """Stands for an array that a backward pass has not declared as read. Every use is an error that says `why`."""

    __slots__ = ("_why",)

    def __init__(self, session: Any, context: Any, why: str) -> None:
        self._session = session
        self._context = context
        self._grad = None
        self._why = why

    def _fail(self, *unused: Any) -> NoReturn:
        raise MXNetError(self._why)

    _name = _shape = _dtype = property(_fail)
    asnumpy = __setitem__ = __getitem__ = _fail

    def __del__(self) -> None:
        pass

    def __repr__(self) -> str:
        return f"<NDArray that is not here: {self._why}>"


def _is_whole(key: Any) -> bool:
    return key is Ellipsis or isinstance(key, slice) and key == slice(None)


def _needs_server(key: Any) -> bool:
    """Whether an index holds arrays whose values are not here."""
    return any(isinstance(one, NDArray) for one in (key if isinstance(key, tuple) else (key,)))


def _here(value: Any) -> Any:
    """The value for numpy, where no server must be asked for it; else None."""
    if isinstance(value, LocalArray):
        return value._values
    if isinstance(value, NDArray):
        return None
    if isinstance(value, (int, float, np.generic, np.ndarray)):
        return value
    try:
        values = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return values if values.dtype.kind in "biuf" else None


def values_of(arrays: Sequence[NDArray]) -> List[np.ndarray]:
    """The values of all, each of its own shape; those that are not here are fetched together."""
    missing = []
    for array in arrays:
        if not isinstance(array, LocalArray):
            missing.append((array, array))
        elif array._values is None:
            missing.append((array, array._source if array._source is not None else array))
    fetched = transfer.fetch_all(missing[0][1]._session, [source._name for _, source in missing]) if missing else ()
    found = {id(array): values for (array, _), values in zip(missing, fetched)}
    return [_fitted(found[id(array)], array) if id(array) in found else array._values  # type: ignore[attr-defined]
            for array in arrays]


def _fitted(values: np.ndarray, array: NDArray) -> np.ndarray:
    """The values that were assigned to an array, in its shape."""
    shape = array._shape
    if shape is None or values.shape == shape:
        return values
    try:
        while values.ndim > len(shape) and values.shape[0] == 1:
            values = values[0]
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"an array of shape {values.shape} was assigned to one of shape {shape}") from None


def read_only(session: Any, context: Any, values: np.ndarray, dtype: Optional[np.dtype] = None) -> LocalArray:
    """An array of values that came from the server."""
    return LocalArray(session, context, Kind(values.shape, dtype or values.dtype), values, writable=False, shared=True)


def absent(session: Any, context: Any, op_type: str, what: str) -> AbsentArray:
    """A stand-in for a value that was not declared."""
    return AbsentArray(session, context, f"{what} is not here: custom operator '{op_type}' has not declared that its backward "
                       "pass reads it (need_top_grad, declare_backward_dependency)")


def wanted_values(arrays: Sequence[LocalArray], wanted: Sequence[bool]) -> List[Optional[np.ndarray]]:
    """The values of those that somebody wants."""
    found = iter(values_of([array for array, each in zip(arrays, wanted) if each]))
    return [next(found) if each else None for each in wanted]


def make(values: np.ndarray, context: Optional[_context.Context], dtype: np.dtype) -> LocalArray:
    """The result of mx.nd.array() within a custom operator. `values` belongs to it from now on."""
    flag_of(dtype)
    return LocalArray(connect.current(), context or _context.current_context(), Kind(values.shape, dtype), values)


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is not here."""
    global _upload_lock
    _upload_lock = threading.RLock()
