"""Pictures of networks: `print_summary` as a table, `plot_network` as a graph (with graphviz where it is installed)."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .symbol.symbol import Symbol

__all__ = ["print_summary", "plot_network"]

# Colours of nodes, by kind.
_FILL = ("#8dd3c7", "#fb8072", "#ffffb3", "#bebada", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")
_PARAMETER_ENDINGS = ("_weight", "_bias", "_beta", "_gamma", "_moving_var", "_moving_mean", "_running_var", "_running_mean")


def print_summary(
    symbol: Symbol,
    shape: Optional[Mapping[str, Sequence[int]]] = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Prints a table of the layers with their output shapes and numbers of parameters.

    shape: of the inputs, by name, with the batch first: {"data": (1, 1, 28, 28)}. Without it no counts are known.
    line_length: in characters. positions: where each column ends, as a fraction of it.
    """
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be Symbol")
    nodes, heads = _nodes(symbol)
    shapes = _shapes(symbol, shape)
    states = set(symbol.list_auxiliary_states())
    ends = [int(line_length * position) if position <= 1 else int(position) for position in positions]
    print("_" * line_length)
    _print_row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"], ends)
    print("=" * line_length)
    total = 0
    for number, node in enumerate(nodes):
        if node["op"] == "null" and number > 0 and number not in heads and not _is_data(node, shape):
            continue
        sources = [(entry[0], nodes[entry[0]]) for entry in node["inputs"]]
        count = sum(
            _size(shapes.get((source["name"], 0)))
            for _, source in sources
            if _is_parameter(source, shape) and source["name"] not in states
        )
        total += count
        before = [
            source["name"] for place, source in sources if source["op"] != "null" or place in heads or _is_data(source, shape)
        ]
        rest = "x".join(str(size) for size in shapes.get((node["name"], 0), ())[1:])
        _print_row([f"{node['name']}({node['op']})", rest, str(count), before[0] if before else ""], ends)
        for name in before[1:]:
            _print_row(["", "", "", name], ends)
        print(("=" if number == len(nodes) - 1 else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _nodes(symbol: Symbol) -> Tuple[List[Dict[str, Any]], set]:
    graph = json.loads(symbol.tojson())
    return graph["nodes"], {head[0] for head in graph["heads"]}


def _shapes(symbol: Symbol, shape: Optional[Mapping[str, Sequence[int]]]) -> Dict[Tuple[str, int], Tuple[int, ...]]:
    """The shape of each node's outputs, by the node's name and the output's index; empty without `shape`."""
    if shape is None:
        return {}
    internals = symbol.get_internals()
    _, outputs, _ = internals.infer_shape(**shape)
    if outputs is None:
        raise ValueError("Input shape is incomplete")
    return _by_entry(internals, outputs)


def _types(symbol: Symbol, dtype: Optional[Mapping[str, Any]]) -> Dict[Tuple[str, int], Any]:
    """The same of dtypes."""
    if dtype is None:
        return {}
    internals = symbol.get_internals()
    _, outputs, _ = internals.infer_type(**dtype)
    if outputs is None:
        raise ValueError("Input type is incomplete")
    return _by_entry(internals, outputs)


def _by_entry(internals: Symbol, found: Sequence[Any]) -> Dict[Tuple[str, int], Any]:
    return {(entry.node.name, entry.output): each for entry, each in zip(internals._entries, found)}


def _is_data(node: Mapping[str, Any], shape: Optional[Mapping[str, Sequence[int]]]) -> bool:
    """Whether a variable is an input rather than a parameter."""
    if node["op"] != "null":
        return False
    if shape is not None:
        return node["name"] in shape
    return not node["name"].endswith(_PARAMETER_ENDINGS)


def _is_parameter(node: Mapping[str, Any], shape: Optional[Mapping[str, Sequence[int]]]) -> bool:
    return node["op"] == "null" and not _is_data(node, shape) and not node["name"].endswith("label")


def _size(shape: Optional[Sequence[int]]) -> int:
    if not shape:
        return 0
    count = 1
    for size in shape:
        count *= size
    return count


def _print_row(fields: Sequence[str], ends: Sequence[int]) -> None:
    line = ""
    for field, end in zip(fields, ends):
        line = (line + field)[:end].ljust(end)
    print(line)


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Optional[Mapping[str, Sequence[int]]] = None,
    dtype: Optional[Mapping[str, Any]] = None,
    node_attrs: Optional[Mapping[str, str]] = None,
    hide_weights: bool = True,
) -> Any:
    """A graphviz.Digraph of the network: shown by notebooks, written by its `render()`.

    shape, dtype: of the inputs, by name, for edges that tell shapes and dtypes. node_attrs: graphviz attributes of every node.
    hide_weights: leaves parameters out. ImportError: graphviz is not installed. RuntimeWarning: nodes of one name, which are one
    node of the picture.
    """
    try:
        from graphviz import Digraph
    except ImportError:
        raise ImportError("Draw network requires graphviz library: pip install graphviz") from None
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be a Symbol")
    nodes, _ = _nodes(symbol)
    names = [node["name"] for node in nodes]
    if len(set(names)) != len(names):
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may result in cyclic graph. Repeated "
            "names: " + ",".join(sorted({n for n in names if names.count(n) > 1})),
            RuntimeWarning,
            stacklevel=2,
        )
    shapes, types = _shapes(symbol, shape), _types(symbol, dtype)
    common = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled", **(node_attrs or {})}
    dot = Digraph(name=title, format=save_format)
    hidden = set()
    for node in nodes:
        if node["op"] == "null":
            if hide_weights and node["name"].endswith(_PARAMETER_ENDINGS):
                hidden.add(node["name"])
                continue
            dot.node(name=node["name"], label=node["name"], **{**common, "shape": "oval", "fillcolor": _FILL[0]})
        else:
            dot.node(name=node["name"], label=_label(node), **{**common, "fillcolor": _fill(node["op"])})
    for node in nodes:
        for source, index, *_ in node["inputs"]:
            if names[source] in hidden:
                continue
            entry = names[source], index
            label = "x".join(str(size) for size in shapes.get(entry, ())[1:])
            label += f"({types[entry].__name__})" if entry in types else ""
            dot.edge(tail_name=node["name"], head_name=names[source], dir="back", arrowtail="open", label=label)
    return dot


