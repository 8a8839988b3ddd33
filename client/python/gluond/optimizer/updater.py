"""Updater: an optimizer together with the states of the weights it has updated."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from .. import ndarray
from .._array import tape
from .._array.array import NDArray
from . import _states
from ._on_server import ServerStep, ServerSteps
from ._optimizer import Optimizer, State


class Updater:
    """`updater(index, grad, weight)` updates a weight in place, or those of three lists; its state is made at the first call."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: Dict[Any, State] = {}
        self._loaded: set = set()
        self._on_server = ServerSteps()

    def __call__(self, index: Any, grad: Union[NDArray, Sequence[NDArray]], weight: Union[NDArray, Sequence[NDArray]]) -> None:
        several = isinstance(index, (list, tuple))
        if not several:
            index, grad, weight = [index], [grad], [weight]  # type: ignore[list-item]
        if several and weight and self._on_server.take_over(self.optimizer, weight[0]):
            self._update_together(index, grad, weight)
        elif self.optimizer._takes_lists():
            self._update_lists(index, grad, weight)
        else:
            for number, slope, one in zip(index, grad, weight):
                self._update_alone(number, slope, one)

    def _update_alone(self, index: Any, grad: Any, weight: Any) -> None:
        state = self._state(index, weight)
        if self.optimizer.leaves_rows(index):
            self._update_rows(index, weight, grad)
        else:
            self.optimizer.update_multi_precision(index, weight, grad, state)

    def step_fresh(self, indices: Sequence[Any], grads: Sequence[NDArray], weights: Sequence[NDArray]) -> bool:
        """An update of all, if the server takes it in one step that itself looks whether the gradients are fresh; afterwards none
        is. False: nothing is done."""
        if not self._on_server.take_over(self.optimizer, weights[0]) or len({each._sent() for each in weights}) != len(weights):
            return False
        states = [self._states_on_server(index, weight) for index, weight in zip(indices, weights)]
        if any(each is None for each in states):
            return False
        steps = [self._on_server.begin(self.optimizer, *each) for each in zip(indices, weights, grads, states)]  # type: ignore[arg-type]
        self._on_server.run(self.optimizer, steps, only_fresh=True)
        return True

    def _states_on_server(self, index: Any, weight: NDArray) -> Optional[Dict[str, NDArray]]:
        """The states by the server's names; None: the server does not step this weight. Requires: take_over()."""
        return (
            None
            if self.optimizer.leaves_rows(index)
            else self._on_server.states(self.optimizer, weight, self._state(index, weight))
        )

    def _update_together(self, indices: Sequence[Any], grads: Any, weights: Any) -> None:
        # The weights by their names, as two steps on one weight follow each other.
        steps: Dict[bytes, ServerStep] = {}

        def run() -> None:
            taken = list(steps.values())
            steps.clear()
            self._on_server.run(self.optimizer, taken)

        try:
            for index, grad, weight in zip(indices, grads, weights):
                states, name = self._states_on_server(index, weight), weight._sent()
                if name in steps or states is None:
                    run()
                if states is None:
                    self._update_alone(index, grad, weight)
                else:
                    steps[name] = self._on_server.begin(self.optimizer, index, weight, grad, states)
        finally:  # Steps that are counted are taken, whatever the next one raises.
            run()

    def _update_lists(self, indices: Sequence[Any], grads: Any, weights: Any) -> None:
        """As MXNet calls an optimizer that takes lists."""
        alike: Dict[Any, List[Any]] = {}
        for index, grad, weight in zip(indices, grads, weights):
            state = self._state(index, weight)
            if self.optimizer.leaves_rows(index):
                self._update_rows(index, weight, grad, in_lists=True)
            else:
                alike.setdefault((weight.context, weight.dtype), []).append((index, weight, grad, state))
        most = self.optimizer.aggregate_num
        for updates in alike.values():
            for first in range(0, len(updates), most):
                lists: List[Any] = [list(column) for column in zip(*updates[first : first + most])]
                self.optimizer.update_multi_precision(*lists)

    def _state(self, index: Any, weight: NDArray) -> State:
        if index not in self.states:
            with tape.in_any_case():  # A state that a skipped update makes is the next one's.
                self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif index in self._loaded:
            self.states[index] = _states.on_context(self.states[index], weight.context)
            self._loaded.discard(index)
        return self.states[index]

    def _update_rows(self, index: Any, weight: NDArray, grad: NDArray, in_lists: bool = False) -> None:
        """Updates the rows that have a gradient, and gives all others back what they were."""
        has_gradient = (grad != 0).reshape((grad.shape[0], -1)).max(axis=1)
        kept = [(array, array.copy()) for array in [weight, *_arrays(self.states[index])]]
        arguments = (index, weight, grad, self.states[index])
        self.optimizer.update_multi_precision(*([each] if in_lists else each for each in arguments))  # type: ignore[arg-type]
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


def takes_lists(updater: Any) -> bool:
    """Whether the updater is an Updater that a subclass has not changed: only such a one is known to take lists."""
    return getattr(type(updater), "__call__", None) is Updater.__call__


def get_updater(optimizer: Optimizer) -> Updater:
    """An Updater of that optimizer."""
    return Updater(optimizer)
