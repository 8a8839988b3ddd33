"""The server's operators named `_image_...`, without that."""

from __future__ import annotations

from .._documentation import fill_module
from ._composed import (crop, flip_left_right, flip_top_bottom, normalize, random_flip_left_right,  # noqa: F401
                        random_flip_top_bottom, to_tensor)
from ._functions import make

__getattr__, __dir__ = fill_module(globals(), make, ("_image_", "image_"))
