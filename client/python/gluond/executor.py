"""Executor: a symbol with arrays for its variables, run forward and backward. Made by `Symbol.bind` and `simple_bind`."""

from __future__ import annotations

from .symbol._executor import Executor

__all__ = ["Executor"]
