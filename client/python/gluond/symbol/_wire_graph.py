"""A symbol's graph as the message that DefineGraph takes.

Names on the wire are unique, printable and short. A node keeps its own name if possible; in the server's messages about
the other nodes, the session puts their own names back (Session.renamed).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from .._proto import graph_pb2
from . import _server
from ._graph import Entry, Node, walk

_LONGEST = 100  # The server takes 128 bytes; a number may be added.


class WireGraph(NamedTuple):
    """A message, and how it belongs to the symbol's nodes."""

    graph: graph_pb2.Graph
    variables: list[Node]  # In the order of Symbol.list_inputs.
    inputs: list[str]  # Their names on the wire.
    renamed: dict[str, str]  # The user's name, by the name on the wire where that is another.


def build(entries: Sequence[Entry], for_all: bool = False) -> WireGraph:
    """The message for a graph with these outputs. for_all: other clients run it, too."""
    order = walk(entries)
    names = _Names(order)
    graph = graph_pb2.Graph()
    for node in order:
        if not node.is_variable:
            _add(
                graph,
                names.of[node],
                node.op or "",
                *_server.on_the_wire(node.op, node.attrs, for_all),
                [names.reference(entry) for entry in node.inputs],
            )
    for entry in entries:
        reference = names.reference(entry)
        if entry.node.is_variable:  # An output is always an operator's.
            copied = names.new(entry.node.name)
            _add(graph, copied, "_copy", {}, None, [reference])
            reference = copied
        graph.outputs.append(reference)
    variables = [node for node in order if node.is_variable]
    return WireGraph(graph, variables, [names.of[node] for node in variables], names.renamed)


def _add(graph: graph_pb2.Graph, name: str, op: str, attrs: dict[str, str], custom: Any, inputs: Sequence[str]) -> None:
    node = graph.nodes.add(name=name, op=op, inputs=inputs, custom=custom)
    for key, value in attrs.items():
        node.attributes[key].string_value = value


class _Names:
    """Names on the wire."""

    def __init__(self, order: Sequence[Node]) -> None:
        self.of: dict[Node, str] = {}
        self.renamed: dict[str, str] = {}
        self._taken = {node.name for node in order}
        self._next = 0
        used: set[str] = set()
        for node in order:
            if node.name in used or not _fits(node.name):
                self.of[node] = self.new(node.name)
            else:
                used.add(node.name)
                self.of[node] = node.name

    def new(self, name: str) -> str:
        """A name that no node has, which stands for `name`."""
        stem = re.sub(r"[^!-9;-~]", "_", name)[:_LONGEST]
        while True:
            self._next += 1
            candidate = f"{stem}~{self._next}"
            if candidate not in self._taken:
                self.renamed[candidate] = name
                return candidate

    def reference(self, entry: Entry) -> str:
        return f"{self.of[entry.node]}:{entry.output}" if entry.output else self.of[entry.node]


def _fits(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and re.fullmatch(r"[!-9;-~]+", name) is not None
