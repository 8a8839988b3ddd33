"""The lines of the user's program that gave commands: remembered cheaply, looked up when a command has failed."""

from __future__ import annotations

import collections
import dis
import linecache
import os
from typing import Any, Deque, List, Tuple

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


class SourceLines:
    """The lines of the last commands, by their numbers: code object and instruction. Not thread-safe."""

    def __init__(self) -> None:
        self._pieces: Deque[Tuple[int, List[Any], List[int]]] = collections.deque()
        self._count = 0

    def add(self, batch: Any) -> None:
        """Remembers where a batch's commands came from: its `codes` and `offsets`, from its `first` on."""
        self._pieces.append((batch.first, batch.codes, batch.offsets))
        self._count += len(batch.codes)
        while self._count > MOST:
            self._count -= len(self._pieces.popleft()[1])

    def describe(self, number: int) -> str:
        """Where a command came from, as a traceback prints it; nothing if that is forgotten."""
        for first, codes, offsets in reversed(self._pieces):
            if first <= number:
                place = number - first
                return _describe(codes[place], offsets[place]) if place < len(offsets) and codes[place] else ""
        return ""


def _describe(code: Any, offset: int) -> str:
    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > offset:
            break
        line = number if number is not None else line
    text = linecache.getline(code.co_filename, line).strip()
    return f'  File "{code.co_filename}", line {line}, in {code.co_name}\n' + (f"    {text}\n" if text else "")
