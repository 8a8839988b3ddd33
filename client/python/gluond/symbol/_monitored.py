"""MonitoredSymbol: a symbol whose runs tell what each operator computed, for `Executor.set_monitor_callback` and
`HybridBlock.register_op_hook`."""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

from .._array.array import NDArray
from . import _graph
from ._graph import Entry, Node
from ._outputs import Outputs

# MXNet calls an operator's only input `data` if the operator is one of these, else `input0`. (Symbol's variables are `relu0_data`.)
_NAMED = set("""Dropout L2Normalization LRN MakeLoss Pad Pooling SliceChannel SwapAxis _contrib_MultiBoxPrior _split_v2 all_finite
    depth_to_space diag moments repeat reverse space_to_depth squeeze tile""".split())


class Told(NamedTuple):
    """An array of a run. operator: that which reads or computes it, by its kind; "" for a variable by its own name."""

    name: str
    operator: str
    source: Union[str, Entry]  # A variable's name, or a result.


class MonitoredSymbol:
    """`symbol` has the outputs of the given one, and behind them those of all operators.

    Told are each operator's results, as `fc1_output`; before them its inputs, as `fc1_data`, if `with_inputs`; and the gradients of
    variables that one operator alone reads, by the names that MXNet's operators of the way back give them:
    `fc1_backward_output1` is dL/d(fc1_weight).
    """

    def __init__(self, symbol: Outputs, with_inputs: bool) -> None:
        operators = [node for node in _graph.walk(symbol._entries) if not node.is_variable]
        self._places: Dict[Entry, int] = {}  # Each result among the outputs of a run.
        self._told: List[Told] = []
        for node in operators:
            if with_inputs:
                self._told += _inputs(node)
            for index in range(len(node.call.outputs)):
                entry = Entry(node, index)
                self._places[entry] = len(symbol) + len(self._places)
                self._told.append(Told(node.output_name(index), str(node.op), entry))
        self.symbol = Outputs([*symbol._entries, *self._places])
        self._gradients = list(_gradients(operators))

    def told(self, outputs: Sequence[NDArray], variables: Mapping[str, NDArray]) -> Iterator[Tuple[str, str, NDArray]]:
        """(name, operator, array) after a run: outputs are those of `symbol`."""
        for name, operator, source in self._told:
            yield name, operator, variables[source] if isinstance(source, str) else outputs[self._places[source]]

    def told_gradients(self, gradients: Mapping[str, Any]) -> Iterator[Tuple[str, NDArray]]:
        """(name, array) after the way back: gradients are those of the variables that have some."""
        for name, variable in self._gradients:
            if gradients.get(variable) is not None:
                yield name, gradients[variable]


def _inputs(node: Node) -> Iterator[Told]:
    for entry, argument in zip(node.inputs, node.call.inputs):
        source: Union[str, Entry] = entry.node.name if entry.node.is_variable else entry
        if isinstance(source, str):
            yield Told(source, "", source)
        is_nameless = argument == "data" and len(node.inputs) == 1 and node.op not in _NAMED
        yield Told(f"{node.name}_{'input0' if is_nameless else argument}", str(node.op), source)


def _gradients(operators: Sequence[Node]) -> List[Tuple[str, str]]:
    """(name of the gradient, name of the variable), from the last operator to the first."""
    readers = collections.Counter(entry.node for node in operators for entry in node.inputs)
    return [(f"{node.name}_backward_output{place if len(node.inputs) > 1 else ''}", entry.node.name)
            for node in reversed(operators) for place, entry in enumerate(node.inputs)
            if entry.node.is_variable and readers[entry.node] == 1]
