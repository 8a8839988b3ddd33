"""An array's present value, whatever becomes of the array: copies that the server makes without copying values."""

from __future__ import annotations

from typing import Any

from .._array import calls
from .._array.array import NDArray
from .._wire import encoding
from .local import LocalArray
from .values import Kind


def keep(array: NDArray) -> Any:
    """The array as it is now, with its place in what is recorded: a gradient that begins here goes on from there."""
    values = array._known()
    if values is not None and array._has_history() is False:
        return LocalArray(array._session, array._context, Kind(array._shape, array._dtype), values, writable=False, shared=True)
    copy = calls.blank(NDArray, array._session, array._context, array._shape, array._dtype)
    array._session.submit_later(encoding.assign(copy._name, array._name, recording=True))
    if values is not None:
        copy._keep_values(values, 0, is_constant=False)
    return copy


def constant(array: NDArray) -> LocalArray:
    """An argument as an operator sees it: only to be read. It is what the array is as long as that does not change."""
    kind = Kind(array._shape, array._dtype)
    values = array._known()
    if values is not None:
        return LocalArray(array._session, array._context, kind, values, writable=False, shared=True)
    return Borrowed(array, kind)


class Borrowed(LocalArray):
    """An argument under the name of another array, which it keeps."""

    __slots__ = ("_owner",)

    def __init__(self, owner: NDArray, kind: Kind) -> None:
        super().__init__(owner._session, owner._context, kind, None, writable=False, sent=owner._name)
        self._owner = owner

    def __del__(self) -> None:
        pass
