"""The graph under symbols: nodes that read each other's outputs, and the walks over them.

Nodes do not change, but for the attributes that their user sets: composing makes new nodes. No walk recurses, so that a
chain may have any length.
"""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from .._attributes import visible
from . import _server


class Entry(NamedTuple):
    """One output of a node."""

    node: "Node"
    output: int


class Node:
    """A variable, or one use of an operator."""

    __slots__ = ("op", "name", "attrs", "inputs", "_call")

    # How often operators' attributes have been changed in this process: things made of a graph before are outdated.
    edits = 0

    def __init__(
        self,
        op: Optional[str],
        name: str,
        attrs: dict[str, str],
        inputs: Sequence[Entry] = (),
        call: Optional["_server.Call"] = None,
    ) -> None:
        self.op = op  # None: a variable.
        self.name = name
        self.attrs = attrs
        self.inputs = list(inputs)
        self._call = call

    @property
    def is_variable(self) -> bool:
        return self.op is None

    @property
    def call(self) -> "_server.Call":
        """The operator's inputs and outputs with these attributes; asks the server if nobody has yet."""
        if self._call is None:
            assert self.op is not None
            self._call = _server.describe(self.op, self.attrs, len(self.inputs), self.name)
        return self._call

    def output_name(self, index: int) -> str:
        """`fc1_output`, `split0_output1`; of a variable its name."""
        if self.is_variable:
            return self.name
        outputs = self.call.outputs
        own = outputs[index] if index < len(outputs) else f"output{index}"
        return f"{self.name}_{own}" if self.name else own

    def set_attributes(self, attrs: Mapping[str, str]) -> None:
        """Changes attributes. MXNetError: the operator refuses one; then nothing has changed."""
        changed = {**self.attrs, **attrs}
        if self.op is not None and visible(changed) != visible(self.attrs):
            self._call = _server.describe(self.op, changed, len(self.inputs), self.name)
            Node.edits += 1
        self.attrs = changed

    def copy(self, inputs: Sequence[Entry], name: Optional[str] = None) -> "Node":
        """The same node on other inputs."""
        return Node(self.op, self.name if name is None else name, dict(self.attrs), inputs, self._call)


def walk(entries: Iterable[Entry]) -> list[Node]:
    """All nodes that the entries depend on, each once, after its inputs: depth first, inputs in order."""
    order: list[Node] = []
    seen: set[Node] = set()
    for entry in entries:
        if entry.node in seen:
            continue
        seen.add(entry.node)
        stack = [(entry.node, iter(entry.node.inputs))]
        while stack:
            node, inputs = stack[-1]
            for following in inputs:
                if following.node not in seen:
                    seen.add(following.node)
                    stack.append((following.node, iter(following.node.inputs)))
                    break
            else:
                stack.pop()
                order.append(node)
    return order


def auxiliary(nodes: Iterable[Node]) -> set[Node]:
    """The variables among the nodes that an operator writes."""
    written: set[Node] = set()
    for node in nodes:
        if node.is_variable:
            continue
        for index in node.call.auxiliary:
            if index < len(node.inputs) and node.inputs[index].node.is_variable:
                written.add(node.inputs[index].node)
    return written


def rebuild(entries: Sequence[Entry], replacements: Mapping[Node, Entry]) -> list[Entry]:
    """The entries with some nodes replaced: copies of nodes that depend on these, the same nodes elsewhere."""
    new: dict[Node, Entry] = dict(replacements)
    changed = set(replacements)

    def moved(entry: Entry) -> Entry:
        if entry.node not in new:
            return entry
        target = new[entry.node]
        return target if entry.node in replacements else Entry(target.node, entry.output)

    for node in walk(entries):
        if node in changed or not any(entry.node in changed for entry in node.inputs):
            continue
        changed.add(node)
        new[node] = Entry(node.copy([moved(entry) for entry in node.inputs]), 0)
    return [moved(entry) for entry in entries]


def copy(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a copy of the whole graph."""
    new: dict[Node, Node] = {}
    for node in walk(entries):
        new[node] = node.copy([Entry(new[entry.node], entry.output) for entry in node.inputs])
    return [Entry(new[entry.node], entry.output) for entry in entries]
