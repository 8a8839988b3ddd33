"""Things of a program as a manifest and arrays, to be saved by a session (SaveSession).

The manifest is JSON, of which reading.py makes the things again:

    {"format": 1, "things": {"net": {"kind": "block", ...}, "epoch": 3}, "arrays": [...], "parameters": [...]}

A number, a text, a truth, None and a list stand for themselves; everything else is an object with its `kind`. The arrays
have their places in `arrays` for names. A parameter or an array that several things share is there once.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from .._wire.session import Session
from ..base import MXNetError
from ..gluon import loss as losses
from ..gluon._block import Block
from ..gluon._constant import Constant
from ..gluon._hybrid_block import HybridBlock
from ..gluon._parameter import Parameter
from ..gluon._parameter_dict import ParameterDict
from ..gluon._traced import TracedGraph
from ..gluon.loss import Loss
from ..gluon.trainer import Trainer
from ..optimizer import _states
from . import components

FORMAT = 1
# Containers within containers, at most.
MOST_DEPTH = 64
# Kinds of numpy's dtypes whose arrays are their bytes and nothing else.
PLAIN_DTYPES = "biufcSUmM"
# A Block that has not run is traced with up to so many inputs.
_MOST_INPUTS = 3
LOSSES = {name: getattr(losses, name) for name in losses.__all__ if name != "Loss"}
_SAVED = (NDArray, Parameter, ParameterDict, Block, Trainer)


def own_attributes(loss: Loss) -> Dict[str, Any]:
    """The members that tell a loss of gluon.loss from others of its class."""
    return {name: value for name, value in vars(loss).items() if name not in vars(HybridBlock(prefix=""))}


def found_in(names: Mapping[str, Any]) -> Dict[str, Any]:
    """The variables of a module that are saved where none is named."""
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_") and name not in ("In", "Out") and _holds_some(value, 0)
    }


def _holds_some(value: Any, depth: int) -> bool:
    if isinstance(value, Block):
        return bool(value.collect_params().keys()) or trace(value)[0] is not None
    if isinstance(value, (list, tuple, dict)) and depth < MOST_DEPTH:
        return any(_holds_some(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, _SAVED)


def trace(block: Block) -> Tuple[Optional[TracedGraph], str]:
    """The graph of a Block: the last one that ran, else a new one. None, and why not: the Block is no graph."""
    if not isinstance(block, HybridBlock):
        return None, f"{type(block).__name__} is no HybridBlock"
    if block._last_graph is not None:
        return block._last_graph, ""
    reasons = []
    for count in range(1, _MOST_INPUTS + 1):
        try:
            return TracedGraph.of(block, ("tuple", *["array"] * count)), ""
        except Exception as error:  # The program's own code runs.
            reasons.append(f"{type(error).__name__}: {error}")
    return None, reasons[0]


class Manifest:
    """Collects what is saved; `arrays` are those that the manifest names, in its order."""

    def __init__(self, session: Session) -> None:
        self.arrays: List[NDArray] = []
        self._session = session
        self._described: List[Any] = []
        self._parameters: List[Any] = []
        self._places: Dict[int, int] = {}  # By id(): of arrays and parameters, which live as long as this object.
        self._kept: List[Any] = []

    def text(self, things: Mapping[str, Any]) -> str:
        """The manifest. MXNetError: something in it cannot be saved; says where it is."""
        made = {name: self._value(value, name, 0) for name, value in things.items()}
        if not self.arrays:  # The random state comes with arrays only.
            self._place_of(ndarray.zeros((1,)), "")
        return json.dumps({"format": FORMAT, "things": made, "arrays": self._described, "parameters": self._parameters})

    def _value(self, value: Any, where: str, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise MXNetError(f"{where[:80]}... is nested deeper than {MOST_DEPTH} levels, or contains itself")
        for kind, write in self._WRITERS:
            if isinstance(value, kind):
                return write(self, value, where, depth)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise MXNetError(
            f"{where} is a {type(value).__name__}, which cannot be saved: save its numbers, texts and arrays, or "
            "name what is to be saved, as mx.save_session(name, net=net)"
        )

    # Containers and numbers.

    def _list(self, value: Any, where: str, depth: int) -> Any:
        return [self._value(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]

    def _tuple(self, value: Any, where: str, depth: int) -> Any:
        return {"kind": "tuple", "items": self._list(value, where, depth)}

    def _dict(self, value: Any, where: str, depth: int) -> Any:
        for key in value:
            if not isinstance(key, str):
                raise MXNetError(
                    f"{where} has the key {key!r}, a {type(key).__name__}; the keys of a dict that is saved are " "texts"
                )
        return {"kind": "dict", "items": {key: self._value(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}}

    def _numpy(self, value: Any, where: str, depth: int) -> Any:
        if value.dtype.kind not in PLAIN_DTYPES:
            raise MXNetError(
                f"{where} is a numpy array of dtype {value.dtype}, which cannot be saved: save one of numbers or " "texts"
            )
        values = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return {
            "kind": "numpy",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "array": self._place_of(ndarray.array(values, dtype="uint8"), where),
        }

    def _scalar(self, value: Any, where: str, depth: int) -> Any:
        if value.dtype.kind not in PLAIN_DTYPES:
            raise MXNetError(f"{where} is a numpy scalar of dtype {value.dtype}, which cannot be saved")
        return {"kind": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}

    # Arrays and parameters.

    def _array(self, value: NDArray, where: str, depth: int) -> Any:
        return {"kind": "array", "array": self._place_of(value, where)}

    def _place_of(self, array: NDArray, where: str) -> int:
        if id(array) in self._places:
            return self._places[id(array)]
        if array._session is not self._session:
            raise MXNetError(
                f"{where} is on the server at {array._session.address}, of a session before mx.connect(), and "
                "the current session saves its own arrays only"
            )
        place = self._places[id(array)] = len(self.arrays)
        described: Dict[str, Any] = {"device": array._context._device}
        self.arrays.append(array)
        self._described.append(described)
        if array._grad is not None:
            described.update(grad_req=array._grad_req, grad=self._place_of(array._grad, f"{where}.grad"))
        return place

    def _parameter(self, value: Parameter, where: str, depth: int) -> Any:
        return {"kind": "parameter", "parameter": self._place_of_parameter(value, where)}

    def _place_of_parameter(self, parameter: Parameter, where: str) -> int:
        if id(parameter) in self._places:
            return self._places[id(parameter)]
        if parameter._data is None:
            remedy = "call net.initialize()" if parameter._deferred is None else "run the network once, net(data)"
            raise MXNetError(f"{where}: the parameter '{parameter.name}' has no value yet; {remedy}, before it is saved")
        if len(parameter._data) > 1:
            raise MXNetError(
                f"{where}: the parameter '{parameter.name}' is on {len(parameter._data)} devices; save it on "
                "one, after net.collect_params().reset_ctx(mx.cpu())"
            )
        self._kept.append(parameter)
        self._parameters.append(
            {
                "name": parameter.name,
                "array": self._place_of(parameter.list_data()[0], f"{where}: the parameter " f"'{parameter.name}'"),
                "constant": isinstance(parameter, Constant),
                "grad_req": parameter.grad_req,
                "differentiable": parameter._differentiable,
                "lr_mult": float(parameter.lr_mult),
                "wd_mult": float(parameter.wd_mult),
            }
        )
        place = self._places[id(parameter)] = len(self._parameters) - 1
        return place

    def _by_name(self, parameters: Mapping[str, Parameter], where: str) -> Dict[str, int]:
        return {name: self._place_of_parameter(each, where) for name, each in parameters.items()}

    def _parameter_dict(self, value: ParameterDict, where: str, depth: int) -> Any:
        return {"kind": "parameters", "prefix": value.prefix, "names": self._by_name(value, where)}  # type: ignore[arg-type]

    # Blocks and trainers.

    def _block(self, value: Block, where: str, depth: int) -> Any:
        graph, why = trace(value)
        made: Dict[str, Any] = {
            "kind": "block",
            "class": type(value).__name__,
            "names": self._by_name(value.collect_params(), where),  # type: ignore[arg-type]
            "structure": self._by_name(value._collect_params_with_prefix(), where),  # type: ignore[arg-type]
        }
        if graph is None:
            return {**made, "no_graph": why}
        return {
            **made,
            "graph": graph.outputs.tojson(remove_amp_cast=False),
            "form": graph.out_form,
            "inputs": [str(each.name) for each in graph.inputs],
        }

    def _loss(self, value: Loss, where: str, depth: int) -> Any:
        if LOSSES.get(type(value).__name__) is not type(value):
            return self._block(value, where, depth)
        return {
            "kind": "loss",
            "class": type(value).__name__,
            "hybridized": value._active,
            "attributes": {name: self._value(each, f"{where}.{name}", depth + 1) for name, each in own_attributes(value).items()},
        }

    def _trainer(self, value: Trainer, where: str, depth: int) -> Any:
        if len(value._updaters) > 1:
            raise MXNetError(f"{where} trains on {len(value._updaters)} devices; save a trainer of one")
        optimizer = value.optimizer
        arguments = {key: _states._number(components._argument(optimizer, key)) for key in components._arguments(type(optimizer))}
        return {
            "kind": "trainer",
            "parameters": [self._place_of_parameter(each, where) for each in value._params],
            "scale": float(value._scale),
            "optimizer": _states._attributes(optimizer),
            "arguments": {key: each for key, each in arguments.items() if each is not None and _states._is_plain(each)},
            "states": [
                [place, self._value(state, f"{where}: the state of weight {place}", depth + 1)]
                for place, state in (value._updaters[0].states if value._updaters else {}).items()
            ],
        }

    _WRITERS: List[Tuple[type, Callable[..., Any]]] = [
        (NDArray, _array),
        (Parameter, _parameter),
        (ParameterDict, _parameter_dict),
        (Loss, _loss),
        (Block, _block),
        (Trainer, _trainer),
        (np.ndarray, _numpy),
        (np.generic, _scalar),
        (list, _list),
        (tuple, _tuple),
        (dict, _dict),
    ]
