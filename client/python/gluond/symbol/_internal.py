"""The server's operators whose names begin with `_`, as in MXNet: `mx.sym._internal._plus_scalar`."""

from __future__ import annotations

from .._documentation import fill_module
from ._functions import make

__getattr__, __dir__ = fill_module(globals(), make, internal=True)
