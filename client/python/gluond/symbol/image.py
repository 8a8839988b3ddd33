"""The server's operators named `_image_...`, without that."""

from __future__ import annotations

from .._documentation import fill_module
from ._functions import make

__getattr__, __dir__ = fill_module(globals(), make, ("_image_", "image_"))
