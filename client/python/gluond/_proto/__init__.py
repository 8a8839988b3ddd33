"""The messages of proto/, as modules named like protoc's: `from gluond._proto import session_pb2`.

The classes are made at import from the descriptors that build_stubs.py wrote, in a pool of their own: so they fit
every protobuf from 3.20 on, and live beside another copy of the same messages in one process.
"""

from __future__ import annotations

import pathlib
import types
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_FILE = pathlib.Path(__file__).with_name("descriptors.binpb")
# Files that the others import for what they tell the server.
_SERVERS = {"google/protobuf/descriptor.proto", "gluond/v1/options.proto"}


def _read() -> descriptor_pb2.FileDescriptorSet:
    if not _FILE.exists():
        raise ImportError(
            f"{_FILE} is missing: gluond is used from its source folder without having been built. "
            "Run `python3 client/python/build_stubs.py`, or `pip install client/python`."
        )
    return descriptor_pb2.FileDescriptorSet.FromString(_FILE.read_bytes())


def _class_maker(pool: descriptor_pool.DescriptorPool) -> Any:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass
    return message_factory.MessageFactory(pool).GetPrototype


def _class(message: Any, make_class: Any) -> Any:
    """A message's class, with the classes of the messages within it, which an older protobuf does not add itself."""
    made = make_class(message)
    for inner in message.nested_types:
        if not inner.GetOptions().map_entry and not hasattr(made, inner.name):
            setattr(made, inner.name, _class(inner, make_class))
    return made


def _module(file: Any, make_class: Any) -> types.ModuleType:
    """The module that protoc would have written for one file."""
    stem = file.name.rpartition("/")[2].replace(".proto", "_pb2")
    module = types.ModuleType(f"{__name__}.{stem}", f"Messages of {file.name}.")
    for name, message in file.message_types_by_name.items():
        setattr(module, name, _class(message, make_class))
    for name, enum in file.enum_types_by_name.items():
        setattr(module, name, EnumTypeWrapper(enum))
        for value in enum.values:
            setattr(module, value.name, value.number)
    return module


def _modules() -> dict[str, types.ModuleType]:
    pool = descriptor_pool.DescriptorPool()
    files = _read().file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    make_class = _class_maker(pool)
    modules = [_module(pool.FindFileByName(file.name), make_class) for file in files if file.name not in _SERVERS]
    return {module.__name__.rpartition(".")[2]: module for module in modules}


globals().update(_modules())

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The modules."""
