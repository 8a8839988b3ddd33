"""Operators as methods of Symbol: `x.sum(axis=1)` is `mx.sym.sum(x, axis=1)`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable

from ..base import NotImplementedForSymbol

if TYPE_CHECKING:
    from .symbol import Symbol

# Functions of mx.sym that take the symbol first.
_OPERATORS = """abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes
broadcast_like broadcast_to cbrt ceil clip cos cosh degrees depth_to_space diag exp expand_dims expm1 fix flatten flip
floor log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot ones_like pad pick prod radians rcbrt
reciprocal relu repeat reshape_like rint round rsqrt shape_array sigmoid sign sin sinh size_array slice slice_axis
slice_like softmax softmin sort space_to_depth split split_v2 sqrt square squeeze sum swapaxes take tan tanh tile topk
transpose trunc zeros_like""".split()

# Members of NDArray that need values.
_NEEDS_VALUES = "wait_to_read asnumpy asscalar copy as_in_context detach backward".split()


def _function(name: str) -> Callable[..., "Symbol"]:
    return getattr(importlib.import_module(__package__), name)


def _method(name: str) -> Callable[..., "Symbol"]:
    def method(self: "Symbol", *args: Any, **kwargs: Any) -> "Symbol":
        return _function(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Symbol.{name}"
    method.__doc__ = f"The function `mx.sym.{name}` with this symbol as its first argument."
    return method


def _missing(name: str) -> Callable[..., "Symbol"]:
    def method(self: "Symbol", *args: Any, **kwargs: Any) -> "Symbol":
        raise NotImplementedForSymbol(name, None)

    method.__name__ = name
    method.__doc__ = "Of NDArray only: a symbol holds no values."
    return method


class Fluent:
    """The operators as methods, for Symbol."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods that are set below."""

    def reshape(self, *shape: Any, **kwargs: Any) -> "Symbol":
        """The same elements in another shape: `x.reshape((2, -1))`, `x.reshape(2, -1)` or `x.reshape(shape=...)`.

        0 keeps a dimension; -1, -2, -3 and -4 are those of the operator `reshape`.
        """
        if len(shape) == 1 and not isinstance(shape[0], int):
            kwargs["shape"] = shape[0]
        elif shape:
            kwargs["shape"] = shape
        return _function("reshape")(self, **kwargs)

    def astype(self, dtype: Any, **kwargs: Any) -> "Symbol":
        """The values as another dtype."""
        return _function("cast")(self, dtype=dtype, **kwargs)

    def as_np_ndarray(self) -> "Symbol":
        """MXNet's deep numpy interface, which gluond does not have."""
        raise NotImplementedForSymbol("as_np_ndarray", None)

    def as_nd_ndarray(self) -> "Symbol":
        """The symbol itself."""
        return self  # type: ignore[return-value]


for _name in _OPERATORS:
    setattr(Fluent, _name, _method(_name))
for _name in _NEEDS_VALUES:
    setattr(Fluent, _name, _missing(_name))
