"""Parameters of a model to and from this program: small ones in one call, large ones in chunks."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import grpc
import numpy as np

from .._proto import parameters_pb2, tensor_pb2
from .._wire.tensors import DTYPE_OF, flag_of, readable, to_numpy
from ..base import MXNetError
from . import methods, values
from .calls import CallError, Caller
from .crc32c import crc32c

_ATTEMPTS = 5


def upload(caller: Caller, model: str, given: Mapping[str, np.ndarray]) -> int:
    """Sets parameters, all or none; returns the model's version afterwards."""
    most, inline = caller.limits.max_chunk_bytes, 0
    request = parameters_pb2.SetParametersRequest(model=model)
    for name, value in given.items():
        if inline + value.nbytes <= most:
            inline += value.nbytes
            request.parameters[name].CopyFrom(values.tensor(value))
        else:
            _upload_one(caller, model, name, value, most)
            request.uploaded.append(name)
    return caller.apply(methods.SET_PARAMETERS, request).version


def _upload_one(caller: Caller, model: str, name: str, value: np.ndarray, most: int) -> None:
    data = np.ascontiguousarray(value).tobytes()
    for begin in range(0, len(data), most):
        piece = data[begin:begin + most]
        # An earlier call may have left chunks of another value.
        caller.call(methods.UPLOAD_PARAMETER, parameters_pb2.UploadParameterRequest(
            model=model, parameter=name, shape=value.shape, dtype=flag_of(value.dtype), restart=begin == 0,
            chunk=tensor_pb2.Chunk(offset=begin, data=piece, crc32c=crc32c(piece)), client_id=caller.client_id))


def download(caller: Caller, model: str, names: Any) -> Tuple[Dict[str, np.ndarray], int]:
    """Values of one moment, and the version that they are of. MXNetError: the model changed in each of some attempts."""
    try:
        answer = caller.call(methods.GET_PARAMETERS, parameters_pb2.GetParametersRequest(
            model=model, names=names, encoding=tensor_pb2.RAW))
        return {name: to_numpy(each) for name, each in answer.parameters.items()}, answer.version
    except CallError as error:
        if error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
    for _ in range(_ATTEMPTS):
        found: Dict[str, np.ndarray] = {}
        version = 0
        try:
            for name in names:
                found[name], version = _download_one(caller, model, name, version)
            return found, version
        except CallError as error:
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
    raise MXNetError(f"model '{model}' changed during each of {_ATTEMPTS} downloads: pause its training, or save a checkpoint "
                     "and load it as another model")


def _download_one(caller: Caller, model: str, name: str, version: int) -> Tuple[np.ndarray, int]:
    data = bytearray()
    while True:
        answer = caller.call(methods.DOWNLOAD_PARAMETER, parameters_pb2.DownloadParameterRequest(
            model=model, parameter=name, offset=len(data), version=version))
        version = answer.version
        if answer.chunk.HasField("crc32c") and answer.chunk.crc32c != crc32c(answer.chunk.data):
            continue  # It was damaged on its way.
        data += answer.chunk.data
        if len(data) >= answer.total:
            found = np.frombuffer(data, DTYPE_OF[answer.dtype]).reshape(tuple(answer.shape))
            return readable(found), version
