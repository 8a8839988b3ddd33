"""What an array is now, whatever becomes of it: copies that the server makes without copying values."""

from __future__ import annotations

from typing import Any

from .._wire import encoding
from ..ndarray import _call
from ..ndarray._array import NDArray
from .local import LocalArray
from .values import Kind


def constant(array: NDArray, lasting: bool) -> LocalArray:
    """An argument as the operator sees it: only to be read, and what it is now whatever becomes of the array."""
    kind = Kind(array._shape, array._dtype)
    values = array._known()
    if values is not None:
        return LocalArray(array._session, array._context, kind, values, writable=False, shared=True)
    if not lasting:
        return Borrowed(array, kind)
    name = next(encoding.names)
    array._session.submit_later(encoding.assign(name, array._name))
    return LocalArray(array._session, array._context, kind, None, writable=False, sent=name)


class Borrowed(LocalArray):
    """An argument during the forward pass, under the name of the caller's array."""

    __slots__ = ("_owner",)

    def __init__(self, owner: NDArray, kind: Kind) -> None:
        super().__init__(owner._session, owner._context, kind, None, writable=False, sent=owner._name)
        self._owner = owner

    def __del__(self) -> None:
        pass


def with_history(array: NDArray) -> Any:
    """The array with its place in what is recorded: a gradient that begins here goes on from there."""
    copy = _call.blank(array._session, array._context, array._shape, array._dtype)
    array._session.submit_later(encoding.assign(copy._name, array._name, recording=True))
    return copy
