"""Published versions, asked by the open inference protocol as every client of it asks them."""

from __future__ import annotations

import secrets
from typing import Dict, List, NamedTuple

import numpy as np

from .._proto import grpc_service_pb2, model_config_pb2
from .._wire.tensors import DTYPE_OF, flag_of, readable
from ..base import MXNetError
from . import calls, methods

# The protocol's names of the server's dtypes, by their numbers.
_DATATYPES = dict(enumerate(("FP32", "FP64", "FP16", "UINT8", "INT32", "INT8", "INT64", "BOOL")))
_DATATYPES[flag_of([("bfloat16", np.uint16)])] = "BF16"
_FLAGS = {name: flag for flag, name in _DATATYPES.items()}


class Config(NamedTuple):
    """A version, as a client knows it. inputs: their dtypes' numbers by name. most_rows: of one request; 0: any."""

    inputs: Dict[str, int]
    most_rows: int


def config_of(name: str, version: str) -> Config:
    """The Config of the version that a request without an id would get."""
    asked = grpc_service_pb2.ModelConfigRequest(name=name, version=version)
    config = calls.current().call(methods.MODEL_CONFIG, asked).config
    name_of = model_config_pb2.DataType.Name
    return Config({each.name: _FLAGS[name_of(each.data_type)[len("TYPE_") :]] for each in config.input}, config.max_batch_size)


def new_id() -> str:
    """An id for requests that are to have one version all, where weights share the requests among several."""
    return secrets.token_hex(8)


def infer(name: str, version: str, request_id: str, arrays: Dict[str, np.ndarray]) -> List[np.ndarray]:
    """The outputs of one request, in the version's order."""
    request = grpc_service_pb2.ModelInferRequest(model_name=name, model_version=version, id=request_id)
    for key, array in arrays.items():
        request.inputs.add(name=key, datatype=_DATATYPES[flag_of(array.dtype)], shape=array.shape)
        request.raw_input_contents.append(np.ascontiguousarray(array).tobytes())
    answer = calls.current().call(methods.MODEL_INFER, request)
    if len(answer.raw_output_contents) != len(answer.outputs):
        raise MXNetError(
            f"'{name}' version {answer.model_version}: {len(answer.outputs)} outputs came with "
            f"{len(answer.raw_output_contents)} values"
        )
    return [
        readable(np.frombuffer(raw, DTYPE_OF[_FLAGS[output.datatype]]).reshape(tuple(output.shape))).copy()
        for output, raw in zip(answer.outputs, answer.raw_output_contents)
    ]
