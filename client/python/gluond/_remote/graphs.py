"""Graphs between Blocks of this program and models of the server."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .._array.array import NDArray
from .._attributes import text
from .._custom import graph as custom
from .._proto import graph_pb2
from ..base import MXNetError
from ..gluon._hybrid_block import HybridBlock
from ..gluon._parameter import Parameter
from ..gluon._traced import TracedGraph
from ..gluon.utils import dtype_name, shape_is_known
from ..symbol import _wire_graph
from ..symbol._attributes import DTYPE_FLAGS
from ..symbol._graph import Entry, Node
from ..symbol.symbol import Group, Symbol, var
from . import components
from .components import value_of

# The inputs' shapes as programs give them: a shape, or an array of that shape whose first dimension varies; several in
# the order of the inputs, or by name. None: nothing is known.
Shapes = Union[Any, Sequence[Any], Mapping[str, Any]]


class Input(NamedTuple):
    """An input of a model. shape: None where nothing is known; -1 for a size that varies."""

    name: str
    shape: Optional[Tuple[int, ...]]
    dtype: str

    def variable(self) -> Any:
        """As a declaration."""
        return graph_pb2.Variable(
            name=self.name, kind=graph_pb2.Variable.INPUT, shape=self.shape or (), dtype=DTYPE_FLAGS[self.dtype]
        )


class Traced(NamedTuple):
    """A Block's computation as a model's. parameters: by their names on the wire, which they mostly have themselves.
    auxiliary: the names of those that operators write."""

    graph: Any
    variables: List[str]
    inputs: List[Input]
    parameters: Dict[str, Parameter]
    auxiliary: List[str]
    outputs: List[str]


def trace(block: Any, inputs: Shapes = None) -> Traced:
    """The graph of a HybridBlock as hybridize() makes it: the last one that ran, else a new one of the inputs' number.

    MXNetError: the Block is no HybridBlock, or its graph has an operator that no other client can use.
    """
    if not isinstance(block, HybridBlock):
        raise MXNetError(
            f"{type(block).__name__} is no HybridBlock, and only those are a graph, which a model needs: derive "
            "it from gluon.HybridBlock (HybridSequential instead of Sequential), with hybrid_forward(self, F, x)"
        )
    traced = _traced(block, _count(inputs))
    found = traced.outputs
    wire = _wire_graph.build(found._entries, for_all=True)
    _check_shared(wire.graph)
    names = {variable.name: name for variable, name in zip(wire.variables, wire.inputs)}
    params = block.collect_params()
    given = [str(variable.name) for variable in traced.inputs]
    own = {names[name]: params[name] for name in found.list_inputs() if name not in given and name in params}
    missing = [name for name in found.list_inputs() if name not in given and name not in params]
    if missing:
        raise MXNetError(
            f"'{block.name}' reads the variable '{missing[0]}', which is neither an input nor one of its " "parameters"
        )
    auxiliary = [names[name] for name in found.list_auxiliary_states() if name not in given]
    unread = [name for name in given if name not in names]
    if unread:
        raise MXNetError(f"no operator of '{block.name}' reads its input '{unread[0]}', and a model's inputs are all needed")
    return Traced(wire.graph, wire.inputs, _inputs(traced, names, inputs), own, auxiliary, _name_outputs(wire.graph))


def _traced(block: HybridBlock, count: Optional[int]) -> TracedGraph:
    last = block._last_graph
    if last is not None and (count is None or len(last.inputs) == count):
        return last
    arrays = ("array",) * (count or 1)
    try:
        return TracedGraph.of(block, ("tuple", *arrays))
    except TypeError as error:
        raise MXNetError(
            f"'{block.name}' cannot be traced with {len(arrays)} input(s): {error}. Run it once on data, or say "
            "with inputs= what it takes"
        ) from error


def _count(inputs: Shapes) -> Optional[int]:
    """The number of inputs that shapes are given for; None: it is not said."""
    if inputs is None:
        return None
    return len(inputs) if isinstance(inputs, Mapping) or _are_several(inputs) else 1


def _are_several(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and not all(isinstance(size, (int, np.integer)) for size in inputs)


def _inputs(traced: TracedGraph, names: Mapping[str, str], given: Shapes) -> List[Input]:
    own = [str(variable.name) for variable in traced.inputs]
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in own]
        if unknown:
            raise MXNetError(f"inputs= says a shape of '{unknown[0]}', which is no input; there are {', '.join(own)}")
        said = [given.get(name) for name in own]
    elif given is None and traced.seen:
        return [
            Input(names[name], shape and (-1, *shape[1:]), dtype_name(np.float32 if dtype is None else dtype))
            for name, (shape, dtype) in zip(own, traced.seen)
        ]
    elif given is None:
        said = [None] * len(own)
    else:
        said = list(given) if _are_several(given) else [given]
    return [Input(names[name], *_kind(name, each)) for name, each in zip(own, said)]


def _kind(name: str, given: Any) -> Tuple[Optional[Tuple[int, ...]], str]:
    """An input's shape and dtype: as an array has them, but for the batch's size; or the shape itself."""
    if given is None:
        return None, "float32"
    if isinstance(given, (NDArray, np.ndarray)):
        return (-1, *given.shape[1:]) if given.shape else (), dtype_name(given.dtype)
    try:
        return tuple(int(size) for size in given), "float32"
    except (TypeError, ValueError):
        raise TypeError(f"inputs=: '{name}' is a shape, with -1 for a size that varies, or an array, not {given!r}") from None


def _check_shared(graph: Any) -> None:
    for node in graph.nodes:
        if node.op == "Custom":
            op_type = node.custom.op_type
            if not custom.is_shared(op_type):
                raise MXNetError(
                    f"the operator '{op_type}' (node '{node.name}') is private to this program, and a model is "
                    f"everybody's: share it, with @mx.operator.register('{op_type}', shared=True) or "
                    f"mx.operator.share('{op_type}'); the model then works while this program runs"
                )


def _name_outputs(graph: Any) -> List[str]:
    """The names of the outputs: `output`, or `output0`, `output1`, ... Their nodes get them as far as they are different."""
    wanted = ["output"] if len(graph.outputs) == 1 else [f"output{place}" for place in range(len(graph.outputs))]
    taken = {node.name for node in graph.nodes} | {name for node in graph.nodes for name in node.inputs}
    renamed = {
        old: new
        for old, new in zip(graph.outputs, wanted)
        if ":" not in old and list(graph.outputs).count(old) == 1 and new not in taken
    }
    for references in (*(node.inputs for node in graph.nodes), graph.outputs):
        for place, reference in enumerate(references):
            name, colon, index = reference.partition(":")
            references[place] = renamed.get(name, name) + colon + index
    for node in graph.nodes:
        node.name = renamed.get(node.name, node.name)
    return wanted


def declaration(name: str, parameter: Parameter, is_auxiliary: bool, trained: bool = True) -> Any:
    """A parameter's Variable. trained: whether a trainer may change it."""
    kind = graph_pb2.Variable.AUXILIARY if is_auxiliary else graph_pb2.Variable.PARAMETER
    found = graph_pb2.Variable(name=name, kind=kind, lr_mult=parameter.lr_mult, wd_mult=parameter.wd_mult)
    if shape_is_known(parameter.shape):
        found.shape.extend(parameter.shape)
    elif parameter.shape:
        found.shape.extend(size if size > 0 else -1 for size in parameter.shape)
    found.dtype = DTYPE_FLAGS[dtype_name(parameter.dtype)]
    if not is_auxiliary:
        requests = {"write": graph_pb2.Variable.WRITE, "add": graph_pb2.Variable.ADD}
        found.grad_req = requests.get(parameter.grad_req, graph_pb2.Variable.NULL) if trained else graph_pb2.Variable.NULL
    return found


