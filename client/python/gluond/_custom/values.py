"""Values of custom operators between numpy and the wire (proto/gluond/v1/custom_operator.proto). bfloat16, which numpy lacks, is
float32 here."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._proto import custom_operator_pb2 as pb
from .._wire.encoding import tensor_head
from .._wire.fields import tag, varint
from .._wire.tensors import BFLOAT16_BITS, DTYPE_OF, FLAG_OF, in_numpy, to_bits

_RESULT = tag(pb.HostRequest, "result")
_CALL, _COMPUTED, _OUTPUTS, _AUXILIARY, _SECONDS = (
    tag(pb.CallbackResult, field) for field in ("call", "computed", "computed.outputs", "computed.auxiliary", "seconds")
)


class Kind(NamedTuple):
    """A shape and a dtype."""

    shape: Tuple[int, ...]
    dtype: np.dtype


def from_wire(tensor: Any) -> np.ndarray:
    """A Tensor's raw values, which may not be written."""
    shape = tuple(tensor.shape)
    dtype = DTYPE_OF[tensor.dtype]
    raw = tensor.raw
    if not raw:
        return np.zeros(shape, in_numpy(dtype))
    if dtype is BFLOAT16_BITS:
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape)


def kind_of(array_type: Any) -> Kind:
    """The Kind of an ArrayType in which everything is known."""
    return Kind(tuple(array_type.shape), DTYPE_OF[array_type.dtype])


def _tensor(values: Optional[np.ndarray], dtype: np.dtype) -> Tuple[bytes, Any]:
    """A Tensor's first bytes, and its raw bytes; None: an empty Tensor."""
    if values is None:
        return b"", b""
    bits = to_bits(values, dtype)
    return tensor_head(values.shape, FLAG_OF[dtype], bits.nbytes), bits.reshape(-1).view(np.uint8).data


def encode_computed(
    call: int,
    outputs: Sequence[Tuple[Optional[np.ndarray], np.dtype]],
    auxiliary: Sequence[Tuple[np.ndarray, np.dtype]],
    seconds: bytes,
) -> bytes:
    """HostRequest with CallbackResult.computed, written by hand so that large values are copied once.

    outputs: values and the dtypes that they become; None where nobody wants them. seconds: eight bytes, a double.
    """
    pieces: List[Any] = []
    size = 0
    for before, tensors in ((_OUTPUTS, outputs), (_AUXILIARY, auxiliary)):
        for values, dtype in tensors:
            head, raw = _tensor(values, dtype)
            length = len(head) + len(raw)
            start = before + varint(length) + head
            pieces += (start, raw)
            size += len(start) + len(raw)
    head = _CALL + varint(call) + _COMPUTED + varint(size)
    tail = _SECONDS + seconds
    return b"".join((_RESULT + varint(len(head) + size + len(tail)) + head, *pieces, tail))
