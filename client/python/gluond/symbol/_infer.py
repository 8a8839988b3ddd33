"""The inference of shapes and dtypes for users: `infer_shape`, `infer_type` and their partial forms."""

from __future__ import annotations

import ast
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._wire.frame import frame
from ..base import MXNetError
from ._attributes import dtype_of, FLAG_DTYPES
from ._graph import Node
from ._outputs import Outputs

# The types of arguments, outputs and auxiliary states.
Inferred = Tuple[Optional[List[Any]], Optional[List[Any]], Optional[List[Any]]]


def shapes(symbol: Outputs, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Inferred:
    """See Symbol.infer_shape."""
    given = _by_name(symbol, args, kwargs, "shapes")
    for key, shape in given.items():
        if not isinstance(shape, (tuple, list)):
            raise TypeError(f"Arguments need to be shapes (tuple), but '{key}' is {type(shape)}.")
    known = {**declared_shapes(symbol), **given}
    result = symbol._define().infer(known, {})
    shown = _as_it_is if frame().np_shape else _legacy
    arguments, auxiliaries = _split(symbol, [shown(kind.shape) for kind in result.inputs])
    outputs = [shown(kind.shape) for kind in result.outputs]
    if partial or all(_is_known(shape) for shape in arguments + outputs + auxiliaries):
        return arguments, outputs, auxiliaries
    unknown = [(name, shape) for name, shape in zip(symbol.list_arguments(), arguments) if not _is_known(shape)]
    _warn("shape", "arguments (0s in shape means unknown dimensions)", unknown)
    return None, None, None


def types(symbol: Outputs, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Inferred:
    """See Symbol.infer_type."""
    given = {key: dtype_of(dtype) for key, dtype in _by_name(symbol, args, kwargs, "types").items()}
    known = {**declared_types(symbol), **given}
    result = symbol._define().infer({}, known)
    arguments, auxiliaries = _split(symbol, [_class(kind.dtype) for kind in result.inputs])
    outputs = [_class(kind.dtype) for kind in result.outputs]
    if partial or all(dtype is not None for dtype in arguments + outputs + auxiliaries):
        return arguments, outputs, auxiliaries
    _warn("type", "arguments", [(name, dtype) for name, dtype in zip(symbol.list_arguments(), arguments) if dtype is None])
    return None, None, None


def declared_shapes(symbol: Outputs) -> Dict[str, Tuple[int, ...]]:
    """The shapes that variables were made with."""
    return {node.name: ast.literal_eval(node.attrs["__shape__"]) for node in _inputs(symbol) if "__shape__" in node.attrs}


def declared_types(symbol: Outputs) -> Dict[str, str]:
    """The dtypes that variables were made with."""
    return {
        node.name: FLAG_DTYPES[int(node.attrs["__dtype__"])]
        for node in _inputs(symbol)
        if node.attrs.get("__dtype__", "-1") != "-1"
    }


def _inputs(symbol: Outputs) -> List[Node]:
    arguments, auxiliaries = symbol._variables()
    return arguments + auxiliaries


def _by_name(symbol: Outputs, args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> Dict[str, Any]:
    """The given value of each argument; None is left out. MXNetError: there is no such argument."""
    if args and kwargs:
        raise ValueError(f"Can only specify known argument {what} either by positional or kwargs way.")
    arguments = symbol.list_arguments()
    if len(args) > len(arguments):
        raise ValueError(f"{len(args)} {what} for {len(arguments)} arguments: {', '.join(arguments)}")
    inputs = symbol.list_inputs()
    for key in kwargs:
        if key not in inputs:
            listed = "".join(f"\n\t[{number}]{name}" for number, name in enumerate(inputs))
            raise MXNetError(f"Keyword argument name {key} not found.\nCandidate arguments:{listed}")
    return {key: value for key, value in {**dict(zip(arguments, args)), **kwargs}.items() if value is not None}


def _split(symbol: Outputs, of_inputs: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """The known types of inputs, of arguments and auxiliary states apart."""
    arguments, auxiliaries = symbol._variables()
    by_node = dict(zip(symbol._define().variables, of_inputs))
    return [by_node[node] for node in arguments], [by_node[node] for node in auxiliaries]


def _as_it_is(shape: Optional[Sequence[int]]) -> Optional[Tuple[int, ...]]:
    """With numpy's shapes: None where the rank is unknown, -1 for an unknown dimension."""
    return None if shape is None else tuple(shape)


def _legacy(shape: Optional[Sequence[int]]) -> Tuple[int, ...]:
    """As MXNet 1.x shows it: `()` where the rank is unknown, 0 for an unknown dimension."""
    return () if shape is None else tuple(max(size, 0) for size in shape)


def _is_known(shape: Optional[Sequence[int]]) -> bool:
    if frame().np_shape:
        return shape is not None and all(size >= 0 for size in shape)
    return bool(shape) and all(size > 0 for size in shape or ())


def _class(dtype: Optional[str]) -> Any:
    """`np.float32`; None where it is unknown."""
    if dtype is None or dtype == "bfloat16":
        return dtype
    return np.dtype(dtype).type


def _warn(what: str, of: str, unknown: Sequence[Tuple[str, Any]]) -> None:
    listed = "\n\t".join(f"{name}: {value}" for name, value in unknown)
    warnings.warn(f"Cannot decide {what} for the following {of}. Consider providing them as input:\n\t{listed}", stacklevel=4)
