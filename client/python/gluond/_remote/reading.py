"""Saved things made again, of a manifest and arrays (see manifest.py).

A manifest may come from anybody's server: it names classes of this package, and optimizers that are registered, and nothing
else is called. A manifest that does not fit raises MXNetError.
"""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from .. import lr_scheduler
from .._array import calls as array_calls
from .._array import tape
from .._array.array import NDArray
from .._wire.session import Session
from .._wire.tensors import DTYPE_OF
from ..base import MXNetError, WrongValue
from ..context import _of_device
from ..gluon._constant import Constant
from ..gluon._nested import ARRAY, NONE, size
from ..gluon._parameter import Parameter
from ..gluon._parameter_dict import ParameterDict
from ..gluon._symbol_block import SymbolBlock
from ..gluon._traced import TracedGraph
from ..gluon.loss import Loss
from ..gluon.trainer import Trainer
from ..optimizer import _states
from ..optimizer._optimizer import Optimizer
from ..optimizer._optimizer import create as create_optimizer
from ..symbol.symbol import load_json, var
from .manifest import FORMAT, LOSSES, MOST_DEPTH, PLAIN_DTYPES, own_attributes

_SCHEDULERS = {name: getattr(lr_scheduler, name) for name in lr_scheduler.__all__}


class Reading:
    """The things of a save. name: the save's. types: ArrayType by the arrays' names, as OpenSaved tells them."""

    def __init__(self, session: Session, name: str, text: str, types: Mapping[str, Any]) -> None:
        self._session, self._name = session, name
        with self.strange():
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise MXNetError(
                    f"'{name}' was saved in format {content['format']}, by a newer client; this one reads format " f"{FORMAT}"
                )
            self._things: Dict[str, Any] = dict(content["things"])
            self._described, self._saved_parameters = list(content["arrays"]), list(content["parameters"])
            home = _of_device(session.devices[0])
            self.arrays: List[NDArray] = [
                array_calls.blank(NDArray, session, home, tuple(kind.shape), DTYPE_OF[kind.dtype])
                for kind in (types[str(place)] for place in range(len(self._described)))
            ]
        self._ready: Dict[int, NDArray] = {}
        self._parameters: Dict[int, Parameter] = {}

    @contextlib.contextmanager
    def strange(self) -> Iterator[None]:
        """Within, an error of reading what no client has written is an MXNetError."""
        try:
            yield
        except MXNetError:
            raise
        except (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise MXNetError(
                f"'{self._name}' is nothing that a client of this version has saved ({type(error).__name__}: " f"{error})"
            ) from None

    def _value(self, saved: Any, name: str, depth: int) -> Any:
        check_depth(depth)
        if saved is None or isinstance(saved, (bool, int, float, str)):
            return saved
        return self._READERS[kind_of(saved)](self, saved, name, depth + 1)

    # Containers and numbers.

    def _list(self, saved: Any, name: str, depth: int) -> List[Any]:
        return [self._value(item, name, depth) for item in saved]

    def _tuple(self, saved: Any, name: str, depth: int) -> Tuple[Any, ...]:
        return tuple(self._list(saved["items"], name, depth))

    def _dict(self, saved: Any, name: str, depth: int) -> Dict[str, Any]:
        return {key: self._value(item, name, depth) for key, item in saved["items"].items()}

    def _numpy(self, saved: Any, name: str, depth: int) -> np.ndarray:
        return self._array_at(saved["array"]).asnumpy().view(_dtype(saved)).reshape(saved["shape"])

    def _scalar(self, saved: Any, name: str, depth: int) -> Any:
        return np.frombuffer(bytes.fromhex(saved["hex"]), _dtype(saved))[0]

    # Arrays and parameters.

    def _array(self, saved: Any, name: str, depth: int) -> NDArray:
        return self._array_at(saved["array"])

    def _array_at(self, place: int) -> NDArray:
        """The array on the device that it was saved from, where the server has that, and marked as it was."""
        if place not in self._ready:
            described = self._described[place]
            array, device = self.arrays[place], described["device"]
            if device in self._session.devices:
                array = array.as_in_context(_of_device(device))
            self._ready[place] = array
            if "grad" in described:
                tape.mark_variables(array, self._array_at(described["grad"]), described["grad_req"])
        return self._ready[place]

    def _parameter(self, saved: Any, name: str, depth: int) -> Parameter:
        return self._parameter_at(saved["parameter"])

    def _parameter_at(self, place: int) -> Parameter:
        if place not in self._parameters:
            saved = self._saved_parameters[place]
            array, name = self._array_at(saved["array"]), str(saved["name"])
            made = (
                Constant(name, array)
                if saved["constant"]
                else Parameter(
                    name,
                    saved["grad_req"],
                    array.shape,
                    array.dtype,
                    float(saved["lr_mult"]),
                    float(saved["wd_mult"]),
                    differentiable=bool(saved["differentiable"]),
                )
            )
            made._data = {array.context: array}
            if made.grad_req != "null":
                made._grad = {array.context: array.grad}
            self._parameters[place] = made
        return self._parameters[place]

    def _parameter_dict(self, saved: Any, name: str, depth: int) -> ParameterDict:
        made = ParameterDict(saved["prefix"])
        made._params.update({str(key): self._parameter_at(place) for key, place in saved["names"].items()})
        return made

    # Blocks and trainers.

    def _block(self, saved: Any, name: str, depth: int) -> SymbolBlock:
        outputs = load_json(saved["graph"])
        block = SymbolBlock(outputs, [var(each) for each in saved["inputs"]])
        form = _form(saved["form"], 0)
        if size(form) != len(outputs.list_outputs()):
            raise ValueError(f"the graph has {len(outputs.list_outputs())} outputs, and their form has {size(form)}")
        by_name = {key: self._parameter_at(place) for key, place in saved["names"].items()}
        unknown = block._params.keys() - by_name.keys()
        if unknown:
            raise ValueError(f"the graph reads {sorted(unknown)[0]}, which was not saved")
        block._params._params = by_name
        block._reg_params = {key: self._parameter_at(place) for key, place in saved["structure"].items()}
        block._fixed = block._latest = TracedGraph(block._fixed.inputs, block._fixed.outputs, form)
        return block

    def _loss(self, saved: Any, name: str, depth: int) -> Loss:
        made = LOSSES[saved["class"]]()
        vars(made).update({key: self._value(saved["attributes"][key], name, depth) for key in own_attributes(made)})
        made.hybridize(bool(saved["hybridized"]))
        return made

    def _trainer(self, saved: Any, name: str, depth: int) -> Trainer:
        trainer = Trainer([self._parameter_at(place) for place in saved["parameters"]], self._optimizer(saved, name))
        trainer._scale = float(saved["scale"])
        self._set_states(saved, trainer, {place: place for place in range(len(trainer._params))}, name, depth)
        return trainer

    def _optimizer(self, saved: Any, name: str) -> Optimizer:
        kept = saved["optimizer"]
        remedy = f"make the trainer as before, and give it: mx.attach('{self._name}', {name}={name})"
        try:
            arguments = {key: each for key, each in saved["arguments"].items() if _states._is_plain(each)}
            optimizer = create_optimizer(str(kept["class"]), **arguments)
        except WrongValue:
            raise MXNetError(
                f"'{name}' trains with the optimizer {kept['class']}, which is not registered here: register "
                f"it (mx.optimizer.register), or {remedy}"
            ) from None
        if kept.get("scheduler") is not None:
            kind = _SCHEDULERS.get(kept["scheduler"]["class"])
            if kind is None:
                raise MXNetError(
                    f"'{name}' has a learning rate by {kept['scheduler']['class']}, which is none of " f"mx.lr_scheduler; {remedy}"
                )
            optimizer.lr_scheduler = kind.__new__(kind)  # Its rate has changed since it was made.
            vars(optimizer.lr_scheduler).update(
                {key: each for key, each in kept["scheduler"].items() if key != "class" and _states._is_plain(each)}
            )
        return optimizer

    def _set_states(self, saved: Any, trainer: Trainer, places: Mapping[int, int], name: str, depth: int) -> None:
        """places: by a weight's place in the saved trainer, that in this one."""
        kept = copy.deepcopy(saved["optimizer"])
        kept["tables"] = {
            table: [[places.get(index, index), value] for index, value in items]
            for table, items in kept["tables"].items()
            if table != "param_dict"
        }
        _states._restore(trainer.optimizer, kept)
        states = {places[place]: self._value(state, name, depth) for place, state in saved["states"]}
        for updater in trainer._updaters:
            updater.states, updater._loaded = states, set(states)

    _READERS: Dict[str, Callable[..., Any]] = {
        "list": _list,
        "tuple": _tuple,
        "dict": _dict,
        "numpy": _numpy,
        "scalar": _scalar,
        "array": _array,
        "parameter": _parameter,
        "parameters": _parameter_dict,
        "block": _block,
        "loss": _loss,
        "trainer": _trainer,
    }


def kind_of(saved: Any) -> str:
    """The kind of a thing in a manifest."""
    if isinstance(saved, list):
        return "list"
    return str(saved["kind"]) if isinstance(saved, dict) else type(saved).__name__


def check_depth(depth: int) -> None:
    """ValueError: a manifest is nested deeper than any that this client writes."""
    if depth > 2 * MOST_DEPTH:
        raise ValueError(f"it is nested deeper than {2 * MOST_DEPTH} levels")


def _dtype(saved: Any) -> np.dtype:
    dtype = np.dtype(str(saved["dtype"]))
    if dtype.kind not in PLAIN_DTYPES:
        raise ValueError(f"there is a numpy dtype {dtype}")
    return dtype


def _form(saved: Any, depth: int) -> Any:
    """The form of a graph's outputs (gluon/_nested.py)."""
    check_depth(depth)
    if saved in (ARRAY, NONE):
        return saved
    if saved[0] == "symbol":
        return "symbol", int(saved[1])
    if saved[0] not in ("list", "tuple"):
        raise ValueError(f"there is a form {str(saved)[:40]}")
    return (saved[0], *[_form(each, depth + 1) for each in saved[1:]])
