"""Operators as methods: `x.sum(axis=0)` is `nd.sum(x, axis=0)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .functions_of_arrays import function

FLUENT = """
abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes broadcast_like cbrt
ceil clip cos cosh degrees depth_to_space diag exp expm1 fix flip floor log log10 log1p log2 log_softmax max mean min nanprod
nansum norm one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt shape_array
sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort space_to_depth split sqrt square sum swapaxes
take tan tanh tile topk transpose trunc zeros_like
""".split()


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"NDArray.{name}"
    method.__doc__ = f"`nd.{name}(x, ...)` of this array."
    return method


class Fluent:
    """NDArray is one."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods that are set below."""


for _name in FLUENT:
    setattr(Fluent, _name, _method(_name))
