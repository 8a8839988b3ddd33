"""The places of the arrays that custom operators have: their values are in this process, and go to the server when one of its
operators reads them.

An operator that computes with numpy therefore sends and fetches nothing: `x.asnumpy()` copies, and what it assigns to an
output stays here until the whole call is answered. One that computes with `mx.nd` works as well.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn, Optional

import numpy as np

from .. import _side_effects
from .._wire import encoding
from .._wire.encoding import names
from .._wire.frame import frame
from .._wire.tensors import in_numpy, to_bits
from ..base import MXNetError
from . import calls, transfer
from .calls import Array
from .where import ON_SERVER, Place

_upload_lock = threading.RLock()


def upload_lock() -> Any:
    """Held while values that are here are sent, so that they are sent once."""
    return _upload_lock


class Local(Place):
    """A place where an array can be written in this process. own: the name under which the server knows it already, if any."""

    __slots__ = ("own",)
    own: Optional[bytes]

    def leave(self, x: Any) -> Optional[bytes]:
        """`own`, for the place that x has next."""
        return self.own

    def free(self, x: Any) -> None:
        if self.own is not None:
            x._session.dead_arrays.append(self.own)

    def forget(self, x: Any) -> None:
        x._name = self.leave(x) or next(names)
        x._where = ON_SERVER
        ON_SERVER.forget(x)

    def set(self, x: Any, key: Any, value: Any) -> bool:
        if frame().recording and (x._grad is not None or not _is_whole(key)):
            return False
        here = _here(value)
        if _is_whole(key):
            if value is not x:
                self._assign(x, value) if here is None else self._move(x, _values_for(x, value, here))
            return True
        if here is None or self.here is None or _needs_server(key):
            return False
        self.to_write(x)[key] = here
        return True

    def get(self, x: Any, key: Any) -> Any:
        return x if _is_whole(key) else None

    def compute(self, x: Any, ufunc: Any, other: Any) -> bool:
        """x = ufunc(x, other), if this process does it."""
        here = None if frame().recording else _here(other)
        if here is None:
            return False
        values = self.to_write(x)
        ufunc(values, here, out=values, casting="unsafe")
        return True

    def to_write(self, x: Any) -> np.ndarray:
        """The values, which are here, for the caller to write: the server's, if it has them, are outdated then."""
        return self._move(x, Here(self.here, is_shared=True)).to_write(x)

    def _move(self, x: Any, place: "Here") -> "Here":
        """x gets other values in this process."""
        place.own = self.leave(x)
        x._where, x._name = place, None
        ON_SERVER.forget(x)
        return place

    def _assign(self, x: Any, value: Any) -> None:
        """x gets the server's values of another array. If they may be of another kind, nobody looks at them before it must be."""
        if not isinstance(value, Array):
            raise TypeError(f"{type(x)} does not support assignment with non-array-like object {value} of type {type(value)}")
        if value._session is not x._session:
            calls.check_together((x, value), "assign")
        if value._shape is not None and value._shape != x._shape:
            value = transfer.broadcast(value, x._shape)  # ValueError where it does not fit.
        assigned = value._sent()
        if value._shape == x._shape and value._dtype == x._dtype and value._context is x._context:
            self.forget(x)
            name = x._name
        else:
            source = calls.blank(type(x), x._session, value._context, value._shape, value._dtype)
            x._where, x._name, name = Later(source, self.leave(x)), None, source._name
            ON_SERVER.forget(x)
        x._session.submit(encoding.assign(name, assigned, recording=frame().recording))


