"""Operators as methods: `x.sum(axis=0)` is `nd.sum(x, axis=0)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._methods import OPERATORS, add_methods
from .functions_of_arrays import function


class Fluent:
    """NDArray is one."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods that are set below."""


add_methods(Fluent, "NDArray", "nd", OPERATORS, lambda _, name: function(name))
