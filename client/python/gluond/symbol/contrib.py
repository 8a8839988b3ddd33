"""The server's operators named `_contrib_...`, without that."""

from __future__ import annotations

from .._documentation import fill_module
from ._control_flow import cond, foreach, while_loop  # noqa: F401
from ._functions import make

__getattr__, __dir__ = fill_module(globals(), make, ("_contrib_", "contrib_"))
