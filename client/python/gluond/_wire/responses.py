"""Messages from the server. Large ones are taken apart by hand: protobuf would copy each tensor twice."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Tuple, Union

from .._proto import session_pb2, tensor_pb2
from .fields import number

# Protobuf is faster up to this size.
SMALL = 1 << 16

_RECEIVED, _REPLIES = (number(session_pb2.SessionResponse, field) for field in ("received", "replies"))
_TENSORS, _RAW = number(session_pb2.Reply, "tensors"), number(tensor_pb2.Tensor, "raw")


class RawTensor(NamedTuple):
    """A Tensor whose bytes lie in the message that they came in."""

    shape: Tuple[int, ...]
    dtype: int
    raw: memoryview


class LargeReply:
    """As session_pb2.Reply, which it asks for everything but the tensors."""

    def __init__(self, rest: Any, tensors: List[RawTensor]) -> None:
        self._rest = rest
        self.tensors = tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


class LargeResponse(NamedTuple):
    """As session_pb2.SessionResponse, without `opened`."""

    received: int
    replies: List[Union[Any, LargeReply]]


def parse(message: bytes) -> Any:
    """A SessionResponse, or an object that looks like one."""
    if len(message) < SMALL:
        return session_pb2.SessionResponse.FromString(message)
    received, replies = 0, []
    for field, value, _ in _fields(memoryview(message)):
        if field == _RECEIVED:
            received = value
        elif field == _REPLIES:
            replies.append(session_pb2.Reply.FromString(bytes(value)) if len(value) < SMALL else _reply(value))
    return LargeResponse(received, replies)


def _reply(data: memoryview) -> LargeReply:
    rest, tensors = bytearray(), []
    for field, value, whole in _fields(data):
        if field == _TENSORS:
            tensors.append(_tensor(value))
        else:
            rest += whole
    return LargeReply(session_pb2.Reply.FromString(bytes(rest)), tensors)


def _tensor(data: memoryview) -> RawTensor:
    rest, raw = bytearray(), memoryview(b"")
    for field, value, whole in _fields(data):
        if field == _RAW:
            raw = value
        else:
            rest += whole
    facts = tensor_pb2.Tensor.FromString(bytes(rest))
    return RawTensor(tuple(facts.shape), facts.dtype, raw)


def _fields(data: memoryview) -> Iterator[Tuple[int, Any, memoryview]]:
    """Number, value and whole of each field. Values are numbers, or the bytes within."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _varint(data, at)
        value: Any = None
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value = data[at : at + size]
            at += size
        else:
            at += 4 if tag & 7 == 5 else 8
        yield tag >> 3, value, data[begin:at]


def _varint(data: memoryview, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
