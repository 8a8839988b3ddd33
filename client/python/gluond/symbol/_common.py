"""Graphs in which equal computations are made once, as `Executor.get_optimized_symbol` shows them."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from .._attributes import visible
from . import _graph, _server
from ._graph import Entry, Node

# Operators that give other results when they are computed again.
_RANDOM = ("_random_", "_sample_", "sample_", "_shuffle", "Dropout", "RNN", "LeakyReLU", "Custom", "_sparse_random")


def merged(entries: Sequence[Entry]) -> List[Entry]:
    """The entries of a graph without repetitions. An output that would be another one's is a copy of it."""
    known: Dict[Any, Node] = {}
    kept: Dict[Node, Node] = {}
    for node in _graph.walk(entries):
        inputs = [Entry(kept[entry.node], entry.output) for entry in node.inputs]
        copied = node if node.is_variable else node.copy(inputs)
        can_merge = not (node.is_variable or node.op.startswith(_RANDOM) or node.call.auxiliary)  # type: ignore[union-attr]
        key: Tuple[Any, ...] = (node.op, tuple(inputs), tuple(sorted(visible(node.attrs).items())))
        kept[node] = known.setdefault(key, copied) if can_merge else copied
    found: List[Entry] = []
    for entry in entries:
        moved = Entry(kept[entry.node], entry.output)
        if moved in found and entry not in found:
            attrs: Dict[str, str] = {}
            copy = Node("_copy", f"{entry.node.name}_copy", attrs, [moved], _server.describe("_copy", attrs, 1, entry.node.name))
            moved = Entry(copy, 0)
        found.append(moved)
    return found
