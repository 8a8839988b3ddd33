"""What autograd and the operators share: whether this thread records, and whether it trains."""

from __future__ import annotations

import threading

from ._wire.encoding import mode_flags

_FLAGS = {(recording, training): mode_flags(recording, training) for recording in (False, True)
          for training in (False, True)}


class _Mode(threading.local):
    """`flags` is what a command says of both. `when_fresh`: a field that goes with every call that writes to an existing
    array, see autograd.only_if_fresh. `inside`: this thread runs the code of a custom operator, whose new arrays stay here
    until an operator of the server reads them; `called_back`: the server waits for it, so it must not wait for all."""

    recording = False
    training = False
    flags = _FLAGS[False, False]
    when_fresh = b""
    inside = False
    called_back = False

    def set(self, recording: bool, training: bool) -> None:
        """For this thread, from now on."""
        self.recording = recording
        self.training = training
        self.flags = _FLAGS[recording, training]


mode = _Mode()
NOT_RECORDING = _FLAGS[False, False]
