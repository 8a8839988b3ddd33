"""The custom operators of this process, by name."""

from __future__ import annotations

import itertools
import threading
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .._attributes import did_you_mean, dtype_name
from .. import _side_effects
from ..base import MXNetError


class Registered(NamedTuple):
    """One registration. `version` tells it from an earlier one of the same name."""

    op_type: str
    prop_class: Any  # A CustomOpProp, or a function that makes one of keyword arguments that are text.
    version: int
    shared: bool


_lock = threading.Lock()
_versions = itertools.count(1)
_registered: Dict[str, Registered] = {}
# How often a registration has replaced another.
replaced = 0


def add(op_type: str, prop_class: Any, shared: bool) -> Tuple[Registered, Optional[Registered]]:
    """Registers an operator. A second one of a name replaces the first, with a warning. The registration, and the one that
    it replaces."""
    global replaced
    if not isinstance(op_type, str) or not 0 < len(op_type.encode()) <= 128:
        raise ValueError(f"An operator's name is text of 1 to 128 bytes, not {op_type!r}")
    with _lock:
        known = _registered.get(op_type)
        new = _registered[op_type] = Registered(op_type, prop_class, next(_versions), shared)
        replaced += known is not None
    if known is not None:
        warnings.warn(f"New registration is overriding existing custom operator {op_type}", stacklevel=4)
    return new, known


def take_back(operator: Registered, before: Optional[Registered]) -> None:
    """The name of a registration that came to nothing has the one that it had before."""
    with _lock:
        if _registered.get(operator.op_type) != operator:
            return
        if before is None:
            del _registered[operator.op_type]
        else:
            _registered[operator.op_type] = before


def find(op_type: Any) -> Registered:
    """MXNetError with the closest names where there is none."""
    found = _registered.get(op_type)
    if found is None:
        raise MXNetError(
            f"Cannot find custom operator {op_type}{did_you_mean(str(op_type), list(_registered), 3)}. "
            f"Registered here: {', '.join(_registered) or 'none'}. @mx.operator.register({op_type!r}) above a "
            "CustomOpProp registers one, before it is used or its symbol loaded."
        )
    return found


def get(op_type: Any) -> Any:
    """The registration; None where there is none."""
    return _registered.get(op_type)


def share(op_type: str) -> Registered:
    """Marks an operator as one that other clients' graphs may use."""
    with _lock:
        found = _registered[op_type] = find(op_type)._replace(shared=True)
    return found


def names() -> List[str]:
    """All names, in order of registration."""
    return list(_registered)


def attribute_text(value: Any) -> str:
    """A parameter as its CustomOpProp gets it: `str` of it, but for numpy's dtypes ("float32") and numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.dtype) or isinstance(value, type) and issubclass(value, np.generic):
        return dtype_name(value)
    if isinstance(value, np.generic):
        return str(value.item())
    return str(value)


def attribute_texts(values: Dict[str, Any]) -> Tuple[Tuple[str, str], ...]:
    """All parameters as text, sorted by name: the order of keywords makes no other call."""
    return tuple(sorted((key, attribute_text(value)) for key, value in values.items()))


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is not here."""
    global _lock
    _lock = threading.Lock()
