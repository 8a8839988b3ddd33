"""The modes of a thread's commands: whether they are recorded, and whether they train."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, ContextManager, Optional

from .encoding import mode_flags

_FLAGS = {(recording, training): mode_flags(recording, training) for recording in (False, True)
          for training in (False, True)}


class _Mode(threading.local):
    """`flags`: a command's fields for both modes. `when_fresh`: a field of every call that writes to an existing array,
    see only_if_fresh in _array/tape.py. `make_local`: the maker of mx.nd.array()'s results while the thread runs the
    code of a custom operator, whose new arrays stay here until an operator of the server reads them. `called_back`: the
    server waits for the thread, so it must not wait for all commands. `around_wait`: the context of the thread's waits
    for the server."""

    recording = False
    training = False
    flags = _FLAGS[False, False]
    when_fresh = b""
    make_local: Optional[Callable[..., Any]] = None
    called_back = False
    around_wait: Callable[[], ContextManager] = contextlib.nullcontext

    def set(self, recording: bool, training: bool) -> None:
        """Sets the modes of this thread."""
        self.recording = recording
        self.training = training
        self.flags = _FLAGS[recording, training]


mode = _Mode()
NOT_RECORDING = _FLAGS[False, False]
