"""The modes of a user's code: recording is off, training is as given, new arrays are on the operator's device and stay
in this process."""

from __future__ import annotations

from typing import Any, Tuple

from .. import context as _context
from .._wire.mode import mode
from .local import make


class Inside:
    """Within, this thread runs the code of a custom operator. `called_back`: the server waits for it."""

    __slots__ = ("_training", "_context", "_called_back", "_recording", "_before")

    def __init__(self, training: bool, context: Any, called_back: bool = False, recording: bool = False) -> None:
        self._training = training
        self._context = context
        self._called_back = called_back
        self._recording = recording
        self._before: Tuple[Any, ...] = ()

    def __enter__(self) -> None:
        current = _context._current
        self._before = (mode.recording, mode.training, mode.make_local, mode.called_back, mode.when_fresh, current.value)
        mode.set(self._recording, self._training)
        mode.make_local = make
        mode.called_back = mode.called_back or self._called_back
        mode.when_fresh = b""
        current.value = self._context

    def __exit__(self, *exc: object) -> None:
        recording, training, mode.make_local, mode.called_back, mode.when_fresh, _context._current.value = self._before
        mode.set(recording, training)
