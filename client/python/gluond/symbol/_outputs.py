"""Outputs of a graph: the part of a Symbol that running, differentiation and shape inference use."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from ..base import MXNetError
from . import _graph
from ._definition import Definition
from ._graph import Entry, Node


class Outputs:
    """Symbol is one."""

    __slots__ = ("_entries", "_definitions", "__weakref__")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries: List[Entry] = list(entries)
        self._definitions: Dict[Tuple[int, ...], Definition] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def name(self) -> Union[str, Any]:
        """The name of the symbol; None of a group."""
        nodes = {entry.node for entry in self._entries}
        return self._entries[0].node.name if len(nodes) == 1 else None

    def _variables(self) -> Tuple[List[Node], List[Node]]:
        """The arguments and the auxiliary states, in the order in which the graph reads them."""
        nodes = _graph.walk(self._entries)
        written = _graph.auxiliary(nodes)
        variables = [node for node in nodes if node.is_variable]
        return [node for node in variables if node not in written], [node for node in variables if node in written]

    def _custom_states(self) -> Set[Node]:
        """The auxiliary states of custom operators, which may write them in prediction, too, and in backward()."""
        return _graph.auxiliary(node for node in _graph.walk(self._entries) if node.op == "Custom")

    def list_arguments(self) -> List[str]:
        """Names of the variables that it reads and does not write."""
        return [node.name for node in self._variables()[0]]

    def list_auxiliary_states(self) -> List[str]:
        """Names of the variables that its operators write, such as BatchNorm's moving averages."""
        return [node.name for node in self._variables()[1]]

    def list_inputs(self) -> List[str]:
        """Names of all variables."""
        return [node.name for node in _graph.walk(self._entries) if node.is_variable]

    def list_outputs(self) -> List[str]:
        """Names of the outputs: `fc_output`."""
        return [entry.node.output_name(entry.output) for entry in self._entries]

    def _entry(self, argument: str) -> Entry:
        """Its only output, as the input `argument` of an operator."""
        if len(self._entries) != 1:
            raise MXNetError(
                f"Argument {argument} is a tuple of {len(self._entries)} outputs, single value is "
                f"required: take one of {self!r} by its index"
            )
        return self._entries[0]

    def _define(self, parameters: Optional[Tuple[int, ...]] = None) -> Definition:
        """The graph as the server knows it; made at its first use.

        parameters: which of `list_inputs()` stay the same from one run to the next, but for training. None: whatever was said.
        """
        if parameters is None:
            parameters = next(iter(self._definitions), ())
        definition = self._definitions.get(parameters)
        if definition is None or definition.is_outdated():
            definition = self._definitions[parameters] = Definition(self._entries, parameters)
        return definition

    def debug_str(self) -> str:
        """The graph as text for people, node by node."""
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{number}]={entry.node.name}({entry.output})" for number, entry in enumerate(self._entries)]
        for node in _graph.walk(self._entries):
            if node.is_variable:
                lines.append(f"Variable:{node.name}")
                continue
            lines += ["-" * 20, f"Op:{node.op}, Name={node.name}", "Inputs:"]
            lines += [f"\targ[{number}]={entry.node.name}({entry.output})" for number, entry in enumerate(node.inputs)]
            if node.attrs:
                lines += ["Attrs:"] + [f"\t{key}={value}" for key, value in sorted(node.attrs.items())]
        return "\n".join(lines) + "\n"