def initializer_of(parameter: Parameter) -> Any:
    """The Component of a parameter's own initializer; None: it has none."""
    return None if parameter.init is None else components.initializer(parameter.init)


def symbol_of(graph: Any, variables: Mapping[str, Any], inputs: Sequence[str]) -> Tuple[Symbol, List[Symbol]]:
    """A model's graph as a Symbol, and its inputs. variables: parameters' descriptions by name."""
    nodes = {
        each.name: Node(
            each.op,
            each.name,
            {
                **{key: _text(value) for key, value in each.attributes.items()},
                **(custom.from_the_wire(each.custom) if each.HasField("custom") else {}),
            },
        )
        for each in graph.nodes
    }
    made: Dict[str, Node] = {}
    for node in graph.nodes:
        nodes[node.name].inputs.extend(_entry(reference, nodes, made, variables) for reference in node.inputs)
    outputs = Symbol([_entry(reference, nodes, made, variables) for reference in graph.outputs])
    return Group(outputs), [var(name) for name in inputs]


def _text(value: Any) -> str:
    plain = value_of(value)
    return text(tuple(plain) if isinstance(plain, list) else plain)


def _entry(reference: str, nodes: Mapping[str, Node], made: Dict[str, Node], variables: Mapping[str, Any]) -> Entry:
    name, _, index = reference.partition(":")
    if name in nodes:
        return Entry(nodes[name], int(index or 0))
    if name not in made:
        described = variables.get(name)
        attrs = {} if described is None else {"__lr_mult__": str(described.lr_mult), "__wd_mult__": str(described.wd_mult)}
        made[name] = Node(None, name, attrs)
    return Entry(made[name], 0)
