"""All operators of the server that are public: `nd.op.relu(x)`."""

from __future__ import annotations

from .._documentation import fill_module
from .._array.functions_of_operators import make_function

__getattr__, __dir__ = fill_module(globals(), make_function)
