"""Operators as methods of Symbol: `x.sum(axis=1)` is `mx.sym.sum(x, axis=1)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar, Union

from ..base import NotImplementedForSymbol
from ._functions_of_symbols import call, function
from ._outputs import Outputs

S = TypeVar("S", bound=Outputs)

# Functions of mx.sym that take the symbol first.
_OPERATORS = """abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes
broadcast_like broadcast_to cbrt ceil clip cos cosh degrees depth_to_space diag exp expand_dims expm1 fix flatten flip
floor log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot ones_like pad pick prod radians rcbrt
reciprocal relu repeat reshape_like rint round rsqrt shape_array sigmoid sign sin sinh size_array slice slice_axis
slice_like softmax softmin sort space_to_depth split sqrt square squeeze sum swapaxes take tan tanh tile topk
transpose trunc zeros_like""".split()

# Members of NDArray that need values.
_NEEDS_VALUES = "wait_to_read asnumpy asscalar copy as_in_context detach backward".split()


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(type(self), name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Symbol.{name}"
    method.__doc__ = f"The function `mx.sym.{name}` with this symbol as its first argument."
    return method


def _missing(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedForSymbol(name, None)

    method.__name__ = name
    method.__doc__ = "A method of NDArray only: a symbol holds no values."
    return method


class SymbolFluent(Outputs):
    """The operators as methods, for Symbol."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods that are set below."""

    def reshape(self: S, *shape: Any, **kwargs: Any) -> S:
        """The same elements in another shape: `x.reshape((2, -1))`, `x.reshape(2, -1)` or `x.reshape(shape=...)`.

        0 keeps a dimension; -1, -2, -3 and -4 are those of the operator `reshape`.
        """
        if len(shape) == 1 and not isinstance(shape[0], int):
            kwargs["shape"] = shape[0]
        elif shape:
            kwargs["shape"] = shape
        return function(type(self), "reshape")(self, **kwargs)

    def astype(self: S, dtype: Any, **kwargs: Any) -> S:
        """The values as another dtype."""
        return function(type(self), "cast")(self, dtype=dtype, **kwargs)

    def split_v2(self: S, indices_or_sections: Union[int, Sequence[int]], axis: int = 0, squeeze_axis: bool = False) -> S:
        """See mx.sym.split_v2."""
        if isinstance(indices_or_sections, int):
            where = {"indices": (), "sections": indices_or_sections}
        else:
            where = {"indices": (0, *indices_or_sections), "sections": 0}
        return call(type(self), "_split_v2", [self], {}, {**where, "axis": axis, "squeeze_axis": squeeze_axis})

    def as_np_ndarray(self) -> Any:
        """MXNet's deep numpy interface, which gluond does not have."""
        raise NotImplementedForSymbol("as_np_ndarray", None)

    def as_nd_ndarray(self: S) -> S:
        """The symbol itself."""
        return self


for _name in _OPERATORS:
    setattr(SymbolFluent, _name, _method(_name))
for _name in _NEEDS_VALUES:
    setattr(SymbolFluent, _name, _missing(_name))
