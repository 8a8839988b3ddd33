"""Functions of arrays for the server's operators: `nd.FullyConnected(x, w, b, num_hidden=10)`, `x.sum(axis=0)`."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .._documentation import document, fill_module, signature
from .._operators import OperatorInfo
from ..base import MXNetError
from . import calls
from .calls import Array

_MOST_FORMS = 256


def function_of_arrays(info: OperatorInfo, name: str) -> Callable[..., Any]:
    """The function for an operator that takes arrays. Each form of call (number of arrays, keywords) is parsed once."""
    forms: dict[Any, calls.Call] = {}
    invoke = calls.invoke

    def function(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        kwargs.pop("name", None)  # A symbol's.
        tensors: Sequence[Array] = args
        form: Any = len(args)
        for arg in args:
            if not isinstance(arg, Array):
                tensors = [each for each in args if isinstance(each, Array)]
                form = tuple([Array if isinstance(each, Array) else (type(each), each) for each in args])
                break
        if kwargs:
            form = (form, *kwargs.items(), *map(type, kwargs.values()))
        try:
            call = forms.get(form)
        except TypeError:  # Something has no hash: a list, or numpy's array.
            form = call = None
        if call is not None:
            return invoke(call, tensors, out)
        parsed = info.parse(args, kwargs, Array, "NDArray", ("ctx", "attr", "__layout__"))
        tensors = info.in_order(parsed)
        if not tensors:
            raise MXNetError(f"{info.name} needs NDArrays: {', '.join(each.name for each in info.inputs)}")
        call = calls.known(info, parsed.attributes, len(tensors))
        if form is not None and not parsed.named:
            if len(forms) >= _MOST_FORMS:
                forms.clear()
            forms[form] = call
        return invoke(call, tensors, out)

    return described(function, info, name)


def described(function: Callable[..., Any], info: OperatorInfo, name: str) -> Callable[..., Any]:
    """The function with the operator's documentation."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "gluond.ndarray"
    function.__doc__ = document(info, "NDArray")
    function.__signature__ = signature(info)  # type: ignore[attr-defined]
    return function


_known: dict[str, Any] = {"__name__": "gluond.ndarray"}
_make_known, _ = fill_module(_known, function_of_arrays)


def function(name: str) -> Callable[..., Any]:
    """The function of this name, for methods."""
    return _known.get(name) or _make_known(name)
