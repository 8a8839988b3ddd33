"""Computations that only arrays can do, whose shapes and values are known."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from ..base import MXNetError


class NoGraph(MXNetError):
    """A computation that cannot be a graph."""


def on_arrays_only(function: str, why: str) -> Callable[..., NoReturn]:
    """A function of symbols that raises NoGraph. function: `contrib.boolean_mask`. A HybridBlock that uses it runs on arrays."""

    def refuse(F: Any, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: N803
        raise NoGraph(f"sym.{function} is no graph: {why}. nd.{function} runs on arrays, and so does a HybridBlock that uses F")

    refuse.__doc__ = f"NoGraph: {why}."
    return refuse
