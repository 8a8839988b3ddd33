"""NumPy's functions on NDArrays: `np.sum(x)` and others that numpy passes on to an array's own method are `x.sum()`, an NDArray, as
with MXNet; `np.sin(x)` and `np.mean(x)` compute in this process, on fetched values, and give numpy arrays. `2 * x` and `a + x`,
where numpy's side comes first, are NDArrays as `x + a` is.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import numpy as np

from . import arithmetic
from .calls import Array

_OPERATORS = {
    np.add: arithmetic.ADD,
    np.subtract: arithmetic.SUB,
    np.multiply: arithmetic.MUL,
    np.true_divide: arithmetic.DIV,
    np.remainder: arithmetic.MOD,
    np.power: arithmetic.POWER,
    np.equal: arithmetic.EQUAL,
    np.not_equal: arithmetic.NOT_EQUAL,
    np.greater: arithmetic.GREATER,
    np.greater_equal: arithmetic.GREATER_EQUAL,
    np.less: arithmetic.LESSER,
    np.less_equal: arithmetic.LESSER_EQUAL,
}
_KNOWN_HERE: Dict[Callable[..., Any], Callable[[Any], Any]] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
}
# The functions that numpy itself passes on to a method of this name, and what stands in their first places.
_METHODS: Dict[Callable[..., Any], Tuple[str, Tuple[str, ...]]] = {
    **{getattr(np, name): (name, ("axis",)) for name in ("sum", "prod", "max", "min", "squeeze")},
    np.amax: ("max", ("axis",)),
    np.amin: ("min", ("axis",)),
    np.argmax: ("argmax", ("axis",)),
    np.argmin: ("argmin", ("axis",)),
    np.repeat: ("repeat", ("repeats", "axis")),
    np.swapaxes: ("swapaxes", ("axis1", "axis2")),
    np.clip: ("clip", ("a_min", "a_max")),
}


class NumpyProtocols:
    """The methods that numpy calls; NDArray is one."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc in _OPERATORS and not isinstance(inputs[0], Array):
            return _OPERATORS[ufunc].reversed(inputs[1], inputs[0])
        _check_out(ufunc, kwargs.get("out"))
        return getattr(ufunc, method)(*_fetched(inputs), **_fetched(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _KNOWN_HERE and len(args) == 1 and not kwargs:
            return _KNOWN_HERE[function](args[0])
        _check_out(function, kwargs.get("out"))
        found = _by_method(function, args, kwargs)
        if found is not None:
            return found
        return function(*_fetched(args), **_fetched(kwargs))


def _by_method(function: Any, args: Any, kwargs: Any) -> Any:
    """What the NDArray's method gives; None for a function that has none, or that is given what only numpy's takes."""
    method, places = _METHODS.get(function, ("", ()))
    if not method or not args or not isinstance(args[0], Array) or len(args) > 1 + len(places):
        return None
    named = [*zip(places, args[1:]), *kwargs.items()]
    given = {name: each for name, each in named if each is not None or name not in ("axis", "out")}
    if not given.keys() <= {*places, "keepdims"} or not all(isinstance(each, (int, float, tuple)) for each in given.values()):
        return None
    return getattr(args[0], method)(*[given.pop(place) for place in places if place in given], **given)


def _check_out(function: Any, out: Any) -> None:
    if isinstance(out, Array) or isinstance(out, tuple) and any(isinstance(each, Array) for each in out):
        raise TypeError(
            f"np.{function.__name__} cannot write into an NDArray, whose values are on the server. Assign the result: "
            f"x[:] = np.{function.__name__}(...), or use the function of mx.nd with out=x"
        )


def _fetched(thing: Any) -> Any:
    """NDArrays as numpy's, in tuples, lists and dicts as well."""
    if isinstance(thing, Array):
        return thing.asnumpy()  # type: ignore[attr-defined]
    if type(thing) in (tuple, list):
        return type(thing)(map(_fetched, thing))
    if type(thing) is dict:
        return {name: _fetched(each) for name, each in thing.items()}
    return thing
