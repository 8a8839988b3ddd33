"""MonitoredSymbol: a symbol whose runs tell a callback what each operator computed, for `Executor.set_monitor_callback`."""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

from .._array.array import NDArray
from . import _graph
from ._graph import Entry, Node
from ._outputs import Outputs

Callback = Callable[[str, NDArray], Any]


class MonitoredSymbol:
    """`symbol` has the outputs of the given one, and behind them those of all operators.

    The callback gets each operator's results, as `fc1_output`; before them its inputs, as `fc1_data`, if `with_inputs`.
    It gets the gradients of variables that one operator alone reads, by the names that MXNet's operators of the
    way back give them: `fc1_backward_output1` is dL/d(fc1_weight).
    """

    def __init__(self, symbol: Outputs, callback: Callback, with_inputs: bool) -> None:
        self._callback = callback
        operators = [node for node in _graph.walk(symbol._entries) if not node.is_variable]
        self._places: Dict[Entry, int] = {}  # Each result among the outputs of a run.
        self._told: List[Tuple[str, Union[str, Entry]]] = []  # The source: a variable's name, or a result.
        for node in operators:
            if with_inputs:
                self._told += _inputs(node)
            for index in range(len(node.call.outputs)):
                entry = Entry(node, index)
                self._places[entry] = len(symbol) + len(self._places)
                self._told.append((node.output_name(index), entry))
        self.symbol = Outputs([*symbol._entries, *self._places])
        self._gradients = list(_gradients(operators))

    def tell(self, outputs: Sequence[NDArray], variables: Mapping[str, NDArray]) -> None:
        """After a run: outputs are those of `symbol`."""
        for name, source in self._told:
            self._callback(name, variables[source] if isinstance(source, str) else outputs[self._places[source]])

    def tell_gradients(self, gradients: Mapping[str, Any]) -> None:
        """After the way back: gradients are those of the variables that have some."""
        for name, variable in self._gradients:
            if gradients.get(variable) is not None:
                self._callback(name, gradients[variable])


def _inputs(node: Node) -> List[Tuple[str, Union[str, Entry]]]:
    found: List[Tuple[str, Union[str, Entry]]] = []
    for entry, argument in zip(node.inputs, node.call.inputs):
        source: Union[str, Entry] = entry.node.name if entry.node.is_variable else entry
        if isinstance(source, str):
            found.append((source, source))
        found.append((f"{node.name}_{argument}", source))
    return found


def _gradients(operators: Sequence[Node]) -> List[Tuple[str, str]]:
    """(name of the gradient, name of the variable), from the last operator to the first."""
    readers = collections.Counter(entry.node for node in operators for entry in node.inputs)
    return [(f"{node.name}_backward_output{place if len(node.inputs) > 1 else ''}", entry.node.name)
            for node in reversed(operators) for place, entry in enumerate(node.inputs)
            if entry.node.is_variable and readers[entry.node] == 1]
