"""Commands on optimizers: DefineOptimizer, StepOptimizer."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, NamedTuple, Sequence

from .._proto import command_pb2
from . import encoding
from .encoding import number_of
from .fields import delimited, tag


class Weight(NamedTuple):
    """An array to update. name: the parameter's. states: arrays by the state's name."""

    array: bytes
    name: str
    lr_mult: float
    wd_mult: float
    states: Mapping[str, bytes]


class SessionOptimizer:
    """An optimizer that the session has. It forgets the optimizer when this object is freed."""

    __slots__ = ("session", "number")

    def __init__(self, session: Any) -> None:
        self.session = session
        self.number = session.new_call()

    def __del__(self) -> None:
        self.session.dead_optimizers.append(self.number)

    def define(self, name: str, attributes: Mapping[str, Any], weights: Iterable[Weight]) -> None:
        """Says which optimizer it is, with its attributes (numbers and bools), and the arrays that it updates."""
        command = command_pb2.Command.DefineOptimizer(optimizer=self.number)
        command.definition.name = name
        for key, value in attributes.items():
            if isinstance(value, bool):
                command.definition.attributes[key].bool_value = value
            else:
                command.definition.attributes[key].number_value = value
        for weight in weights:
            command.weights.add(
                array=number_of(weight.array),
                name=weight.name,
                lr_mult=weight.lr_mult,
                wd_mult=weight.wd_mult,
                states={key: number_of(array) for key, array in weight.states.items()},
            )
        self.session.submit(encoding.message(encoding.DEFINE_OPTIMIZER, command))

    def step(
        self,
        learning_rates: Sequence[float],
        updates: Sequence[int],
        rescale_grad: float,
        gradients: Iterable[bytes],
        only_fresh: bool,
        when_fresh: bytes,
    ) -> bytes:
        """The command that takes a step. Numbers and gradients: one for each array. when_fresh: as of an Invoke, with its tag."""
        command = command_pb2.Command.StepOptimizer(
            optimizer=self.number,
            learning_rates=_alike(learning_rates),
            updates=_alike(updates),
            rescale_grad=rescale_grad,
            stale=command_pb2.Command.StepOptimizer.REFUSED if only_fresh else command_pb2.Command.StepOptimizer.USED,
        )
        body = command.SerializeToString() + delimited(_GRADIENTS, b"".join(gradients))
        if when_fresh:
            body += _WHEN_FRESH + when_fresh[-encoding.NAME_SIZE :]
        return encoding.command(encoding.STEP_OPTIMIZER, body)


_GRADIENTS, _WHEN_FRESH = (tag(command_pb2.Command.StepOptimizer, each) for each in ("gradients", "when_fresh"))


def _alike(numbers: Sequence[Any]) -> List[Any]:
    """One number for all where they are equal."""
    return [numbers[0]] if numbers.count(numbers[0]) == len(numbers) else list(numbers)
