"""Fields of messages that are written, or read, by hand: their numbers come from the descriptors, so from proto/.

    CALL = tag(command_pb2.Command.Invoke, "call")                 # Once, when a module is imported.
    CALL + varint(7)                                       # The field, in a message.
    delimited(tag(command_pb2.Command, "invoke"), body)    # One that says its length.
"""

from __future__ import annotations

from typing import Any

# The wire types of fields that are no varints, by a field's type.
_FIXED64, _DELIMITED, _FIXED32 = 1, 2, 5
_WIRE_TYPES = {
    "DOUBLE": _FIXED64,
    "FIXED64": _FIXED64,
    "SFIXED64": _FIXED64,
    "FLOAT": _FIXED32,
    "FIXED32": _FIXED32,
    "SFIXED32": _FIXED32,
    "STRING": _DELIMITED,
    "BYTES": _DELIMITED,
    "MESSAGE": _DELIMITED,
}

_SMALL = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    if 0 <= value <= 0x7F:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def _find(message: Any, field: str) -> Any:
    """The descriptor of a field; `computed.outputs`: of one of the message in a field."""
    found = message.DESCRIPTOR
    *outer, last = field.split(".")
    for name in outer:
        found = found.fields_by_name[name].message_type
    return found.fields_by_name[last]


def number(message: Any, field: str) -> int:
    """The number of a field."""
    return _find(message, field).number


def tag(message: Any, field: str) -> bytes:
    """The tag before a field's value; before all values, packed, if it is a repeated number."""
    found = _find(message, field)
    repeated = found.is_repeated if hasattr(found, "is_repeated") else found.label == found.LABEL_REPEATED
    types = {getattr(found, f"TYPE_{name}"): wire_type for name, wire_type in _WIRE_TYPES.items()}
    return varint(found.number << 3 | (_DELIMITED if repeated else types.get(found.type, 0)))


def delimited(before: bytes, value: bytes) -> bytes:
    """A field that says its length. before: its tag."""
    return before + varint(len(value)) + value
