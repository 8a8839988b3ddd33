"""The functions of `nd` that the server's operators become: `nd.FullyConnected(x, w, b, num_hidden=10)`."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

from .._documentation import document, signature
from .._operators import OperatorInfo
from ..base import MXNetError
from . import _call
from ._array import NDArray
from ._create import made

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
        return _call.LIKE_FIRST
    return _call.BROADCAST if info.name.startswith(("broadcast_", "elemwise_")) and len(info.inputs) == 2 and not (
        info.parameters) else _call.UNKNOWN


def make_function(info: OperatorInfo, name: str) -> Callable[..., Any]:
    """The function for an operator. Calls of one form (as many arrays, the same keywords) are worked out once."""
    if not info.inputs:
        return _described(_maker(info), info, name)
    forms: dict[Any, _call.Call] = {}
    rule = _rule(info)
    invoke = _call.invoke

    def function(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        kwargs.pop("name", None)  # A symbol's.
        tensors: Sequence[NDArray] = args
        form: Any = len(args)
        for arg in args:
            if not isinstance(arg, NDArray):
                tensors = [each for each in args if isinstance(each, NDArray)]
                form = tuple([NDArray if isinstance(each, NDArray) else (type(each), each) for each in args])
                break
        if kwargs:
            form = (form, *kwargs.items(), *map(type, kwargs.values()))
        try:
            call = forms.get(form)
        except TypeError:  # Something has no hash: a list, or numpy's array.
            form = call = None
        if call is not None:
            return invoke(call, tensors, out)
        parsed = info.parse(args, kwargs, NDArray, ("ctx", "attr", "__layout__"))
        tensors = info.in_order(parsed)
        if not tensors:
            raise MXNetError(f"{info.name} needs NDArrays: {', '.join(each.name for each in info.inputs)}")
        kind = info.outputs_of(parsed.attributes, len(tensors))
        call = _call.intern(info.name, parsed.attributes, len(tensors), len(kind.outputs), 0, kind.auxiliary, rule)
        if form is not None and not parsed.named:
            if len(forms) >= _MOST_FORMS:
                forms.clear()
            forms[form] = call
        return invoke(call, tensors, out)

    return _described(function, info, name)


def _maker(info: OperatorInfo) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> NDArray:
        parsed = info.parse(args, kwargs, NDArray, ("out", "name", "ctx"))
        attributes = {key: value for key, value in parsed.attributes.items() if key not in ("ctx", "dtype")}
        named = parsed.attributes.get("dtype")
        dtype = np.dtype(np.float32 if named in (None, "None", "") else named)
        out: Optional[NDArray] = parsed.rest.get("out")
        result = made(info.name, attributes, parsed.rest.get("ctx"), None, dtype, out)
        if out is None and named is None:
            result._dtype = None
        return result

    return function


def _described(function: Callable[..., Any], info: OperatorInfo, name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "gluond.ndarray"
    function.__doc__ = document(info, "NDArray")
    function.__signature__ = signature(info)  # type: ignore[attr-defined]
    return function
