"""Operators that MXNet keeps apart: `nd.contrib.box_iou(a, b)`."""

from __future__ import annotations

from .._documentation import fill_module
from ._functions_of_operators import make_function

__getattr__, __dir__ = fill_module(globals(), make_function, ("_contrib_",))
