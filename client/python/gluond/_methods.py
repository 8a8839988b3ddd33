"""Operators that are methods of an NDArray and of a Symbol: `x.sum(axis=0)` is `nd.sum(x, axis=0)`, or `sym.sum(x, axis=0)`."""

from __future__ import annotations

from typing import Any, Callable, Iterable

OPERATORS = """
abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes broadcast_like cbrt
ceil clip cos cosh degrees depth_to_space diag exp expm1 fix flip floor log log10 log1p log2 log_softmax max mean min nanprod
nansum norm one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt shape_array
sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort space_to_depth split sqrt square sum swapaxes
take tan tanh tile topk transpose trunc zeros_like
""".split()


Find = Callable[[Any, str], Callable[..., Any]]  # The module's function of that name, for such an object.


def add_methods(owner: type, kind: str, module: str, names: Iterable[str], find: Find) -> None:
    """Gives `owner`, the base of `kind`, a method for each name of an operator."""
    for name in names:
        setattr(owner, name, _method(kind, module, name, find))


def _method(kind: str, module: str, name: str, find: Find) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return find(self, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"{kind}.{name}"
    method.__doc__ = f"`{module}.{name}(x, ...)` of this {kind}."
    return method
