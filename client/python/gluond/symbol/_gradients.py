"""How an Executor's gradients are computed: which outputs need a head gradient, and arguments that can be marked."""

from __future__ import annotations

import weakref
from typing import Any, List, Mapping, Optional, Sequence

from .._array import tape
from .._array.array import NDArray
from .._array.calls import write
from .._proto import command_pb2, graph_pb2
from .._wire import encoding
from ..base import MXNetError
from . import _server
from ._outputs import Outputs

# Operators whose gradient does not depend on the head gradient.
_LOSSES = {
    "SoftmaxOutput",
    "Softmax",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
    "SVMOutput",
    "MakeLoss",
    "make_loss",
    "BlockGrad",
    "stop_gradient",
}
# Operators whose gradient is 0, whatever the head gradient is.
_COMPARISONS = [
    f"{prefix}{name}{suffix}"
    for name in (
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "lesser",
        "lesser_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
    )
    for prefix, suffix in (("_", ""), ("_", "_scalar"), ("broadcast_", ""))
]
_CONSTANT = {
    *_COMPARISONS,
    "logical_not",
    "shape_array",
    "size_array",
    "argmax",
    "argmin",
    "argmax_channel",
    "one_hot",
    "sign",
    "round",
    "rint",
    "fix",
    "floor",
    "ceil",
    "trunc",
    "ones_like",
    "zeros_like",
}


class HeadGradients:
    """The gradients that `backward` begins with."""

    def __init__(self, symbol: Outputs) -> None:
        self._needed = [not _is_loss(entry.node) for entry in symbol._entries]
        self._constant = [entry.node.op in _CONSTANT for entry in symbol._entries]
        self._dtypes: Optional[List[Any]] = None

    def check(self, given: Any, names: Sequence[str], outputs: Sequence[NDArray]) -> List[Optional[NDArray]]:
        """One for each output, of its dtype, None where none is needed. MXNetError: one that is needed is missing."""
        if given is None:
            gradients: List[Optional[NDArray]] = [None] * len(names)
        elif isinstance(given, NDArray):
            gradients = [given]
        elif isinstance(given, Mapping):
            gradients = [given.get(name) for name in names]
        else:
            gradients = list(given)
        for gradient in gradients:
            if gradient is not None and not isinstance(gradient, NDArray):
                raise TypeError(f"inputs must be NDArray, got {type(gradient).__name__}")
        gradients = [
            None if constant else gradient
            for gradient, constant in zip(gradients + [None] * (len(names) - len(gradients)), self._constant)
        ]  # Those beyond the outputs are ignored, as by MXNet.
        for name, gradient, needed in zip(names, gradients, self._needed):
            if needed and gradient is None:
                raise MXNetError(
                    f"Because the last operator is not Loss function, head_gradient is required when "
                    f"calling backward: {name} has none. If you are attempting to minimize the output as "
                    "an objective, please modify your network and pass it through the make_loss symbol."
                )
        if self._dtypes is None and any(gradient is not None for gradient in gradients):
            self._dtypes = [output.dtype for output in outputs]
        return [
            gradient if gradient is None or gradient.dtype == dtype else gradient.astype(dtype)
            for gradient, dtype in zip(gradients, self._dtypes or [None] * len(gradients))
        ]


def _is_loss(node: Any) -> bool:
    if node.op == "Custom":
        return not _server.custom_needs_head_gradient(node.attrs)
    return node.op in _LOSSES or node.op in _CONSTANT


class MarkedArguments:
    """An executor's arguments as the graph reads them when it is recorded.

    They are arrays of their own, assigned (not copied) where the user has written since the last run, and marked with
    the executor's gradients: the user's arrays may be marked otherwise, or be in other executors.
    """

    def __init__(self, arguments: Sequence[NDArray], gradients: Sequence[Optional[NDArray]], requests: Sequence[str]) -> None:
        self._arguments = arguments
        self._gradients = gradients
        self._requests = requests
        self._names: List[bytes] = []
        self._versions: List[Optional[float]] = [None] * len(arguments)
        self.any = any(request != "null" for request in requests)

    def read(self) -> List[bytes]:
        """Their names, with the arguments' values of now."""
        session = self._arguments[0]._session
        first = not self._names
        if first:
            self._names = [next(encoding.names) for _ in self._arguments]
            weakref.finalize(self, session.dead_arrays.extend, self._names).atexit = False
        for place, argument in enumerate(self._arguments):
            version = argument._where.version(argument)
            if self._versions[place] != version:
                session.submit(encoding.assign(self._names[place], argument._sent()))
                self._versions[place] = version
        if first:
            self._mark(session)
        return self._names

    def _mark(self, session: Any) -> None:
        command = command_pb2.Command.Mark()
        for name, gradient, request in zip(self._names, self._gradients, self._requests):
            if gradient is not None and request != "null":
                command.arrays.add(
                    variable=encoding.number_of(name),
                    gradient=encoding.number_of(gradient._sent()),
                    request=graph_pb2.Variable.GradReq.Value(request.upper()),
                )
                gradient._written_by_server()
        session.submit(encoding.message(encoding.MARK, command))

    def backward(
        self, outputs: Sequence[NDArray], head_gradients: Sequence[Optional[NDArray]], training: bool, keeps: bool
    ) -> None:
        """Computes the gradients, from the recorded outputs. keeps: the server goes on with a copy of their run."""
        command = command_pb2.Command.Backward(
            heads=[encoding.number_of(output._sent()) for output in outputs],
            head_gradients=[0 if gradient is None else encoding.number_of(gradient._sent()) for gradient in head_gradients],
            retain_graph=keeps,
            training=training,
        )
        written = [
            gradient for gradient, request in zip(self._gradients, self._requests) if gradient is not None and request != "null"
        ]
        write(written, lambda: tape.submit_backward(outputs[0]._session, command))
