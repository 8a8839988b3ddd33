"""Errors in the code of custom operators.

They reach the program as MXNetError, as in MXNet, and as the exception's own type as well: `except ValueError` finds a
ValueError that was raised in `forward`. The exception itself is the cause (`raise ... from`), with its traceback.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import traceback
from typing import Any, Iterator, OrderedDict, Tuple, Type

from ..base import MXNetError
from .source_lines import INSIDE

# The most exceptions kept that the server has been told of and nobody here has seen yet.
_MOST_TOLD = 16
_told: OrderedDict[str, BaseException] = collections.OrderedDict()
_LONGEST = 60_000


class OperatorError(MXNetError):
    """An error in a custom operator's own code; it is of the original exception's type as well. See `__cause__`."""

    where = ""  # "softmax.backward"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@functools.lru_cache(maxsize=256)
def _class_for(kind: Type[BaseException]) -> Type[OperatorError]:
    if issubclass(OperatorError, kind):
        return OperatorError
    try:
        return type(kind.__name__, (OperatorError, kind), {"__module__": kind.__module__, "__doc__": OperatorError.__doc__})
    except TypeError:  # It cannot be combined with another exception.
        return OperatorError


def wrap(original: BaseException, text: str) -> OperatorError:
    """The error to raise for an exception of a user's code."""
    kind: Any = _class_for(type(original))  # type: ignore[arg-type]
    try:
        error = kind.__new__(kind, text)
    except TypeError:  # Some types have objects that only they can make: OSError.
        made_by: Any = type(original)
        error = made_by.__new__(kind, text)
    error.args = (text,)
    error.__cause__ = original
    return error


@contextlib.contextmanager
def calling(op_type: str, callback: str) -> Iterator[None]:
    """Around a user's method: an exception becomes an error that names the method."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OperatorError):
            raise
        wrapped = wrap(error, f"Error in {op_type}.{callback}: {type(error).__name__}: {error}")
        wrapped.where = f"{op_type}.{callback}"
        error.__traceback__ = _of_user(error.__traceback__)
        raise wrapped from error


def short(error: OperatorError) -> OperatorError:
    """The error for the program to see: its traceback begins anew, without the lines of the package that led here."""
    return error.with_traceback(None)


def _of_user(where: Any) -> Any:
    """A traceback from the user's own first line on."""
    while where is not None and where.tb_next is not None and INSIDE[where.tb_frame.f_code.co_filename]:
        where = where.tb_next
    return where


def origin(error: BaseException) -> Tuple[BaseException, str]:
    """The user's exception, and " (in softmax.backward)" where that is known."""
    if isinstance(error, OperatorError) and error.__cause__ is not None:
        return error.__cause__, f" (in {error.where})" if error.where else ""
    return error, ""


def own_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, from the user's own first line on. Kept with the exception: see `of_traceback`."""
    original, _ = origin(error)
    text = "".join(traceback.format_exception(type(original), original, _of_user(original.__traceback__)))[-_LONGEST:]
    while len(_told) >= _MOST_TOLD:
        _told.popitem(last=False)
    _told[text] = original
    return text


def of_traceback(text: str, message: str) -> MXNetError:
    """The error for a failure that the server tells of: with the exception, if it was raised in this process."""
    original = _told.get(text)
    return MXNetError(message) if original is None else wrap(original, message)
