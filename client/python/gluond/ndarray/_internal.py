"""Operators that begin with an underscore: `nd._internal._plus_scalar(x, scalar=1)`."""

from __future__ import annotations

from .._array.functions_of_operators import make_function
from .._documentation import fill_module
from ._unique import _sample_unique_zipfian  # noqa: F401

__getattr__, __dir__ = fill_module(globals(), make_function, internal=True)
