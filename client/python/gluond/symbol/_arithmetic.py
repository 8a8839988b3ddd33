"""Operators of Python on symbols. As in MXNet, two symbols must be of one shape: broadcasting has its own functions."""

from __future__ import annotations

import numbers
from typing import Any, NoReturn, TypeVar

from ..base import NotImplementedForSymbol
from . import _compose
from ._outputs import Outputs

S = TypeVar("S", bound=Outputs)
A = TypeVar("A", bound="SymbolArithmetic")


def unary(op: str, symbol: S) -> S:
    """The operator on one symbol."""
    return type(symbol)(_compose.apply(op, [symbol._entry("data")], {}, {}))


def binary(op: str, lhs: S, rhs: Outputs, hint: str) -> S:
    """The operator on two symbols."""
    return type(lhs)(_compose.apply(op, [lhs._entry("lhs"), rhs._entry("rhs")], {}, {}, hint=hint))


def scalar(op: str, symbol: S, value: Any, hint: str) -> S:
    """The operator on a symbol and a number."""
    return type(symbol)(_compose.apply(op, [symbol._entry("data")], {}, {"scalar": value}, hint=hint))


class SymbolArithmetic(Outputs):
    """The methods behind `a + b`, `-a`, `a > 1`, for Symbol."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # As `==` makes a symbol.
    __array_priority__ = 1000.0

    def __add__(self: A, other: Any) -> A:
        """self + other, elementwise; without broadcasting: see broadcast_add."""
        return self._binary(other, "elemwise_add", "_plus", "_plus_scalar", "_plusscalar")

    __radd__ = __add__

    def __sub__(self: A, other: Any) -> A:
        return self._binary(other, "elemwise_sub", "_minus", "_minus_scalar", "_minusscalar")

    def __rsub__(self: A, other: Any) -> A:
        return self._scalar(other, "_rminus_scalar", "_rminusscalar")

    def __mul__(self: A, other: Any) -> A:
        return self._binary(other, "elemwise_mul", "_mul", "_mul_scalar", "_mulscalar")

    __rmul__ = __mul__

    def __truediv__(self: A, other: Any) -> A:
        return self._binary(other, "elemwise_div", "_div", "_div_scalar", "_divscalar")

    def __rtruediv__(self: A, other: Any) -> A:
        return self._scalar(other, "_rdiv_scalar", "_rdivscalar")

    def __mod__(self: A, other: Any) -> A:
        return self._binary(other, "_mod", "_mod", "_mod_scalar", "_modscalar")

    def __rmod__(self: A, other: Any) -> A:
        return self._scalar(other, "_rmod_scalar", "_rmodscalar")

    def __pow__(self: A, other: Any) -> A:
        return self._binary(other, "_power", "_power", "_power_scalar", "_powerscalar")

    def __rpow__(self: A, other: Any) -> A:
        return self._scalar(other, "_rpower_scalar", "_rpower_scalar")

    def __neg__(self: A) -> A:
        return self._scalar(-1.0, "_mul_scalar", "_mulscalar")

    def __abs__(self: A) -> A:
        return unary("abs", self)

    def __eq__(self: A, other: Any) -> A:  # type: ignore[override]
        return self._binary(other, "_equal", "_equal", "_equal_scalar", "_equal_scalar")

    def __ne__(self: A, other: Any) -> A:  # type: ignore[override]
        return self._binary(other, "_not_equal", "_not_equal", "_not_equal_scalar", "_not_equal_scalar")

    def __gt__(self: A, other: Any) -> A:
        return self._binary(other, "_greater", "_greater", "_greater_scalar", "_greater_scalar")

    def __ge__(self: A, other: Any) -> A:
        return self._binary(other, "_greater_equal", "_greater_equal", "_greater_equal_scalar", "_greater_equal_scalar")

    def __lt__(self: A, other: Any) -> A:
        return self._binary(other, "_lesser", "_lesser", "_lesser_scalar", "_lesser_scalar")

    def __le__(self: A, other: Any) -> A:
        return self._binary(other, "_lesser_equal", "_lesser_equal", "_lesser_equal_scalar", "_lesser_equal_scalar")

    def _binary(self: A, other: Any, op: str, hint: str, scalar_op: str, scalar_hint: str) -> A:
        if isinstance(other, SymbolArithmetic):
            return binary(op, self, other, hint)
        return self._scalar(other, scalar_op, scalar_hint)

    def _scalar(self: A, other: Any, op: str, hint: str) -> A:
        if not isinstance(other, numbers.Number):
            raise TypeError(f"type {type(other)} not supported")
        return scalar(op, self, other, hint)

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol("__bool__", "bool")

    def __iadd__(self, other: Any) -> NoReturn:
        raise NotImplementedForSymbol("__iadd__", "+=", other)

    def __isub__(self, other: Any) -> NoReturn:
        raise NotImplementedForSymbol("__isub__", "-=", other)

    def __imul__(self, other: Any) -> NoReturn:
        raise NotImplementedForSymbol("__imul__", "*=", other)

    def __itruediv__(self, other: Any) -> NoReturn:
        raise NotImplementedForSymbol("__itruediv__", "/=", other)
