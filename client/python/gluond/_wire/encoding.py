"""Commands as bytes, written by hand: the protobuf wire format of proto/session.proto for what is sent thousands of
times a second. Rare commands are built with protobuf itself (`message`).

An array's name travels as a varint of exactly NAME_SIZE bytes (the higher ones padded with zeros, which every protobuf
reads): so all lengths around it are known beforehand, and a command is a concatenation of ready pieces. Inside the
client the name *is* these bytes.
"""

from __future__ import annotations

import itertools
from operator import add
from typing import Any, Iterable, Iterator

from ..base import MXNetError

# 2^49 names: at one in 3 us, a process would need 50 years for them.
NAME_SIZE = 7
_NAMES = 1 << 7 * NAME_SIZE

_LOW = [bytes((0x80 | n & 0x7F, 0x80 | n >> 7)) for n in range(1 << 14)]


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


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
    """What follows the last name."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        raise MXNetError(f"this process has made {_NAMES} NDArrays, and has no name for another one; save what is needed, and "
                         "go on in a new process")


def names_from(first: int) -> Iterator[bytes]:
    """The names of `first` and all numbers after it; next() on it is atomic."""
    blocks = itertools.chain(map(_block, range(first >> 14, _NAMES >> 14)), (_NoMore(),))
    found = itertools.chain.from_iterable(blocks)
    for _ in range(first & (1 << 14) - 1):
        next(found)
    return found


# The names 1, 2, 3, ... of this process.
names = names_from(1)


def tagged(field: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def command(field: int, body: bytes) -> bytes:
    """SessionRequest.commands with the one command of this field number in Command."""
    return tagged(3, tagged(field, body))


def message(field: int, proto: Any) -> bytes:
    """The same, of a protobuf message."""
    return command(field, proto.SerializeToString())


def packed(field: int, array_names: Iterable[bytes]) -> bytes:
    """A repeated field of array names."""
    return tagged(field, b"".join(array_names))


# Field numbers in Command.
PREPARE, INVOKE, PUT, FETCH, DESCRIBE, FREE, ASSIGN, MARK = range(1, 9)
BACKWARD, FRESH, DEFINE_GRAPH, RUN_GRAPH, INFER_GRAPH, DESCRIBE_CALL, WAIT_ALL, SEED, CONTINUE_BACKWARD = range(9, 18)

_FLAGS_SIZE = 4
# Invoke.when_fresh, before an array's name.
WHEN_FRESH = b"\x38"


def mode_flags(recording: bool, training: bool) -> bytes:
    """Fields 4 and 5 of Invoke and RunGraph, both always written so that their size is fixed."""
    return bytes((0x20, recording, 0x28, training))


def invoke_device(device: str) -> bytes:
    """The field of an Invoke without inputs that says where it runs."""
    return tagged(6, device.encode())


class CallFrame:
    """The fixed pieces of an Invoke (or RunGraph) of one call with so many inputs and outputs.

    head + input names + middle + output names + mode_flags(...) + extra is the whole command; `extra` is as long as
    was said.
    """

    # is_light: whether what it calls is known to take no longer than a round trip (see Pipeline.submit).
    __slots__ = ("head", "middle", "is_light")

    def __init__(self, field: int, call: int, inputs: int, outputs: int, extra: int = 0) -> None:
        head = b"\x08" + varint(call)
        if inputs:
            head += b"\x12" + varint(inputs * NAME_SIZE)
        self.middle = b"\x1a" + varint(outputs * NAME_SIZE)
        size = len(head) + len(self.middle) + (inputs + outputs) * NAME_SIZE + _FLAGS_SIZE + extra
        body = varint(field << 3 | 2) + varint(size)
        self.head = b"\x1a" + varint(len(body) + size) + body + head
        self.is_light = False


def fetch(array_names: Iterable[bytes]) -> bytes:
    """Asks for values."""
    return command(FETCH, packed(1, array_names))


_FETCH_ONE = fetch([NO_ARRAY])[:-NAME_SIZE]


def fetch_one(name: bytes) -> bytes:
    """Asks for the values of one array."""
    return _FETCH_ONE + name


def fetch_elements(name: bytes, begin: int, end: int) -> bytes:
    """Asks for elements [begin, end) of one array."""
    return command(FETCH, b"".join((packed(1, [name]), b"\x10", varint(begin), b"\x18", varint(end))))


def describe(array_names: Iterable[bytes]) -> bytes:
    """Asks for the shapes and dtypes."""
    return command(DESCRIBE, packed(1, array_names))


_DESCRIBE_ONE = describe([NO_ARRAY])[:-NAME_SIZE]


def describe_one(name: bytes) -> bytes:
    """Asks for the shape and dtype of one array."""
    return _DESCRIBE_ONE + name


def free(array_names: Iterable[bytes]) -> bytes:
    """Lets go of arrays."""
    return command(FREE, packed(1, array_names))


def put_head(name: bytes, shape: Iterable[int], dtype: int, nbytes: int, device: str) -> bytes:
    """A Put, but for the raw bytes of the tensor that follow it."""
    tensor = tagged(1, b"".join(map(varint, shape))) + b"\x10" + varint(dtype) + b"\x1a" + varint(nbytes)
    body = b"\x08" + name + tagged(3, device.encode()) + b"\x12" + varint(len(tensor) + nbytes) + tensor
    size = len(body) + nbytes
    inner = varint(PUT << 3 | 2) + varint(size)
    return b"\x1a" + varint(len(inner) + size) + inner + body


_ASSIGN_SIZE = 2 * (1 + NAME_SIZE) + 2
_ASSIGN = command(ASSIGN, bytes(_ASSIGN_SIZE))[:-_ASSIGN_SIZE] + b"\x08"


def assign(to: bytes, source: bytes, device: str = "", recording: bool = False) -> bytes:
    """Gives one array's value to another name."""
    if not device:
        return b"".join((_ASSIGN, to, b"\x10", source, b"\x20\x01" if recording else b"\x20\x00"))
    body = b"\x08" + to + b"\x10" + source + tagged(3, device.encode()) + bytes((0x20, recording))
    return command(ASSIGN, body)
