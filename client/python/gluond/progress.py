"""Progress of long work: a line in the terminal; in a notebook a line and a plot of the values.

    from gluond.progress import Progress

    progress = Progress(loader, 'epoch 1')
    for data, label in progress:
        ...
        trainer.step(batch_size)
        progress.show(loss=loss)
    progress.save('curve.svg')

`show` keeps NDArrays as they are, and fetches the mean of the latest one only when the line is drawn, twice a second. So
looking at the progress costs the training almost nothing.
"""
from __future__ import annotations

import pathlib
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import numpy as np

from ._array.array import NDArray
from ._curve import svg
from ._files import write_whole

__all__ = ["Progress"]

_WIDTH = 24


class Progress:
    """Iterates over `batches` and shows how far it has come.

    total: how many there are; default: len(batches), where that is known. every: seconds between two drawings.
    after: the one of the epoch before, whose curves go on.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        title: str = "",
        total: Optional[int] = None,
        every: float = 0.5,
        after: Optional[Progress] = None,
    ) -> None:
        self._batches = batches
        self._title = title
        self._total = total if total is not None else _length(batches)
        self._every = every
        self._values: Dict[str, Any] = {}
        self._history: Dict[str, List[Tuple[int, float]]] = after.history if after is not None else {}
        # Drawings are scheduled by batches, not by time: a call only sends commands and is quick, and a drawing waits
        # for all of them.
        self._done, self._next, self._last, self._is_under_way = 0, 1, 0, False
        self._before: int = after._before + after._done if after is not None else 0
        self._begin = self._drawn = 0.0
        self._surface: Any = _Notebook() if _in_notebook() else _Terminal()

    def __len__(self) -> int:
        if self._total is None:
            raise TypeError("the number of batches is not known")
        return self._total

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        try:
            for done, batch in enumerate(self._batches, 1):
                yield batch
                self.reach(done)
            self.reach(self._done, last=True)
        finally:
            self.leave()

    def begin(self) -> None:
        """The first batch begins: for work that is no loop over batches, and tells by reach() how far it is."""
        self._done, self._next, self._last, self._is_under_way = 0, 1, 0, True
        self._begin = self._drawn = time.monotonic()

    def reach(self, done: int, last: bool = False) -> None:
        """So many batches are done. last: there are no more."""
        self._done = done
        if last or self._done >= self._next or time.monotonic() - self._drawn >= 2 * self._every:
            self._draw(last)
        self._is_under_way = not last

    def leave(self) -> None:
        """Ends the line where it is, so that the next output begins another one."""
        if self._is_under_way:
            self._surface.leave()
            self._is_under_way = False

    def show(self, **values: Any) -> None:
        """Numbers, or arrays of which the mean is shown, from now on."""
        self._values.update(values)

    @property
    def history(self) -> Dict[str, List[Tuple[int, float]]]:
        """For each name, (number of batches, value) at each drawing."""
        return self._history

    def save(self, path: Union[str, pathlib.Path]) -> None:
        """Writes the curves as a picture in SVG."""
        write_whole(path, [svg(self._history, ", ".join(self._history)).encode()])

    def _draw(self, last: bool) -> None:
        for name, value in self._values.items():
            number = float(np.mean(value.asnumpy() if isinstance(value, NDArray) else value))
            self._history.setdefault(name, []).append((self._before + self._done, number))
        now = time.monotonic()
        each = (now - self._drawn) / max(self._done - self._last, 1)
        self._last, self._drawn = self._done, now
        self._next = self._done + max(1, int(self._every / max(each, 1e-9)))
        self._surface.draw(self._line(), self._history, last)

    def _line(self) -> str:
        seconds = max(self._drawn - self._begin, 1e-9)
        parts = [self._title] if self._title else []
        if self._total:
            filled = min(_WIDTH, _WIDTH * self._done // self._total)
            left = seconds / max(self._done, 1) * max(self._total - self._done, 0)
            parts.append(f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._total}")
            parts.append(f"{self._done / seconds:.1f}/s, {left:.0f} s left" if left else f"{seconds:.1f} s")
        else:
            parts.append(f"{self._done} batches, {self._done / seconds:.1f}/s")
        parts += [f"{name} {points[-1][1]:.4g}" for name, points in self._history.items()]
        return "  ".join(parts)


class _Terminal:
    """One line that is written over on a terminal; elsewhere, as in a log, only its last state."""

    def draw(self, line: str, history: Dict[str, List[Tuple[int, float]]], last: bool) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        elif last:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def leave(self) -> None:
        """Ends the line, so that the next output begins a new one."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()


class _Notebook:
    """A line and a plot, in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, line: str, history: Dict[str, List[Tuple[int, float]]], last: bool) -> None:
        from IPython import display

        content = _Picture(line, history)
        if self._handle is None:
            self._handle = display.display(content, display_id=True)
        else:
            self._handle.update(content)

    def leave(self) -> None:
        """The plot stays."""


class _Picture:
    """A notebook's view: the line, and the curves where there are some."""

    def __init__(self, line: str, history: Dict[str, List[Tuple[int, float]]]) -> None:
        self._line = line
        self._svg = svg(history, line) if any(len(points) > 1 for points in history.values()) else None

    def __repr__(self) -> str:
        return self._line

    def _repr_svg_(self) -> Optional[str]:
        return self._svg


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _length(batches: Iterable[Any]) -> Optional[int]:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:
        return None
