"""The lines of the user's program that gave commands, and the layers within which the package did so: remembered cheaply,
looked up when a command has failed."""

from __future__ import annotations

import collections
import dis
import linecache
import os
import sys
from typing import Any, Callable, Deque, List, Optional, Tuple, TypeVar

# So many commands are remembered.
MOST = 1 << 17
# As code objects spell it: links are not followed.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _OfPackage(dict):
    """Whether a source file belongs to this package: by name, found out once."""

    def __missing__(self, filename: str) -> bool:
        inside = self[filename] = filename.startswith(_PACKAGE)
        return inside


INSIDE = _OfPackage()
# The program's code and instruction; the innermost layer of the package's that it has called, if it has.
Origin = Tuple[Any, int, Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class LayerCall:
    """The function that calls a layer, its first argument."""

    code: Any = None

    @classmethod
    def decorate(cls, function: _Function) -> _Function:
        """Commands that the package gives within the function tell the layer's `name`."""
        cls.code = function.__code__
        return function


class SourceLines:
    """The origins of the last commands, by their numbers. Not thread-safe."""

    def __init__(self) -> None:
        self._pieces: Deque[Tuple[int, List[Optional[Origin]]]] = collections.deque()
        self._count = 0

    def add(self, batch: Any) -> None:
        """Remembers where a batch's commands came from: its `origins`, from its `first` on."""
        self._pieces.append((batch.first, batch.origins))
        self._count += len(batch.origins)
        while self._count > MOST:
            self._count -= len(self._pieces.popleft()[1])

    def describe(self, number: int) -> str:
        """Where a command came from, as a traceback prints it; nothing if that is forgotten."""
        for first, origins in reversed(self._pieces):
            if first <= number:
                found = origins[number - first] if number - first < len(origins) else None
                return "" if found is None else _describe(*found)
        return ""


def _describe(code: Any, offset: int, layer: str) -> str:
    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > offset:
            break
        line = number if number is not None else line
    text = linecache.getline(code.co_filename, line).strip()
    return (
        f'  File "{code.co_filename}", line {line}, in {code.co_name}\n'
        + (f"    {text}\n" if text else "")
        + (f"  In layer '{layer}'\n" if layer else "")
    )
