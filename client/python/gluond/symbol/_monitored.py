"""MonitoredSymbol: a symbol whose runs tell what each operator computed, for `Executor.set_monitor_callback` and
`HybridBlock.register_op_hook`."""

from __future__ import annotations

import collections
from types import MappingProxyType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

from .._array.array import NDArray
from .._array.create import zeros
from .._attributes import dtype_name
from . import _graph
from ._graph import Entry, Node
from ._outputs import Outputs

# MXNet calls an operator's only input `data` if the operator is one of these, else `input0`. (Symbol's variables are `relu0_data`.)
_NAMED = set(
    """Dropout L2Normalization LRN MakeLoss Pad Pooling SliceChannel SwapAxis _contrib_MultiBoxPrior _split_v2 all_finite
    depth_to_space diag log_softmax moments repeat reverse softmax space_to_depth squeeze tile""".split()
)


class Told(NamedTuple):
    """An array of a run. operator: that which reads or computes it, by its kind; "" for a variable by its own name."""

    name: str
    operator: str
    source: Union[str, Entry]  # A variable's name, or a result.


class Probe(NamedTuple):
    """A variable of zeros that is added to what an operator reads: its gradient is that of the operator's input."""

    variable: Node
    zeros: NDArray
    gradient: NDArray


class MonitoredSymbol:
    """`symbol` has the outputs of the given one, and behind them those of all operators.

    Told are each operator's results, as `fc1_output`; before them its inputs, as `fc1_data`, if `with_inputs`; and the gradients of
    all inputs of operators, by the names that MXNet's operators of the way back give them: `fc1_backward_output1` is
    dL/d(fc1_weight).

    requests: what is done with the gradients of `arguments`, by name; none where there is no way back. The gradients of other inputs
    than these are those of `probes`, which `symbol` reads.
    """

    def __init__(
        self,
        symbol: Outputs,
        with_inputs: bool,
        arguments: Mapping[str, NDArray] = MappingProxyType({}),
        requests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
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
        self.probes: List[Probe] = []
        self._gradients: List[Tuple[str, Union[str, Probe]]] = []  # In the order of the way back.
        entries = [*symbol._entries, *self._places]
        if requests:
            entries = self._probed(entries, operators, arguments, requests)
        self.symbol = Outputs(entries)

    def _probed(
        self, entries: List[Entry], operators: Sequence[Node], arguments: Mapping[str, NDArray], requests: Mapping[str, str]
    ) -> List[Entry]:
        """The entries with probes on the inputs of operators."""
        known = _kinds(list(self._places), arguments)
        readers = collections.Counter(entry.node for node in operators for entry in node.inputs)
        copies: Dict[Node, Node] = {}

        def moved(entry: Entry) -> Entry:
            return Entry(copies.get(entry.node, entry.node), entry.output)

        for node in operators:
            inputs = [moved(entry) for entry in node.inputs]
            told: List[Tuple[str, Union[str, Probe]]] = []
            for place, entry in enumerate(node.inputs):
                name = f"{node.name}_backward_output{place if len(node.inputs) > 1 else ''}"
                shape, dtype = known.get(entry) or (None, None)
                if entry.node.is_variable and readers[entry.node] == 1 and requests.get(entry.node.name) == "write":
                    told.append((name, entry.node.name))
                elif place not in node.call.auxiliary and shape and min(shape) > 0 and str(dtype).startswith("float"):
                    probe = Probe(Node(None, f"{name}_probe", {}), zeros(shape, dtype=dtype), zeros(shape, dtype=dtype))
                    self.probes.append(probe)
                    told.append((name, probe))
                    inputs[place] = Entry(Node("elemwise_add", f"{name}_sum", {}, [inputs[place], Entry(probe.variable, 0)]), 0)
            copies[node] = node.copy(inputs)
            self._gradients = told + self._gradients
        return [moved(entry) for entry in entries]

    def told(self, outputs: Sequence[NDArray], variables: Mapping[str, NDArray]) -> Iterator[Tuple[str, str, NDArray]]:
        """(name, operator, array) after a run: outputs are those of `symbol`."""
        for name, operator, source in self._told:
            yield name, operator, variables[source] if isinstance(source, str) else outputs[self._places[source]]

    def told_gradients(self, gradients: Mapping[str, Any]) -> Iterator[Tuple[str, NDArray]]:
        """(name, array) after the way back: gradients are those of the variables that have some."""
        for name, source in self._gradients:
            yield name, gradients[source] if isinstance(source, str) else source.gradient


def _inputs(node: Node) -> Iterator[Told]:
    for entry, argument in zip(node.inputs, node.call.inputs):
        source: Union[str, Entry] = entry.node.name if entry.node.is_variable else entry
        if isinstance(source, str):
            yield Told(source, "", source)
        is_nameless = argument == "data" and len(node.inputs) == 1 and node.op not in _NAMED
        yield Told(f"{node.name}_{'input0' if is_nameless else argument}", str(node.op), source)


def _kinds(results: List[Entry], arguments: Mapping[str, NDArray]) -> Dict[Entry, Tuple[Any, Any]]:
    """(shape, dtype) of the operators' results and of the variables that they read."""
    definition = Outputs(results)._define()
    found = definition.infer(
        {name: array.shape for name, array in arguments.items()},
        {name: dtype_name(array.dtype) for name, array in arguments.items()},
    )
    entries = [*results, *[Entry(node, 0) for node in definition.variables]]
    return {entry: (kind.shape, kind.dtype) for entry, kind in zip(entries, found.outputs + found.inputs)}