class Here(Local):
    """In this process: `here`. The server gets them when one of its operators reads the array, and has them until they are
    written here. is_shared: other arrays have the same numpy array, which is copied before it is written."""

    __slots__ = ("here", "writable", "_is_shared")
    here: Any

    def __init__(self, here: Optional[np.ndarray], writable: bool = True, is_shared: bool = False) -> None:
        self.here = here
        self.writable = writable
        self.own = None
        self._is_shared = is_shared

    def send(self, x: Any) -> Any:
        with _upload_lock:
            if x._name is None:
                name = self.own or next(names)
                transfer.send(x, to_bits(self.here, x._dtype), name)
                self.own = x._name = name
            return self.own

    def known(self, x: Any) -> Optional[np.ndarray]:
        self._is_shared = True
        return self.here

    def has_history(self, x: Any) -> Optional[bool]:
        return False

    def get(self, x: Any, key: Any) -> Any:
        if self.writable or _is_whole(key) or _needs_server(key):
            return super().get(x, key)
        values = self.here[key]
        if not np.ndim(values):
            return None
        # Elements that would be a view of x may only be read, as x may.
        is_copy = not values.flags.c_contiguous or not np.may_share_memory(values, self.here)
        return calls.blank(type(x), x._session, x._context, values.shape, x._dtype, Here(values, is_copy, is_shared=True))

    def to_write(self, x: Any) -> np.ndarray:
        if self._is_shared or not self.here.flags.writeable:
            self.here, self._is_shared = self.here.copy(), False
        x._name = None
        ON_SERVER.forget(x)
        return self.here


class Lent(Here):
    """Those of `owner`, an array that nobody writes while this one, which may only be read, is in use. here: once they were
    fetched."""

    __slots__ = ("_owner",)
    most_kept = sys.maxsize

    def __init__(self, owner: Any) -> None:
        super().__init__(None, writable=False)
        self._owner = owner

    def send(self, x: Any) -> Any:
        return self._owner._sent()

    def keep(self, x: Any, values: np.ndarray, version: float) -> None:
        self.here = values

    def has_history(self, x: Any) -> Optional[bool]:
        return None

    def forget(self, x: Any) -> None:
        self.here = None
        self._owner._where.forget(self._owner)


class Later(Local):
    """Those of `source`, which has what was assigned to the array, in a shape, dtype and device of its own. They are checked
    and converted when somebody looks."""

    __slots__ = ("source",)

    def __init__(self, source: Any, own: Optional[bytes]) -> None:
        self.source = source
        self.own = own

    def send(self, x: Any) -> Any:
        source = transfer.broadcast(self.source, x._shape)
        if source.dtype != x.dtype:
            source = source.astype(x.dtype)
        source = source.as_in_context(x._context)
        name = self.own or next(names)
        x._session.submit(encoding.assign(name, source._sent(), recording=frame().recording))
        x._where, x._name = ON_SERVER, name
        return name


class Absent(Place):
    """Nowhere: a backward pass has not declared that it reads the array. Every use is an error that says `why`."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def send(self, x: Any) -> NoReturn:
        raise MXNetError(self.why)


def _is_whole(key: Any) -> bool:
    return key is Ellipsis or isinstance(key, slice) and key == slice(None)


def _needs_server(key: Any) -> bool:
    """Whether an index holds arrays whose values are not here."""
    return any(isinstance(one, Array) for one in (key if isinstance(key, tuple) else (key,)))


def _here(value: Any) -> Any:
    """The value for numpy, where no server must be asked for it and no history is lost; else None."""
    if isinstance(value, Array):
        return None if frame().recording and value._has_history() is not False else value._where.here
    if isinstance(value, (int, float, np.generic, np.ndarray)):
        return value
    try:
        values = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return values if values.dtype.kind in "biuf" else None


def _values_for(x: Any, value: Any, here: Any) -> Here:
    """The place of values that are assigned to the whole of x."""
    if isinstance(value, Array) and value._shape == x._shape and value._dtype == x._dtype:
        return Here(value._where.known(value), is_shared=True)
    values = np.empty(x._shape, in_numpy(x._dtype))
    try:
        values[...] = here
    except ValueError as error:
        raise ValueError(f"an array of shape {np.shape(here)} cannot be assigned to one of shape {x._shape}: {error}") from None
    return Here(values)


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is not here."""
    global _upload_lock
    _upload_lock = threading.RLock()
