"""Parameters of operators as text, as MXNet writes them, checked against the server's descriptions."""

from __future__ import annotations

import warnings
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, Set

import numpy as np

from .base import MXNetError, did_you_mean


class Attribute(NamedTuple):
    """One parameter of an operator, as OperatorService describes it."""

    name: str
    type: str
    default: str
    required: bool
    values: tuple[str, ...]
    range: str
    description: str
    decides: bool = False  # Whether a call's CallType depends on it.


def text(value: Any) -> str:
    """A value as MXNet writes it: "(3, 3)", "True", "0.5", "float32", "None"."""
    if type(value) is str:
        return value
    if isinstance(value, (bool, int, float)) or value is None:
        return str(value)
    if isinstance(value, (np.generic,)) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return str(value.item())
    if isinstance(value, (tuple, list, np.ndarray, range)):
        items = [text(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, (type, np.dtype)):
        return dtype_name(value)
    return str(value)


def dtype_name(value: Any) -> str:
    """`np.float32`, `"float32"`, `float` -> "float32" and the like."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.dtype) and value.names == ("bfloat16",):
        return "bfloat16"
    return np.dtype(value).name


def checked(op: str, parameter: Attribute, value: Any) -> str:
    """The value's text; MXNetError where it cannot be one of the parameter's type. The server checks the rest."""
    kind = parameter.type
    optional = kind.endswith(" or None")
    if value is None:
        if optional or parameter.default == "None" or kind.startswith("string"):
            return "None"
        raise _refused(op, parameter, value)
    if kind.startswith("dtype"):
        try:
            return dtype_name(value)
        except TypeError:
            raise _refused(op, parameter, value) from None
    written = text(value)
    if parameter.values:
        if written not in parameter.values and not (optional and written == "None"):
            raise MXNetError(
                f"Invalid Input: '{written}', valid values are: "
                f"{{{', '.join(repr(choice) for choice in parameter.values)}}}, in operator "
                f"{op}, parameter {parameter.name}"
            )
        return written
    if not isinstance(value, str) and not _fits(kind, value):
        raise _refused(op, parameter, value)
    return written


def _fits(kind: str, value: Any) -> bool:
    """Whether a value that is no string may be one of this type."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if kind.startswith(("int", "long")):
        return isinstance(value, (bool, int, np.integer)) or (isinstance(value, float) and value.is_integer())
    if kind.startswith("float"):
        return isinstance(value, (bool, int, float, np.number, np.bool_))
    if kind.startswith("boolean"):
        return isinstance(value, (bool, int, np.bool_, np.integer))
    if kind.startswith("tuple"):
        return isinstance(value, (tuple, list, np.ndarray, range, int, float, np.number))
    return True


def _refused(op: str, parameter: Attribute, value: Any) -> MXNetError:
    return MXNetError(
        f"Invalid Parameter format for {parameter.name} expect {parameter.type} but value={text(value)!r}, " f"in operator {op}"
    )


def attribute_texts(op: str, parameters: dict[str, Attribute], values: dict[str, Any]) -> dict[str, str]:
    """All given parameters as text; MXNetError for unknown ones and for required ones that are missing."""
    texts = {}
    for name, value in values.items():
        parameter = parameters.get(name)
        if parameter is None:
            raise unknown_argument(op, name, parameters)
        texts[name] = checked(op, parameter, value)
    for name, parameter in parameters.items():
        if parameter.required and name not in texts:
            raise MXNetError(f"Required parameter {name} of {parameter.type} is not presented, in operator {op}")
    return texts


def unknown_argument(op: str, name: str, known: Iterable[str]) -> MXNetError:
    """The error for a misspelt keyword."""
    known = list(known)
    return MXNetError(
        f"Cannot find argument '{name}' of operator {op}{did_you_mean(name, known)}, "
        f"Possible Arguments: {', '.join(known) or 'none'}"
    )


_given: Set[str] = set()


def warn_once(text: str, stacklevel: int = 3) -> None:
    """Gives a warning, unless it has been given. Its place is that of the caller's caller, or farther out."""
    if text not in _given:
        _given.add(text)
        warnings.warn(text, stacklevel=stacklevel)


def dense_only(function: str, stype: Any, stacklevel: int = 4) -> None:
    """Warns that an array of another storage type is dense all the same."""
    if stype not in (None, "default"):
        warn_once(f"{function}: the array is dense, though stype='{stype}' is asked for: gluond has no other storage", stacklevel)


def is_hidden(key: str) -> bool:
    """Whether operators ignore the key."""
    return len(key) > 4 and key.startswith("__") and key.endswith("__")


def visible(attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes that the operator sees."""
    return {key: value for key, value in attrs.items() if not is_hidden(key)}
