"""Operators on images: `nd.image.to_tensor(x)`."""

from __future__ import annotations

from .._documentation import fill_module
from ._functions_of_operators import make_function

__getattr__, __dir__ = fill_module(globals(), make_function, ("_image_",))
