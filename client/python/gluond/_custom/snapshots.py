"""An array's present value, whatever becomes of the array: copies that the server makes without copying values."""

from __future__ import annotations

from .._array import calls
from .._array.array import NDArray
from .._array.here import Lent
from .._array.where import OnServer
from .._wire import encoding
from .local import read_only


def keep(array: NDArray) -> NDArray:
    """The array as it is now, with its place in what is recorded: a gradient that begins here goes on from there."""
    values = array._known()
    if values is not None and array._has_history() is False:
        return read_only(array._session, array._context, values, array._dtype)
    copy: NDArray = calls.blank(NDArray, array._session, array._context, array._shape, array._dtype)
    array._session.submit_later(encoding.assign(copy._name, array._sent(), recording=True))
    if values is not None:
        copy._where = OnServer(0, values)
    return copy


def constant(array: NDArray) -> NDArray:
    """An argument as an operator sees it: only to be read. It is what the array is as long as that does not change."""
    values = array._known()
    if values is not None:
        return read_only(array._session, array._context, values, array._dtype)
    lent: NDArray = calls.blank(NDArray, array._session, array._context, array._shape, array._dtype, Lent(array))
    return lent
