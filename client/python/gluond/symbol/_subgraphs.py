"""The parts of a graph that a loop repeats or a branch chooses: what a function has made of symbols, cut off from the rest.

A node belongs to the function in whose AttrScope it was made. The results of other nodes that they read are inputs of the loop.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from .. import attribute
from . import _graph, _json
from ._graph import Entry, Node
from .symbol import Symbol

_MARK = "__subgraph_name__"


def unique_name(name: str) -> str:
    """The name of a part, with the number of those before it; within another part it begins with that one's."""
    outer = attribute.current().get(None).get(_MARK)
    if outer:
        name = f"{outer}${name}"
    return f"{name}{attribute.count_part(name)}"


def scope(name: str) -> attribute.AttrScope:
    """Within, nodes belong to the part of this name."""
    return attribute.AttrScope(**{_MARK: name})


class Parts:
    """The parts of one loop or branch, and the inputs that they have together.

    own: the loop's first inputs, which the functions get as the variables `stand_ins`.
    """

    def __init__(self, own: Sequence[Entry] = ()) -> None:
        self._inputs: List[Entry] = list(own)
        self.stand_ins = [Symbol([Entry(Node(None, self._variable(place), {}), 0)]) for place in range(len(own))]
        self._places: Dict[Entry, int] = {each._entries[0]: place for place, each in enumerate(self.stand_ins)}
        self._graphs: List[List[Entry]] = []

    @staticmethod
    def _variable(place: int) -> str:
        return f"in{place}"

    def add(self, outputs: Sequence[Symbol], name: str) -> None:
        """Adds the part of this name."""
        entries = [each._entry("output") for each in outputs]
        variables: Dict[int, Node] = {}
        copies: Dict[Node, Node] = {}

        def moved(entry: Entry) -> Entry:
            if entry.node in copies:
                return Entry(copies[entry.node], entry.output)
            place = self._places.get(entry)
            if place is None:
                place = self._places[entry] = len(self._inputs)
                self._inputs.append(entry)
            if place not in variables:
                variables[place] = Node(None, self._variable(place), {})
            return Entry(variables[place], 0)

        for node in _graph.walk(entries):
            if not node.is_variable and node.attrs.get(_MARK) == name:
                copies[node] = node.copy([moved(entry) for entry in node.inputs])
                del copies[node].attrs[_MARK]
        self._graphs.append([moved(entry) for entry in entries])

    def ordered(self) -> tuple[List[Symbol], List[str], int]:
        """The inputs, those last that a part writes; the parts as texts; the number of inputs that are written."""
        written = {node.name for graph in self._graphs for node in _graph.auxiliary(_graph.walk(graph))}
        order = sorted(range(len(self._inputs)), key=lambda place: self._variable(place) in written)
        names = {self._variable(place): self._variable(number) for number, place in enumerate(order)}
        for node in {node for graph in self._graphs for node in _graph.walk(graph) if node.is_variable}:
            node.name = names[node.name]
        texts = [_json.dumps(graph, remove_amp_cast=False) for graph in self._graphs]
        return [Symbol([self._inputs[place]]) for place in order], texts, len(written)


def places_of(part: Any) -> List[int]:
    """The places of a part's inputs among those of its loop."""
    return [int(name[2:]) for name in part.list_inputs()]
