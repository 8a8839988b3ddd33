"""Python's operators on NDArrays: `a + b`, `2 ** a`, `a == b`, `a += 1`; and the functions `add`, `power`, ..."""

from __future__ import annotations

import numbers
from typing import Any, Callable, Optional

import numpy as np

from .._operators import find
from . import calls, transfer
from .calls import Array, Call, binary, known, unary

_MOST_SCALARS = 512


class OfOne:
    """A function of one array, whose result has its shape."""

    def __init__(self, op: str, **attributes: str) -> None:
        self._op = op
        self._attributes = attributes
        self._call: Optional[Call] = None  # Made at the first use.

    def __call__(self, x: Any) -> Any:
        call = self._call
        if call is None:
            call = self._call = known(find(self._op), self._attributes, 1)
        return unary(call, x)


class _Family:
    """One function of two numbers: its operators for two arrays, an array and a number, a number and an array."""

    def __init__(
        self, name: str, scalar: str, reversed_scalar: Optional[str], sign: str, ufunc: Any = None, what: str = ""
    ) -> None:
        self.sign = sign
        self._ufunc = ufunc  # numpy's, for `lhs op= rhs` of values in this process,
        self._what = what  # and the verb for it.
        self._op = f"broadcast_{name}"
        self._call: Optional[Call] = None  # Made at the first use.
        self._scalar = scalar
        self._reversed = reversed_scalar
        self._with_scalar: dict[Any, Call] = {}

    def _of_arrays(self) -> Call:
        self._call = known(find(self._op), {}, 2)
        return self._call

    def _scalar_call(self, op: str, value: Any) -> Call:
        key = (op, value or repr(float(value)))  # 0.0 == -0.0.
        call = self._with_scalar.get(key)
        if call is None:
            if len(self._with_scalar) >= _MOST_SCALARS:
                calls.forget_oldest(self._with_scalar)
            call = self._with_scalar[key] = known(find(op), {"scalar": repr(float(value))}, 1)
        return call

    def __call__(self, lhs: Any, rhs: Any) -> Any:
        """lhs is an NDArray."""
        kind = type(rhs)
        if kind is float or kind is int:
            return unary(self._scalar_call(self._scalar, rhs), lhs)
        if isinstance(rhs, Array):
            return binary(self._call or self._of_arrays(), lhs, rhs)
        if isinstance(rhs, (numbers.Number, np.generic)):
            return unary(self._scalar_call(self._scalar, rhs), lhs)
        return self(lhs, _beside(lhs, rhs, self.sign))

    def reversed(self, lhs: Any, rhs: Any) -> Any:
        """The same with the arguments exchanged; lhs is an NDArray, rhs is none."""
        if self._reversed is None and not isinstance(rhs, np.ndarray):
            return self(lhs, rhs)
        if self._reversed is not None and isinstance(rhs, (numbers.Number, np.generic)):
            return unary(self._scalar_call(self._reversed, rhs), lhs)
        return self(_beside(lhs, rhs, self.sign), lhs)

    def into(self, lhs: Any, rhs: Any) -> Any:
        """lhs = lhs op rhs."""
        if not lhs._where.writable:
            calls.check_writable(lhs, self._what)
        if lhs._where.here is not None and lhs._where.compute(lhs, self._ufunc, rhs):
            return lhs
        if isinstance(rhs, Array):
            return calls.invoke(self._call or self._of_arrays(), (lhs, rhs), lhs)
        if isinstance(rhs, (numbers.Number, np.generic)):
            return calls.invoke(self._scalar_call(self._scalar, rhs), (lhs,), lhs)
        return self.into(lhs, _beside(lhs, rhs, self.sign))


def _beside(x: Any, other: Any, sign: str) -> Any:
    """A numpy array as an NDArray of x's dtype beside x; TypeError where that loses values, or for other things."""
    if not isinstance(other, np.ndarray):
        raise TypeError(f"type {type(other)} not supported by {sign} with an NDArray. Make it one: mx.nd.array(...)")
    dtype = np.dtype(x.dtype)
    if not np.can_cast(other.dtype, dtype, "same_kind"):
        raise TypeError(
            f"{sign}: an array of numpy's of {other.dtype} loses values in the NDArray's {dtype}. Cast one: "
            f"x.astype('{other.dtype}'), or a.astype('{dtype}')"
        )
    return transfer.put(type(x), other, x._context, dtype)


