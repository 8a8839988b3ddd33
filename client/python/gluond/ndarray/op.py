"""All operators of the server that are public: `nd.op.relu(x)`."""

from __future__ import annotations

from .._array.functions_of_operators import make_function
from .._documentation import fill_module

__getattr__, __dir__ = fill_module(globals(), make_function)
