"""NDArrays that a dataset holds, for workers: a forked process has no part in its parent's session with the server.

Their values are fetched before the fork. In a worker each is made anew when the first batch is asked for, so that a
dataset which keeps features in an NDArray works there as it does in MXNet. An ArrayDataset makes its rows from copies.
A worker that computes with NDArrays does so on its parent's server, in a session of its own.
"""
from __future__ import annotations

import itertools
import os
import types
from typing import Any, Callable, Dict, List, NamedTuple, Set

import numpy as np

from ... import ndarray
from ..._array.array import NDArray
from ..._wire import connect
from .._block import Block
from .dataset import ArrayDataset, Dataset, _First

_LONG = 1000


class _Change(NamedTuple):
    array: Callable[[NDArray], NDArray]  # Makes the thing that takes an NDArray's place.
    dataset: Callable[[ArrayDataset], Any]  # Changes an ArrayDataset, which has copies of its own.


class Inheritance:
    """The inheritance of `parts`, a list: `take` before the fork, `restore` in the child."""

    def __init__(self, parts: List[Any]) -> None:
        self._parts = parts
        self._values: Dict[int, np.ndarray] = {}
        self._environment: Dict[str, str] = {}

    def take(self) -> None:
        """Fetches the values."""
        def fetched(array: NDArray) -> NDArray:
            self._values[id(array)] = array.asnumpy()
            return array

        _change(self._parts, _Change(fetched, ArrayDataset._on_host), set())
        if connect._current is not None:
            self._environment = connect._current.environment

    def restore(self) -> None:
        """Puts new arrays in the places of the old ones, in `parts` as well."""
        made: Dict[int, NDArray] = {}

        def anew(array: NDArray) -> NDArray:
            values = self._values.get(id(array))
            if values is None:  # The program has changed the dataset since; the array's own error says so.
                return array
            if id(array) not in made:
                made[id(array)] = ndarray.array(values, dtype=values.dtype)
            return made[id(array)]

        os.environ.update(self._environment)
        _change(self._parts, _Change(anew, ArrayDataset._leave_the_server), set())


def _change(thing: Any, change: _Change, seen: Set[int]) -> Any:
    """`thing` with `change` applied to the NDArrays in it, in place but for tuples."""
    if isinstance(thing, NDArray):
        return change.array(thing)
    if type(thing) is tuple:
        changed = tuple(_change(part, change, seen) for part in thing)
        return changed if any(new is not old for new, old in zip(changed, thing)) else thing
    if id(thing) in seen or isinstance(thing, (list, dict)) and len(thing) > _LONG and not _may_hold(thing):
        return thing
    if isinstance(thing, ArrayDataset):
        seen.add(id(thing))
        change.dataset(thing)
    elif isinstance(thing, list):
        seen.add(id(thing))
        thing[:] = [_change(part, change, seen) for part in thing]
    elif isinstance(thing, dict):
        seen.add(id(thing))
        thing.update({key: _change(part, change, seen) for key, part in thing.items()})
    elif isinstance(thing, (Dataset, Block, _First)):
        seen.add(id(thing))
        _change(vars(thing), change, seen)
    elif isinstance(thing, types.FunctionType):
        seen.add(id(thing))
        _change_function(thing, change, seen)
    return thing


def _may_hold(thing: Any) -> bool:
    """Whether there are arrays at the beginning of nested lists. Lists of a million names are not searched."""
    if isinstance(thing, (list, tuple, dict)):
        return any(map(_may_hold, itertools.islice(thing.values() if isinstance(thing, dict) else thing, 8)))
    return isinstance(thing, (NDArray, Dataset, Block, _First, types.FunctionType))


def _change_function(function: types.FunctionType, change: _Change, seen: Set[int]) -> None:
    """Changes the variables of a function's closure, and the global NDArrays that it names."""
    for cell in function.__closure__ or ():
        try:
            cell.cell_contents = _change(cell.cell_contents, change, seen)
        except ValueError:  # Not set yet.
            pass
    function.__defaults__ = _change(function.__defaults__, change, seen)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, NDArray):
            function.__globals__[name] = change.array(value)