ADD = _Family("add", "_plus_scalar", None, "+", np.add, "add to")
SUB = _Family("sub", "_minus_scalar", "_rminus_scalar", "-", np.subtract, "subtract from")
MUL = _Family("mul", "_mul_scalar", None, "*", np.multiply, "multiply to")
DIV = _Family("div", "_div_scalar", "_rdiv_scalar", "/", np.true_divide, "divide from")
MOD = _Family("mod", "_mod_scalar", "_rmod_scalar", "%", np.remainder, "take the remainder of")
POWER = _Family("power", "_power_scalar", "_rpower_scalar", "**")
EQUAL = _Family("equal", "_equal_scalar", None, "==")
NOT_EQUAL = _Family("not_equal", "_not_equal_scalar", None, "!=")
GREATER = _Family("greater", "_greater_scalar", "_lesser_scalar", ">")
GREATER_EQUAL = _Family("greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar", ">=")
LESSER = _Family("lesser", "_lesser_scalar", "_greater_scalar", "<")
LESSER_EQUAL = _Family("lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar", "<=")
MAXIMUM = _Family("maximum", "_maximum_scalar", None, "max")
MINIMUM = _Family("minimum", "_minimum_scalar", None, "min")
LOGICAL_AND = _Family("logical_and", "_logical_and_scalar", None, "and")
LOGICAL_OR = _Family("logical_or", "_logical_or_scalar", None, "or")
LOGICAL_XOR = _Family("logical_xor", "_logical_xor_scalar", None, "xor")
_NEGATIVE = OfOne("negative")
_ABS = OfOne("abs")


class Arithmetic:
    """The operators of Python; NDArray is one."""

    __slots__ = ()

    # numpy leaves `array + x` to x.
    __array_priority__ = 1000.0

    def __add__(self, other: Any) -> Any:
        return ADD(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return SUB(self, other)

    def __rsub__(self, other: Any) -> Any:
        return SUB.reversed(self, other)

    def __mul__(self, other: Any) -> Any:
        return MUL(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return DIV(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return DIV.reversed(self, other)

    __div__ = __truediv__
    __rdiv__ = __rtruediv__

    def __mod__(self, other: Any) -> Any:
        return MOD(self, other)

    def __rmod__(self, other: Any) -> Any:
        return MOD.reversed(self, other)

    def __pow__(self, other: Any) -> Any:
        return POWER(self, other)

    def __rpow__(self, other: Any) -> Any:
        return POWER.reversed(self, other)

    def __iadd__(self, other: Any) -> Any:
        return ADD.into(self, other)

    def __isub__(self, other: Any) -> Any:
        return SUB.into(self, other)

    def __imul__(self, other: Any) -> Any:
        return MUL.into(self, other)

    def __itruediv__(self, other: Any) -> Any:
        return DIV.into(self, other)

    __idiv__ = __itruediv__

    def __imod__(self, other: Any) -> Any:
        return MOD.into(self, other)

    def __neg__(self) -> Any:
        return _NEGATIVE(self)

    def __abs__(self) -> Any:
        return _ABS(self)

    def __eq__(self, other: Any) -> Any:
        return EQUAL(self, other)

    def __ne__(self, other: Any) -> Any:
        return NOT_EQUAL(self, other)

    def __gt__(self, other: Any) -> Any:
        return GREATER(self, other)

    def __ge__(self, other: Any) -> Any:
        return GREATER_EQUAL(self, other)

    def __lt__(self, other: Any) -> Any:
        return LESSER(self, other)

    def __le__(self, other: Any) -> Any:
        return LESSER_EQUAL(self, other)

    def __hash__(self) -> int:
        return id(self) >> 4


def _function(family: _Family, python: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, Array):
            return family(lhs, rhs)
        if isinstance(rhs, Array):
            return family.reversed(rhs, lhs)
        if isinstance(lhs, numbers.Number) and isinstance(rhs, numbers.Number):
            return python(lhs, rhs)
        raise TypeError(f"type {type(lhs)} not supported")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"lhs {family.sign} rhs, elementwise with broadcasting. Each is an NDArray or a number."
    return function


add = _function(ADD, lambda l, r: l + r, "add")
subtract = _function(SUB, lambda l, r: l - r, "subtract")
multiply = _function(MUL, lambda l, r: l * r, "multiply")
divide = _function(DIV, lambda l, r: l / r, "divide")
true_divide = divide
modulo = _function(MOD, lambda l, r: l % r, "modulo")
_power = _function(POWER, lambda l, r: l**r, "power")


def power(base: Any, exp: Any) -> Any:
    """base ** exp, elementwise, with broadcasting. Each is an NDArray or a number."""
    return _power(base, exp)


equal = _function(EQUAL, lambda l, r: float(l == r), "equal")
not_equal = _function(NOT_EQUAL, lambda l, r: float(l != r), "not_equal")
greater = _function(GREATER, lambda l, r: float(l > r), "greater")
greater_equal = _function(GREATER_EQUAL, lambda l, r: float(l >= r), "greater_equal")
lesser = _function(LESSER, lambda l, r: float(l < r), "lesser")
lesser_equal = _function(LESSER_EQUAL, lambda l, r: float(l <= r), "lesser_equal")
maximum = _function(MAXIMUM, max, "maximum")
minimum = _function(MINIMUM, min, "minimum")
logical_and = _function(LOGICAL_AND, lambda l, r: float(bool(l) and bool(r)), "logical_and")
logical_or = _function(LOGICAL_OR, lambda l, r: float(bool(l) or bool(r)), "logical_or")
logical_xor = _function(LOGICAL_XOR, lambda l, r: float(bool(l) != bool(r)), "logical_xor")
