"""Updater: an optimizer together with the states of the weights it has updated."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence, Union

from .. import ndarray
from .._array.array import NDArray
from . import _states
from ._optimizer import Optimizer, State
from ._steps import WeightStep, Together


class Updater:
    """`updater(index, grad, weight)` updates a weight in place, or those of three lists; its state is made at the first call."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: Dict[Any, State] = {}
        self._loaded: set = set()
        self._together = Together()

    def __call__(self, index: Any, grad: Union[NDArray, Sequence[NDArray]], weight: Union[NDArray, Sequence[NDArray]]) -> None:
        several = isinstance(index, (list, tuple))
        together = several and self.optimizer._is_of_steps()
        # The weights by their names, as two steps on one weight follow each other.
        steps: Dict[bytes, WeightStep] = {}
        try:
            for number, one, slope in zip(index, weight, grad) if several else ((index, weight, grad),):
                state = self._state(number, one)
                leaves_rows, name = self.optimizer.leaves_rows(number), one._sent()
                if name in steps or leaves_rows or not together:
                    self._together.run(list(steps.values()))
                    steps.clear()
                if together and not leaves_rows:
                    steps[name] = self.optimizer._weight_step_multi_precision(number, one, slope, state)
                elif leaves_rows:
                    self._update_rows(number, one, slope)
                else:
                    self.optimizer.update_multi_precision(number, one, slope, state)
        finally:  # Steps that are counted are taken, whatever the next one raises.
            self._together.run(list(steps.values()))

    def _state(self, index: Any, weight: NDArray) -> State:
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif index in self._loaded:
            self.states[index] = _states.on_context(self.states[index], weight.context)
            self._loaded.discard(index)
        return self.states[index]

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
