#!/usr/bin/python3
"""Writes the descriptors from which the package's own copy of the messages is generated, without the options of proto/.

    private_protos.py DESCRIPTORS OUT

The options are extensions of protobuf's messages, which each copy of the generated code would register once more for the whole
program. Two copies end it.
"""

import sys

from google.protobuf import descriptor_pb2

OPTIONS = "gluond/v1/options.proto"


def strip(message):
    """Takes the options of a message's parts away, but for protobuf's own."""
    message.options.DiscardUnknownFields()
    for part in (*message.field, *message.enum_type):
        part.options.DiscardUnknownFields()
    for value in (value for enum in message.enum_type for value in enum.value):
        value.options.DiscardUnknownFields()
    for nested in message.nested_type:
        strip(nested)


def main(source, out):
    with open(source, "rb") as file:
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    kept = descriptor_pb2.FileDescriptorSet()
    for file in descriptors.file:
        if file.name == OPTIONS:
            continue
        if OPTIONS in file.dependency:
            names = [name for name in file.dependency if name != OPTIONS]
            del file.dependency[:]
            file.dependency.extend(names)
        for message in file.message_type:
            strip(message)
        for method in (method for service in file.service for method in service.method):
            method.options.DiscardUnknownFields()
        kept.file.append(file)
    with open(out, "wb") as file:
        file.write(kept.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
