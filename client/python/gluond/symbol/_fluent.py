"""Operators as methods of Symbol: `x.sum(axis=1)` is `mx.sym.sum(x, axis=1)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar, Union

from .._methods import OPERATORS, add_methods
from ..base import NotImplementedForSymbol
from ._functions_of_symbols import call, function
from ._outputs import Outputs

S = TypeVar("S", bound=Outputs)

# NDArray has forms of its own of these.
_FURTHER = ("broadcast_to", "expand_dims", "flatten", "squeeze")

# Members of NDArray that need values.
_NEEDS_VALUES = "wait_to_read asnumpy asscalar copy as_in_context detach backward".split()


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


add_methods(SymbolFluent, "Symbol", "mx.sym", (*OPERATORS, *_FURTHER), lambda symbol, name: function(type(symbol), name))
for _name in _NEEDS_VALUES:
    setattr(SymbolFluent, _name, _missing(_name))
