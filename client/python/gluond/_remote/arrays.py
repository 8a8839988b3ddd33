"""A model's parameters as arrays of this program's session, and back. No value crosses the wire."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._array import calls as array_calls
from .._array.array import NDArray
from .._proto import command_pb2
from .._wire import connect, encoding
from .._wire.encoding import number_of
from .._wire.tensors import DTYPE_OF
from ..base import MXNetError
from ..context import _of_device
from ..gluon._parameter import Parameter


def of_parameters(parameters: Mapping[str, Parameter]) -> Dict[str, NDArray]:
    """The parameters' values. MXNetError: they are another session's than the current one."""
    found = {name: parameter._reduce() for name, parameter in parameters.items()}
    session = connect.current()
    for name, array in found.items():
        if array._session is not session:
            raise MXNetError(
                f"the parameter '{name}' is on the server at {array._session.address}, of a session before "
                "mx.connect(), and models are made on the current one"
            )
    return found


def numbers(arrays: Mapping[str, NDArray]) -> Dict[str, int]:
    """The arrays' names in the session."""
    return {name: number_of(array._sent()) for name, array in arrays.items()}


def take(model: str, variables: Sequence[Any]) -> Tuple[Any, Dict[str, NDArray]]:
    """The Model with its graph, and arrays that hold these of its parameters (Variable of graph.proto) as they are now."""
    session = connect.current()
    context = _of_device(session.devices[0])
    arrays = {each.name: array_calls.blank(NDArray, session, context, tuple(each.shape), _dtype(each)) for each in variables}
    command = command_pb2.Command.OpenModel(model=model, arrays=numbers(arrays))
    return session.request(encoding.message(encoding.OPEN_MODEL, command)).model, arrays


def _dtype(variable: Any) -> np.dtype:
    return DTYPE_OF[variable.dtype]


def store(model: str, arrays: Mapping[str, NDArray], expected_version: Optional[int]) -> int:
    """Gives a model's parameters the values of arrays; returns its version afterwards. MXNetError: it has another version
    than the expected one."""
    command = command_pb2.Command.StoreToModel(model=model, arrays=numbers(arrays))
    if expected_version is not None:
        command.expected_version = expected_version
    return connect.current().request(encoding.message(encoding.STORE_TO_MODEL, command)).model.version
