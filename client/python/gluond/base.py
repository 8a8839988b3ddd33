"""The base of all modules: the exception of this package, and types of numbers and strings."""

from __future__ import annotations

import difflib
import os
from typing import Any, Callable, Optional, Sequence, Tuple, Type, Union

import numpy as np

__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "numeric_types",
    "integer_types",
    "string_types",
    "mx_real_t",
    "py_str",
    "data_dir",
]

# If MXNet raises a less specific type than fits, the exception here has both types.


class MXNetError(RuntimeError):
    """Something that the server, or this client, refuses to do. The text says what, where and what to do about it.

    reason: of the server's ErrorInfo (docs/wire.md); empty where there is none.
    """

    reason = ""


class NotImplementedForSymbol(MXNetError):
    """A method that NDArray has and Symbol lacks."""

    def __init__(self, function: Any, alias: Any, *args: Any) -> None:
        name = getattr(function, "__name__", function)
        types = ", ".join(type(arg).__name__ for arg in args)
        super().__init__(
            f"Function {name}"
            + (f" (namely operator '{alias}')" if alias else "")
            + (f" with arguments ({types})" if args else "")
            + " is not implemented for Symbol and only available in NDArray."
        )


numeric_types: Tuple[Type, ...] = (float, int, np.generic)
integer_types: Tuple[Type, ...] = (int, np.int32, np.int64)
string_types: Tuple[Type, ...] = (str,)
mx_real_t = np.float32  # The dtype of arrays that are made without one.


def py_str(text: Union[bytes, str]) -> str:
    """The text of UTF-8 bytes; a text itself, which the package gives wherever MXNet gives bytes."""
    return text if isinstance(text, str) else text.decode("utf-8")


def _as_list(obj: Any) -> Any:
    """A list or tuple itself, anything else in a list."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def data_dir() -> str:
    """The folder in which files of datasets and of trained parameters are looked for: MXNET_HOME, or ~/.mxnet."""
    return os.environ.get("MXNET_HOME", os.path.join(os.path.expanduser("~"), ".mxnet"))


def did_you_mean(name: str, known: Sequence[str], most: int = 2) -> str:
    """ ", did you mean 'x' or 'y'?" if a known name is close, else nothing."""
    close = difflib.get_close_matches(name, known, n=most, cutoff=0.6)
    return f", did you mean {' or '.join(repr(one) for one in close)}?" if close else ""


class WrongType(TypeError, AssertionError):
    """An argument of a wrong type, which MXNet asserts."""


class WrongValue(ValueError, AssertionError):
    """An argument that is none of the possible values, which MXNet asserts."""


class WrongShape(MXNetError, ValueError):
    """Shapes that do not fit each other. MXNet raises one type in some places, the other type in others."""


class FileError(OSError, MXNetError):
    """A file that cannot be opened."""


class NoSuchFile(FileNotFoundError, FileError):
    """A file that is not there."""


def cannot_open(error: OSError) -> FileError:
    """The error for an exception of open()."""
    kind = NoSuchFile if isinstance(error, FileNotFoundError) else FileError
    return kind(error.errno, error.strerror, error.filename)


class classproperty:
    """A property of a class: the result of a function of the class. set: takes a value that is assigned, where the metaclass is
    WithProperties."""

    def __init__(self, get: Callable[[Any], Any], set: Optional[Callable[[Any], None]] = None) -> None:
        self._get = get
        self.set = set

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._get(owner)


class WithProperties(type):
    """Metaclass: to assign to a classproperty sets it, where Python would put the value in its place."""

    def __setattr__(cls, name: str, value: Any) -> None:
        for klass in cls.__mro__:
            found = klass.__dict__.get(name)
            if isinstance(found, classproperty) and found.set is not None:
                found.set(value)
                return
        super().__setattr__(name, value)


class _NullType:
    """Stands for an operator's argument that is left out."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()
