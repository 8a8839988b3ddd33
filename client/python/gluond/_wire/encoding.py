"""Commands as bytes, written by hand: the protobuf wire format of proto/gluond/v1/session.proto for what is sent thousands of
times a second. Rare commands are built with protobuf itself (`message`).

An array's name travels as a varint of exactly NAME_SIZE bytes (the higher ones padded with zeros, which every protobuf
reads): so all lengths around it are known beforehand, and a command is a concatenation of ready pieces. Inside the
client the name *is* these bytes.
"""

from __future__ import annotations

import functools
import itertools
from operator import add
from typing import Any, Iterable, Iterator, Sequence, Tuple

from .._proto import command_pb2, session_pb2, tensor_pb2
from ..base import MXNetError
from .fields import delimited, tag, varint

# 2^49 names: at one in 3 us, a process would need 50 years for them.
NAME_SIZE = 7
_NAMES = 1 << 7 * NAME_SIZE

_LOW = [bytes((0x80 | n & 0x7F, 0x80 | n >> 7)) for n in range(1 << 14)]


def name_of(number: int) -> bytes:
    """The name of a number."""
    return bytes((number >> 7 * place & 0x7F) | (0x80 if place < NAME_SIZE - 1 else 0) for place in range(NAME_SIZE))


def number_of(name: bytes) -> int:
    """The number that a name stands for."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(name))


# In place of an output that is not wanted, and of a head gradient of ones.
NO_ARRAY = name_of(0)


def _block(high: int) -> Iterator[bytes]:
    """The 2^14 names whose upper bits are `high`."""
    return map(add, _LOW, itertools.repeat(name_of(high << 14)[2:]))


class _NoMore:
    """The names after the last one."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        raise MXNetError(
            f"this process has made {_NAMES} NDArrays, and has no name for another one; save what is needed, and "
            "go on in a new process"
        )


def names_from(first: int) -> Iterator[bytes]:
    """The names of `first` and all numbers after it; next() on it is atomic."""
    blocks = itertools.chain(map(_block, range(first >> 14, _NAMES >> 14)), (_NoMore(),))
    found = itertools.chain.from_iterable(blocks)
    for _ in range(first & (1 << 14) - 1):
        next(found)
    return found


# The names 1, 2, 3, ... of this process.
names = names_from(1)


# The tags of the commands within Command, one of which each command begins with.
(
    PREPARE,
    INVOKE,
    PUT,
    FETCH,
    DESCRIBE,
    FREE,
    ASSIGN,
    MARK,
    BACKWARD,
    FRESH,
    DEFINE_GRAPH,
    RUN_GRAPH,
    INFER_GRAPH,
    DESCRIBE_CALL,
    WAIT_ALL,
    SEED,
    CONTINUE_BACKWARD,
    SAVE_AS_MODEL,
    OPEN_MODEL,
    STORE_TO_MODEL,
    SAVE_SESSION,
    OPEN_SAVED,
    DEFINE_OPTIMIZER,
    STEP_OPTIMIZER,
    EXPAND,
    INITIALIZE,
) = (
    tag(command_pb2.Command, each)
    for each in (
        "prepare",
        "invoke",
        "put",
        "fetch",
        "describe",
        "free",
        "assign",
        "mark",
        "backward",
        "fresh",
        "define_graph",
        "run_graph",
        "infer_graph",
        "describe_call",
        "wait_all",
        "seed",
        "continue_backward",
        "save_as_model",
        "open_model",
        "store_to_model",
        "save_session",
        "open_saved",
        "define_optimizer",
        "step_optimizer",
        "expand",
        "initialize",
    )
)
_COMMANDS = tag(session_pb2.SessionRequest, "commands")


def command(kind: bytes, body: bytes) -> bytes:
    """SessionRequest.commands with one command. kind: its first bytes."""
    return delimited(_COMMANDS, delimited(kind, body))


def message(kind: bytes, proto: Any) -> bytes:
    """The same, of a protobuf message."""
    return command(kind, proto.SerializeToString())


_FIRST, _RECEIVED = tag(session_pb2.SessionRequest, "first_number"), tag(session_pb2.SessionRequest, "replies_received")


def request(first: int, commands: Iterable[bytes]) -> bytes:
    """A SessionRequest of these commands, without `received`, which may stand before or behind them."""
    return b"".join((_FIRST, varint(first), *commands))


def received(replies: int) -> bytes:
    """The field that tells that replies up to this one have been received."""
    return _RECEIVED + varint(replies)


# Tags of Invoke's fields; RunGraph has the same.
_CALL, _INPUTS, _OUTPUTS, _RECORDING, _TRAINING = (
    tag(command_pb2.Command.Invoke, each) for each in ("call", "inputs", "outputs", "recording", "training")
)
_DEVICE, WHEN_FRESH = tag(command_pb2.Command.Invoke, "device"), tag(command_pb2.Command.Invoke, "when_fresh")
_FLAGS_SIZE = len(_RECORDING) + len(_TRAINING) + 2


def mode_flags(recording: bool, training: bool) -> bytes:
    """Both fields of an Invoke or a RunGraph, which are always written, so that the size is fixed."""
    return b"".join((_RECORDING, bytes((recording,)), _TRAINING, bytes((training,))))


def invoke_device(device: str) -> bytes:
    """The field of an Invoke without inputs that says where it runs."""
    return delimited(_DEVICE, device.encode())


