"""NDArrays that a dataset holds, for workers: a forked process has no part in its parent's session with the server.

Their values are fetched before the fork, from wherever a dataset, a transform or a function holds them. In a worker each
array, the same object as before, is given its values in the worker's own session when the first batch is asked for; so
nothing that holds an array is changed. The rows of an ArrayDataset are made from copies in the worker's memory.
"""
from __future__ import annotations

import functools
import itertools
import types
from typing import Any, Iterable, Iterator, List, Set

from ..._array import transfer
from ..._array.array import NDArray
from ..._array.part import Part, follow
from .._block import Block
from .._parameter import Parameter
from .dataset import ArrayDataset, Dataset, First

_LONG = 1000
_PACKAGE = __name__.partition(".")[0]
_HOLDERS = (Dataset, First, Block, Parameter)  # The classes of the package whose members may be NDArrays.


class Inheritance:
    """The inheritance of `holders`, made before the fork; `restore` is called in the child."""

    def __init__(self, *holders: Any) -> None:
        found = list(_held(holders))
        self._datasets = [each for each in found if isinstance(each, ArrayDataset)]
        self._views = [each for each in found if isinstance(each, NDArray) and isinstance(each._where, Part)]
        arrays = [each._where.root if isinstance(each._where, Part) else each for each in found if isinstance(each, NDArray)]
        self._values = [(array, array.asnumpy()) for array in {id(array): array for array in arrays}.values()]
        for dataset in self._datasets:
            dataset._on_host()

    def restore(self) -> None:
        """Gives the arrays to this process's session."""
        for dataset in self._datasets:
            dataset._leave_the_server()
        for array, values in self._values:
            transfer.bring(array, values)
        for view in self._views:
            follow(view)


def _held(holders: Iterable[Any]) -> Iterator[Any]:
    """The NDArrays and ArrayDatasets that are reached from some things."""
    waiting = list(holders)
    seen: Set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            seen.add(id(thing))
            if isinstance(thing, (NDArray, ArrayDataset)):
                yield thing
            waiting += _parts(thing)


def _parts(thing: Any) -> List[Any]:
    """The things that one thing refers to, as far as NDArrays may be among them. Lists of a million names are not searched."""
    if isinstance(thing, (list, tuple, set, dict)):
        parts = thing.values() if isinstance(thing, dict) else thing
        return list(parts) if len(thing) <= _LONG or any(map(_may_hold, itertools.islice(parts, 8))) else []
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, types.FunctionType):
        return [] if _is_of_package(thing.__module__) else _parts_of_function(thing)
    if isinstance(thing, ArrayDataset):
        return [part for name, part in vars(thing).items() if name not in ("_data", "_copies")]
    is_searched = isinstance(thing, _HOLDERS) or not (
        isinstance(thing, (type, types.ModuleType, NDArray)) or _is_of_package(type(thing).__module__)
    )
    return list(getattr(thing, "__dict__", {}).values()) if is_searched else []


def _is_of_package(module: Any) -> bool:
    return str(module).partition(".")[0] == _PACKAGE


def _may_hold(thing: Any) -> bool:
    return isinstance(thing, NDArray) or bool(_parts(thing))


def _parts_of_function(function: types.FunctionType) -> List[Any]:
    """Its closure, its defaults, and the globals that it names."""
    parts = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # Not set yet.
            pass
    return parts + [function.__globals__.get(name) for name in _names(function.__code__)]


def _names(code: types.CodeType) -> Iterator[str]:
    """The names in a function's code and in the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
