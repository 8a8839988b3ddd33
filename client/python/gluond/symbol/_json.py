"""MXNet's `-symbol.json`, which `Symbol.save` writes; `load` reads files of any MXNet 1.x and older ones, too."""

from __future__ import annotations

import json
from typing import Any, Sequence

from .._wire.frame import frame
from ..base import MXNetError
from . import _server
from ._attributes import SHORT, normalized
from ._graph import Entry, Node, walk

_VERSION = 10901  # The MXNet whose form this is.


def dumps(entries: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """The graph as text."""
    if remove_amp_cast:
        entries = _without_amp_casts(entries)
    order = walk(entries)
    ids = {node: number for number, node in enumerate(order)}
    versions: dict[Node, int] = {}
    nodes: list[str] = []
    rows = [0]
    for node in order:
        fields = _node_json(node, ids, versions)
        nodes.append("    {\n" + ",\n".join(f'      "{key}": {json.dumps(fields[key])}' for key in fields) + "\n    }")
        rows.append(rows[-1] + (1 if node.is_variable else max(1, len(node.call.outputs))))
    rest = {
        "arg_nodes": [ids[node] for node in order if node.is_variable],
        "node_row_ptr": rows,
        "heads": [[ids[entry.node], entry.output, versions.get(entry.node, 0)] for entry in entries],
        "attrs": {"mxnet_version": ["int", _VERSION], **({"is_np_shape": ["int", 1]} if frame().np_shape else {})},
    }
    # A field to a line, as MXNet writes it: differences between two files are then easy to see.
    return (
        '{\n  "nodes": [\n'
        + ",\n".join(nodes)
        + "\n  ],\n"
        + ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in rest.items())
        + "\n}"
    )


def _node_json(node: Node, ids: dict[Node, int], versions: dict[Node, int]) -> dict[str, Any]:
    """One node. `versions` counts how often each variable has been written before."""
    written = set() if node.is_variable else set(node.call.auxiliary)
    inputs = []
    for index, entry in enumerate(node.inputs):
        if index in written and entry.node.is_variable:
            versions[entry.node] = versions.get(entry.node, 0) + 1
        inputs.append([ids[entry.node], entry.output, versions.get(entry.node, 0)])
    result: dict[str, Any] = {"op": node.op or "null", "name": node.name}
    if node.attrs:
        result["attrs"] = dict(sorted(_server.in_a_file(node.op, node.attrs).items()))
    result["inputs"] = inputs
    return result


def _without_amp_casts(entries: Sequence[Entry]) -> list[Entry]:
    """The graph as it was before mixed precision was applied to it."""

    def is_cast(node: Node) -> bool:
        return node.op in ("amp_cast", "amp_multicast")

    order = walk(entries)
    if not any(is_cast(node) for node in order):
        return list(entries)
    new: dict[Node, Node] = {}

    def moved(entry: Entry) -> Entry:
        while is_cast(entry.node):
            entry = entry.node.inputs[entry.output]
        return Entry(new[entry.node], entry.output)

    for node in order:
        if not is_cast(node):
            new[node] = node.copy([moved(entry) for entry in node.inputs])
    return [moved(entry) for entry in entries]


def loads(content: str) -> list[Entry]:
    """The heads of the graph in the text. MXNetError: no such graph, and where it is broken."""
    try:
        graph = json.loads(content)
    except ValueError as error:
        raise MXNetError(f"This is no symbol file: {error}") from None
    for field in ("nodes", "arg_nodes", "heads"):
        if not isinstance(graph, dict) or not isinstance(graph.get(field), list):
            raise MXNetError(f'This is no symbol file: missing field "{field}"')
    nodes: list[Node] = []
    for number, content_of_node in enumerate(graph["nodes"]):
        nodes.append(_read_node(content_of_node, number, nodes))
    unknown = sorted({node.op for node in nodes if node.op is not None and not _server.is_operator(node.op)})
    if unknown:
        raise MXNetError(f"The server has no operator named {', '.join(unknown)}, which the graph uses")
    written = graph.get("attrs") or {}
    if "mxnet_version" not in written:
        _add_missing_inputs(nodes)
    if frame().np_shape and "is_np_shape" not in written:
        for node in nodes:
            if node.is_variable and "__shape__" in node.attrs:
                node.attrs["__shape__"] = _server.with_unknowns(node.attrs["__shape__"])
    return [_read_entry(head, nodes, "heads") for head in graph["heads"]]


def _read_node(content: Any, number: int, before: Sequence[Node]) -> Node:
    if not isinstance(content, dict) or not isinstance(content.get("op"), str):
        raise MXNetError(f'This is no symbol file: node {number} has no "op"')
    name = str(content.get("name", ""))
    # Files older than MXNet 1.0 call them `attr`; those older than 0.9 keep an operator's own in `param`.
    attrs = {str(key): str(value) for field in ("param", "attr", "attrs") for key, value in (content.get(field) or {}).items()}
    inputs = [_read_entry(entry, before, name) for entry in content.get("inputs") or []]
    if content["op"] == "null":
        return Node(None, name, normalized(attrs))
    _move_to_variables(attrs, inputs)
    return Node(content["op"], name, normalized(attrs), inputs)


def _read_entry(content: Any, nodes: Sequence[Node], where: str) -> Entry:
    if (
        not isinstance(content, list)
        or len(content) < 2
        or not all(isinstance(part, int) for part in content)
        or not 0 <= content[0] < len(nodes)
        or content[1] < 0
    ):
        raise MXNetError(f"This is no symbol file: {where} reads {content}, want [node, output] of a node before it")
    return Entry(nodes[content[0]], content[1])


def _add_missing_inputs(nodes: Sequence[Node]) -> None:
    """Files older than MXNet 0.9 leave auxiliary states out."""
    for node in nodes:
        if node.op is not None and len(node.call.inputs) > len(node.inputs):
            for argument in node.call.inputs[len(node.inputs) :]:
                node.inputs.append(Entry(Node(None, f"{node.name}_{argument}", {}), 0))


def _move_to_variables(attrs: dict[str, str], inputs: Sequence[Entry]) -> None:
    """Old files keep `weight_lr_mult` of a layer with the layer; it belongs to the variable `..._weight`."""
    for key in list(attrs):
        for short in SHORT:
            if not key.endswith("_" + short) or key.startswith("__"):
                continue
            argument = key[: -len(short) - 1]
            for entry in inputs:
                if entry.node.is_variable and entry.node.name.endswith(argument):
                    entry.node.attrs[f"__{short}__"] = attrs.pop(key)
                    break
