"""Updater: an optimizer together with the states of the weights it has updated."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence, Union

from .. import ndarray
from .._array.array import NDArray
from . import _states
from ._optimizer import Optimizer, State


class Updater:
    """`updater(index, grad, weight)` updates one weight in place; its state is made at the first call."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: Dict[Any, State] = {}
        self._loaded: set = set()

    def __call__(self, index: Any, grad: Union[NDArray, Sequence[NDArray]], weight: Union[NDArray, Sequence[NDArray]]) -> None:
        if isinstance(index, (list, tuple)):
            for one in zip(index, grad, weight):
                self(*one)
            return
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)  # type: ignore[arg-type]
        elif index in self._loaded:
            self.states[index] = _states.on_context(self.states[index], weight.context)  # type: ignore[union-attr]
            self._loaded.discard(index)
        if self.optimizer.leaves_rows(index):
            self._update_rows(index, weight, grad)  # type: ignore[arg-type]
        else:
            self.optimizer.update_multi_precision(index, weight, grad, self.states[index])  # type: ignore[arg-type]

    def _update_rows(self, index: Any, weight: NDArray, grad: NDArray) -> None:
        """Updates the rows that have a gradient, and gives all others back what they were."""
        has_gradient = (grad != 0).reshape((grad.shape[0], -1)).max(axis=1)
        kept = [(array, array.copy()) for array in [weight, *_arrays(self.states[index])]]
        self.optimizer.update_multi_precision(index, weight, grad, self.states[index])
        for array, before in kept:
            if array.shape[0] == grad.shape[0]:
                array[:] = ndarray.where(has_gradient, array, before)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states, and with `dump_optimizer` the optimizer's own numbers, in the format of `_states`."""
        return _states.dumps(self.states, self.optimizer if dump_optimizer else None)

    def set_states(self, states: bytes) -> None:
        """Takes the states that `get_states` gave."""
        self.states = _states.loads(states, self.optimizer)
        self._loaded = set(self.states)


def _arrays(state: State) -> Iterator[NDArray]:
    if isinstance(state, (list, tuple)):
        for part in state:
            yield from _arrays(part)
    elif state is not None:
        yield state


def get_updater(optimizer: Optimizer) -> Updater:
    """An Updater of that optimizer."""
    return Updater(optimizer)
