"""A symbol's graph on the server: defined once for each session, asked for shapes, run."""

from __future__ import annotations

import collections
import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Deque, Mapping, NamedTuple, Optional, Sequence

from .._custom.graph import edits
from .._proto import command_pb2
from .._wire import connect, encoding
from .._wire.frame import frame
from . import _server, _wire_graph
from ._attributes import DTYPE_FLAGS, FLAG_DTYPES
from ._graph import Entry, Node

if TYPE_CHECKING:
    from .._wire.session import Session


# Names that are kept for messages.
_MOST_RENAMED = 1 << 14


class KnownType(NamedTuple):
    """The known type of a variable or an output."""

    shape: Optional[tuple[int, ...]]  # None: not even the rank is known; -1: an unknown dimension.
    dtype: Optional[str]


class Inferred(NamedTuple):
    """The known types of a graph."""

    inputs: list[KnownType]  # In the order of Definition.variables.
    outputs: list[KnownType]


class Definition:
    """The graph with these outputs. Nobody may change its nodes' attributes while it is in use (see `is_outdated`).

    parameters: places of variables whose arrays mostly stay the same from one run to the next.
    """

    def __init__(self, entries: Sequence[Entry], parameters: Sequence[int] = ()) -> None:
        self._wire = _wire_graph.build(entries)
        self._parameters = parameters
        self._edits = edits() + Node.edits
        self._graphs: weakref.WeakKeyDictionary[Session, tuple[int, Deque[int]]] = weakref.WeakKeyDictionary()
        self._frames: dict[int, encoding.CallFrame] = {}
        self.variables: list[Node] = self._wire.variables

    def is_outdated(self) -> bool:
        """Whether any node of any graph got other attributes since, or a custom operator was replaced."""
        return self._edits != edits() + Node.edits

    def graph(self, session: "Session") -> int:
        """The graph's name in a session; defines it where that has not been done."""
        number, dead = self._graphs.get(session, (0, None))
        if dead is None:
            dead = _dead_graphs(session)
            number = session.new_call()
            if len(session.renamed) > _MOST_RENAMED:
                session.renamed.clear()
            session.renamed.update(self._wire.renamed)
            _server.will_run(session, {node.custom.op_type for node in self._wire.graph.nodes if node.op == "Custom"})
            session.submit(
                encoding.message(
                    encoding.DEFINE_GRAPH,
                    command_pb2.Command.DefineGraph(
                        graph=number, definition=self._wire.graph, inputs=self._wire.inputs, parameters=self._parameters
                    ),
                )
            )
            self._graphs[session] = number, dead
            # Garbage collection may come at any moment, and must not wait: it only notes the name.
            weakref.finalize(self, dead.append, number).atexit = False
        if dead:
            free = command_pb2.Command.Free()
            with contextlib.suppress(IndexError):  # Another thread may take some, too.
                while True:
                    free.graphs.append(dead.popleft())
            session.submit(encoding.message(encoding.FREE, free))
        return number

    def infer(self, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]) -> Inferred:
        """The types that follow from some variables' shapes (0 or -1: an unknown dimension) and dtypes, by name.

        MXNetError: they contradict each other.
        """
        session = connect.current()
        command = command_pb2.Command.InferGraph(graph=self.graph(session), partial=True)
        for node, name in zip(self.variables, self._wire.inputs):
            shape, dtype = shapes.get(node.name), dtypes.get(node.name)
            if shape or dtype is not None or shape is not None and frame().np_shape:
                _describe(command.known[name], shape, dtype)
        found = session.request(encoding.message(encoding.INFER_GRAPH, command)).graph
        return Inferred([_kind(value) for value in found.inputs], [_kind(value) for value in found.outputs])

    def run(self, session: "Session", inputs: Sequence[bytes], outputs: Sequence[bytes], flags: bytes) -> None:
        """Computes the outputs from arrays in the order of `variables`; all by their names in the session.

        flags: whether it records and trains, as encoding.mode_flags says it.
        """
        graph = self.graph(session)
        frame = self._frames.get(graph)
        if frame is None:
            frame = self._frames[graph] = encoding.CallFrame(encoding.RUN_GRAPH, graph, len(inputs), len(outputs))
        session.run_graph(b"".join((frame.head, *inputs, frame.middle, *outputs, flags)), frame)


def _describe(message: Any, shape: Optional[Sequence[int]], dtype: Optional[str]) -> None:
    """Fills an ArrayType. An empty shape says nothing, as in MXNet 1.x, but with numpy's shapes."""
    if shape or shape is not None and frame().np_shape:
        message.has_shape = True
        least = 0 if frame().np_shape else 1
        message.shape.extend(int(size) if size >= least else -1 for size in shape)
    if dtype is not None:
        message.dtype = DTYPE_FLAGS[dtype]


def _kind(message: Any) -> KnownType:
    return KnownType(
        tuple(message.shape) if message.has_shape else None, FLAG_DTYPES[message.dtype] if message.HasField("dtype") else None
    )


_dead: "weakref.WeakKeyDictionary[Session, Deque[int]]" = weakref.WeakKeyDictionary()


def _dead_graphs(session: "Session") -> Deque[int]:
    """Names of graphs that are freed in this process."""
    return _dead.setdefault(session, collections.deque())
