"""Files of optimizer states: a `.params` file, and no pickle, as reading a pickle runs code in it.

Its arrays are named by the weight's index and the place in its state: `3`, `3.0`, `3.1.0`. One more array, `__states__`,
holds UTF-8 JSON as uint8:

    {"format": 1, "states": {"3": [0, null]}, "optimizer": {"class": "SGD", "momentum": 0.9, ...}}

A state is `null` (none), 0 (an array) or a list of states. `optimizer` is there when the optimizer was saved, too: its
plain attributes, those of its scheduler, and its tables of numbers by index (`_index_update_count`).
"""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from .._array.save import pieces_of
from ..context import Context
from ._optimizer import Optimizer, State

_JSON = "__states__"


def dumps(states: Dict[Any, State], optimizer: Optional[Optimizer]) -> bytes:
    """The file's bytes. States are read from the server."""
    arrays: Dict[str, NDArray] = {}
    described = {json.dumps(index): _describe(str(index), state, arrays) for index, state in states.items()}
    text: Dict[str, Any] = {"format": 1, "states": described}
    if optimizer is not None:
        text["optimizer"] = _attributes(optimizer)
    arrays[_JSON] = ndarray.array(np.frombuffer(json.dumps(text).encode(), np.uint8), dtype="uint8")
    return b"".join(pieces_of(arrays))


def loads(data: bytes, optimizer: Optimizer) -> Dict[Any, State]:
    """The states. Sets the optimizer's numbers where the file has them, which must be of the same class."""
    try:
        arrays: Any = ndarray.load_frombuffer(data)
        text = json.loads(arrays[_JSON].asnumpy().tobytes().decode())
    except Exception as error:
        raise ValueError(
            "These are not states that gluond saved. (MXNet's own are pickles, which are not read, as "
            "reading one can run anything.)"
        ) from error
    if text.get("format") != 1:
        raise ValueError(f"The states are in format {text.get('format')}; this version reads format 1.")
    if "optimizer" in text:
        _restore(optimizer, text["optimizer"])
    found = {}
    for key, shape in text["states"].items():
        index = json.loads(key)
        found[index] = _rebuild(str(index), shape, arrays)
    return found


def on_context(state: State, ctx: Context) -> State:
    """The state, on another device."""
    if state is None:
        return None
    return tuple(on_context(part, ctx) for part in state) if isinstance(state, tuple) else state.as_in_context(ctx)


def _describe(name: str, state: State, arrays: Dict[str, NDArray]) -> Any:
    if state is None:
        return None
    if isinstance(state, (list, tuple)):
        return [_describe(f"{name}.{i}", part, arrays) for i, part in enumerate(state)]
    arrays[name] = state
    return 0


def _rebuild(name: str, shape: Any, arrays: Dict[str, NDArray]) -> State:
    if shape is None:
        return None
    if isinstance(shape, list):
        return tuple(_rebuild(f"{name}.{i}", part, arrays) for i, part in enumerate(shape))
    return arrays[name]


def _attributes(optimizer: Optimizer) -> Dict[str, Any]:
    """The optimizer's members that are numbers, strings, or lists of these; other members are the program's."""
    found: Dict[str, Any] = {"class": type(optimizer).__name__, **_plain(optimizer)}
    found["tables"] = {name: list(table.items()) for name, table in vars(optimizer).items() if _is_table(name, table)}
    if optimizer.lr_scheduler is not None:
        found["scheduler"] = {"class": type(optimizer.lr_scheduler).__name__, **_plain(optimizer.lr_scheduler)}
    return found


def _plain(value: Any) -> Dict[str, Any]:
    return {name: _number(item) for name, item in vars(value).items() if _is_plain(_number(item))}


def _number(item: Any) -> Any:
    """numpy's scalars as Python's."""
    return item.item() if isinstance(item, np.generic) else item


def _is_table(name: str, item: Any) -> bool:
    """Whether a member is a table of numbers by index, as `_index_update_count`; the program's multipliers are not."""
    return (
        isinstance(item, dict)
        and name not in ("lr_mult", "wd_mult", "idx2name", "param_dict")
        and all(isinstance(value, (int, float)) for value in item.values())
    )


def _is_plain(item: Any) -> bool:
    return (
        item is None
        or isinstance(item, (bool, int, float, str))
        or (isinstance(item, list) and all(_is_plain(part) for part in item))
    )


def _restore(optimizer: Optimizer, saved: Dict[str, Any]) -> None:
    _check_class("optimizer", optimizer, saved)
    scheduler: Optional[Dict[str, Any]] = saved.pop("scheduler", None)
    tables: Dict[str, List[List[Any]]] = saved.pop("tables")
    for name, items in tables.items():
        if isinstance(getattr(optimizer, name, None), dict):
            setattr(optimizer, name, {index: value for index, value in items})
    _set_known(optimizer, saved)
    if scheduler is not None and optimizer.lr_scheduler is not None:
        _check_class("lr_scheduler", optimizer.lr_scheduler, scheduler)
        _set_known(optimizer.lr_scheduler, scheduler)


def _check_class(what: str, value: Any, saved: Dict[str, Any]) -> None:
    name = saved.pop("class")
    if name != type(value).__name__:
        raise ValueError(f"The saved states are of the {what} {name}, this one is {type(value).__name__}.")


def _set_known(value: Any, saved: Dict[str, Any]) -> None:
    for name, item in saved.items():
        if name in vars(value) and _is_plain(_number(getattr(value, name))):
            setattr(value, name, item)