class CallFrame:
    """The fixed pieces of an Invoke (or RunGraph) of one call with so many inputs and outputs.

    head + input names + middle + output names + mode_flags(...) + extra is the whole command; `extra` has the length
    given to the constructor.
    """

    # is_asked_soon: whether a question has followed the last call soon (see Pipeline.submit).
    __slots__ = ("head", "middle", "is_asked_soon")

    def __init__(self, kind: bytes, call: int, inputs: int, outputs: int, extra: int = 0) -> None:
        head = _CALL + varint(call)
        if inputs:
            head += _INPUTS + varint(inputs * NAME_SIZE)
        self.middle = _OUTPUTS + varint(outputs * NAME_SIZE)
        size = len(head) + len(self.middle) + (inputs + outputs) * NAME_SIZE + _FLAGS_SIZE + extra
        body = kind + varint(size)
        self.head = _COMMANDS + varint(len(body) + size) + body + head
        self.is_asked_soon = False


_FETCHED, _BEGIN, _END = (tag(command_pb2.Command.Fetch, each) for each in ("arrays", "begin", "end"))


def fetch(array_names: Iterable[bytes]) -> bytes:
    """Asks for values."""
    return command(FETCH, delimited(_FETCHED, b"".join(array_names)))


_FETCH_ONE = fetch([NO_ARRAY])[:-NAME_SIZE]


def fetch_one(name: bytes) -> bytes:
    """Asks for the values of one array."""
    return _FETCH_ONE + name


def fetch_elements(name: bytes, begin: int, end: int) -> bytes:
    """Asks for elements [begin, end) of one array."""
    return command(FETCH, b"".join((delimited(_FETCHED, name), _BEGIN, varint(begin), _END, varint(end))))


_DESCRIBED = tag(command_pb2.Command.Describe, "arrays")


def describe(array_names: Iterable[bytes]) -> bytes:
    """Asks for the shapes and dtypes."""
    return command(DESCRIBE, delimited(_DESCRIBED, b"".join(array_names)))


_DESCRIBE_ONE = describe([NO_ARRAY])[:-NAME_SIZE]


def describe_one(name: bytes) -> bytes:
    """Asks for the shape and dtype of one array."""
    return _DESCRIBE_ONE + name


_FREED, _FREED_CALLS, _FREED_OPTIMIZERS = (tag(command_pb2.Command.Free, each) for each in ("arrays", "calls", "optimizers"))


def free(array_names: Sequence[bytes], calls: Sequence[int] = (), optimizers: Sequence[int] = ()) -> bytes:
    """Lets go of arrays, of calls and of optimizers."""
    body = delimited(_FREED, b"".join(array_names)) if array_names else b""
    if calls:
        body += delimited(_FREED_CALLS, b"".join(map(varint, calls)))
    if optimizers:
        body += delimited(_FREED_OPTIMIZERS, b"".join(map(varint, optimizers)))
    return command(FREE, body)


_FRESH = tag(command_pb2.Command.Fresh, "variables")
REQUIRE, CLEAR, TELL = (tag(command_pb2.Command.Fresh, each) + b"\1" for each in ("require", "clear", "tell"))


def fresh(array_names: Iterable[bytes], what: bytes) -> bytes:
    """Looks whether the gradients are fresh, by REQUIRE; asks for it, by TELL; or marks them as used, by CLEAR."""
    return command(FRESH, delimited(_FRESH, b"".join(array_names)) + what)


_SHAPE, _DTYPE, _RAW = (tag(tensor_pb2.Tensor, each) for each in ("shape", "dtype", "raw"))
_PUT_ARRAY, _PUT_TENSOR, _PUT_DEVICE = (tag(command_pb2.Command.Put, each) for each in ("array", "tensor", "device"))


def tensor_head(shape: Iterable[int], dtype: int, nbytes: int) -> bytes:
    """A Tensor, but for the raw bytes that follow it."""
    return delimited(_SHAPE, b"".join(map(varint, shape))) + _DTYPE + varint(dtype) + _RAW + varint(nbytes)


@functools.lru_cache(maxsize=1024)
def _around_put(shape: Tuple[int, ...], dtype: int, nbytes: int, device: str) -> Tuple[bytes, bytes]:
    """The bytes before and behind a Put's name."""
    tensor = tensor_head(shape, dtype, nbytes)
    behind = b"".join((delimited(_PUT_DEVICE, device.encode()), _PUT_TENSOR, varint(len(tensor) + nbytes), tensor))
    size = len(_PUT_ARRAY) + NAME_SIZE + len(behind) + nbytes
    inner = PUT + varint(size)
    return _COMMANDS + varint(len(inner) + size) + inner + _PUT_ARRAY, behind


def put_head(name: bytes, shape: Tuple[int, ...], dtype: int, nbytes: int, device: str) -> bytes:
    """A Put, but for the raw bytes of the tensor that follow it."""
    before, behind = _around_put(shape, dtype, nbytes, device)
    return before + name + behind


_TO, _FROM, _TO_DEVICE, _RECORDED = (tag(command_pb2.Command.Assign, each) for each in ("to", "from", "device", "recording"))
_WITH_RECORDING, _WITHOUT_RECORDING = _RECORDED + b"\1", _RECORDED + b"\0"
_ASSIGN_SIZE = len(_TO) + len(_FROM) + 2 * NAME_SIZE + len(_WITH_RECORDING)
_ASSIGN = command(ASSIGN, bytes(_ASSIGN_SIZE))[:-_ASSIGN_SIZE] + _TO


def assign(to: bytes, source: bytes, device: str = "", recording: bool = False) -> bytes:
    """Gives one array's value to another name."""
    flag = _WITH_RECORDING if recording else _WITHOUT_RECORDING
    if not device:
        return b"".join((_ASSIGN, to, _FROM, source, flag))
    return command(ASSIGN, b"".join((_TO, to, _FROM, source, delimited(_TO_DEVICE, device.encode()), flag)))
