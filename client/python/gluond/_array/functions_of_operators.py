"""The functions of `nd` for the server's operators, also those without input arrays: `nd.random_uniform(0, 1)`."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from .._operators import OperatorInfo
from . import transfer
from .array import NDArray
from .functions_of_arrays import described, function_of_arrays


def make_function(info: OperatorInfo, name: str) -> Callable[..., Any]:
    """The function for an operator."""
    return function_of_arrays(info, name) if info.inputs else described(_maker(info), info, name)


def _maker(info: OperatorInfo) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> NDArray:
        parsed = info.parse(args, kwargs, NDArray, "NDArray", ("out", "name", "ctx"))
        attributes = {key: value for key, value in parsed.attributes.items() if key not in ("ctx", "dtype")}
        named = parsed.attributes.get("dtype")
        dtype = np.dtype(np.float32 if named in (None, "None", "") else named)
        out: Optional[NDArray] = parsed.rest.get("out")
        result = transfer.made(NDArray, info.name, attributes, parsed.rest.get("ctx"), None, dtype, out)
        if out is None and named is None:
            result._dtype = None
        return result

    return function
