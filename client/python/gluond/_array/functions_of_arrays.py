"""Functions of arrays for the server's operators: `nd.FullyConnected(x, w, b, num_hidden=10)`, `x.sum(axis=0)`."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .._documentation import document, fill_module, signature
from .._operators import OperatorInfo
from ..base import MXNetError
from . import calls
from .calls import Array

_MOST_FORMS = 256

# Operators whose output has its (first) input's shape and dtype: then `.shape` costs no round trip.
_LIKE_FIRST = frozenset("""
abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil clip cos cosh degrees erf erfinv exp expm1 fix floor gamma gammaln
hard_sigmoid log log10 log1p log2 log_softmax negative radians rcbrt reciprocal relu rint round rsqrt sigmoid sign sin sinh
smooth_l1 softmax softmin softsign sqrt square tan tanh trunc zeros_like ones_like BlockGrad make_loss Dropout Activation
LeakyReLU _copy LayerNorm reverse
""".split())


def _rule(info: OperatorInfo) -> int:
    if info.name in _LIKE_FIRST:
        return calls.LIKE_FIRST
    return calls.BROADCAST if info.name.startswith(("broadcast_", "elemwise_")) and len(info.inputs) == 2 and not (
        info.parameters) else calls.UNKNOWN


def function_of_arrays(info: OperatorInfo, name: str) -> Callable[..., Any]:
    """The function for an operator that takes arrays. Each form of call (number of arrays, keywords) is parsed once."""
    forms: dict[Any, calls.Call] = {}
    rule = _rule(info)
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
        kind = info.outputs_of(parsed.attributes, len(tensors))
        call = calls.intern(info.name, parsed.attributes, len(tensors), len(kind.outputs), 0, kind.auxiliary, rule)
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