def _fill(op: str) -> str:
    kinds = (
        ("Convolution", "Deconvolution", "FullyConnected"),
        ("Activation", "LeakyReLU"),
        ("BatchNorm",),
        ("Pooling",),
        ("Concat", "Flatten", "Reshape"),
        ("Softmax", "SoftmaxOutput"),
    )
    for colour, ops in zip(_FILL[1:], kinds):
        if op in ops:
            return colour
    return _FILL[7]


def _convolution(attrs: Mapping[str, str]) -> str:
    kernel, stride = _numbers(attrs.get("kernel")), _numbers(attrs.get("stride")) or "1"
    return f"{kernel}/{stride}, {attrs.get('num_filter')}"


def _pooling(attrs: Mapping[str, str]) -> str:
    kernel, stride = _numbers(attrs.get("kernel")), _numbers(attrs.get("stride")) or "1"
    return f"{attrs.get('pool_type', 'max')}, {kernel}/{stride}"


# A node's text below its operator's name.
_DETAILS: Dict[str, Callable[[Mapping[str, str]], str]] = {
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "FullyConnected": lambda attrs: attrs["num_hidden"],
    "Activation": lambda attrs: attrs["act_type"],
    "LeakyReLU": lambda attrs: attrs.get("act_type", "leaky"),
    "Pooling": _pooling,
}


def _label(node: Mapping[str, Any]) -> str:
    if node["op"] in _DETAILS:
        return f"{node['op']}\n{_DETAILS[node['op']](node.get('attrs', {}))}"
    return str(node["attrs"]["op_type"] if node["op"] == "Custom" else node["name"])


def _numbers(text: Optional[str]) -> str:
    """`3x3` of `(3, 3)`."""
    return "x".join(re.findall(r"\d+", text or ""))
