"""Saved things for a program that may have made some of its objects already: these are filled, and others made anew."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from .._array import tape
from ..base import MXNetError
from ..gluon._block import Block
from ..gluon._parameter import Parameter
from ..gluon._parameter_dict import ParameterDict
from ..gluon.trainer import Trainer
from .reading import Reading, check_depth, kind_of

_FILLED = {"block": Block, "parameters": ParameterDict, "trainer": Trainer}


class Restoration(Reading):
    """As Reading; `given` are the program's objects, by the names that they were saved under."""

    def check(self, given: Mapping[str, Any]) -> None:
        """MXNetError: `given` cannot be filled with what was saved, or something can be made of no manifest alone."""
        with self.strange():
            for name, value in given.items():
                if name not in self._things:
                    raise MXNetError(f"'{self._name}' has no '{name}'; it has {', '.join(self._things) or 'nothing'}")
                kind = _FILLED.get(kind_of(self._things[name]))
                if kind is None or not isinstance(value, kind):
                    raise MXNetError(
                        f"'{name}' cannot be filled: a network, its parameters or a trainer can be, with one of "
                        f"their own kind, and this is a {type(value).__name__} for a saved "
                        f"{kind_of(self._things[name])}"
                    )
            for name in self._things.keys() - given.keys():
                self._check_graphs(self._things[name], name, 0)

    def _check_graphs(self, saved: Any, name: str, depth: int) -> None:
        check_depth(depth)
        if kind_of(saved) == "block" and "graph" not in saved:
            raise MXNetError(
                f"'{name}' was saved as parameters alone ({saved['no_graph']}): make the network as before, and "
                f"give it: mx.attach('{self._name}', {name}={name})"
            )
        if kind_of(saved) in ("list", "tuple", "dict"):
            for item in _items(saved):
                self._check_graphs(item, name, depth + 1)

    def things(self, given: Mapping[str, Any]) -> Dict[str, Any]:
        """All things, once the arrays have their values. `given` are filled, and stand for themselves."""
        with self.strange(), tape.pause():
            for name, value in given.items():  # Trainers come second: others tell the parameters' places.
                if not isinstance(value, Trainer):
                    own = value._collect_params_with_prefix() if isinstance(value, Block) else dict(value.items())
                    self._fill_by_name(self._things[name]["structure" if isinstance(value, Block) else "names"], own, name)
            for name, value in given.items():
                if isinstance(value, Trainer):
                    self._fill_trainer(self._things[name], value, name)
            return {name: given[name] if name in given else self._value(saved, name, 0) for name, saved in self._things.items()}

    def _fill_by_name(self, saved: Mapping[str, int], own: Mapping[str, Parameter], name: str) -> None:
        for which, lacks, has in (("this", saved, own), ("the saved", own, saved)):
            missing = [key for key in lacks if key not in has]
            if missing:
                raise MXNetError(
                    f"'{name}': {which} network has no parameter '{missing[0]}', which the other one has; there "
                    f"are {', '.join(has) or 'none'}"
                )
        for key, place in saved.items():
            self._fill(place, own[key], name)

    def _fill(self, place: int, parameter: Parameter, name: str) -> None:
        if self._parameters.setdefault(place, parameter) is not parameter:
            raise MXNetError(
                f"'{name}': '{parameter.name}' and '{self._parameters[place].name}' are two parameters, and were "
                "one when they were saved"
            )
        array = self._array_at(self._saved_parameters[place]["array"])
        try:
            parameter._load_init(array, None)
        except AssertionError as error:
            raise MXNetError(f"'{name}': {error}") from None
        if array.grad is not None and parameter.grad_req != "null":
            for gradient in parameter.list_grad():
                gradient[:] = array.grad.as_in_context(gradient.context)

    def _fill_trainer(self, saved: Any, trainer: Trainer, name: str) -> None:
        own = {id(parameter): place for place, parameter in enumerate(trainer._params)}
        if len(saved["parameters"]) != len(own) or len(trainer._updaters) > 1:
            raise MXNetError(
                f"'{name}' was saved with {len(saved['parameters'])} parameters on one device, and this trainer "
                f"has {len(own)} on {len(trainer._updaters)}"
            )
        places = {}
        for place, index in enumerate(saved["parameters"]):
            if index not in self._parameters:
                self._fill(index, trainer._params[place], name)
            parameter = self._parameters[index]
            if id(parameter) not in own:
                raise MXNetError(f"'{name}' trained '{parameter.name}', which this trainer does not")
            places[place] = own[id(parameter)]
        schedule, kept = trainer.optimizer.lr_scheduler, saved["optimizer"].get("scheduler")
        if (schedule is None) != (kept is None):
            was, has = kept["class"] if kept else "no schedule", type(schedule).__name__ if schedule else "none"
            raise MXNetError(f"'{name}' was saved with {was}, and this trainer has {has}")
        try:
            self._set_states(saved, trainer, places, name, 0)
        except ValueError as error:  # The classes differ.
            raise MXNetError(f"'{name}': {error}") from None


def _items(saved: Any) -> List[Any]:
    if isinstance(saved, list):
        return saved
    return list(saved["items"].values() if isinstance(saved["items"], dict) else saved["items"])
