#!/usr/bin/python3
"""Writes the C++ client's plain structs of what the server says and is told, from the descriptors of proto/ with their comments.

    generate_types.py DESCRIPTORS TYPES_H FIELDS_H MESSAGES_H MESSAGES_CC

TYPES_H has the structs and their enumerations, FIELDS_H each struct's fields by name; both are public. MESSAGES_H and
MESSAGES_CC convert structs and messages into each other; they are the library's own.
"""

import sys

from google.protobuf import descriptor_pb2

# The messages, with all that they hold, from the simple to the composed. A struct has the message's name but where another
# class of the client has that.
ROOTS = (
    "Component Block Graph Variable Model Trainer StepReport TrainStepResponse Rows TrainRequest TrainProgress EvaluateResponse "
    "Dataset Checkpoint SavedSession ServedVersion RouteVersionsRequest ExplainRequest ExplainResponse Operator "
    "CheckGradientResponse GetServerInfoResponse GetGroupResponse"
).split()
FOREIGN_ROOTS = [".inference.ModelMetadataResponse"]
RENAMED = {"Block": "BlockTree", "Model": "ModelDescription", "Trainer": "TrainerDescription", "Device": "DeviceDescription"}
# Fields that the client sets itself.
OMITTED = {"TrainRequest.model", "TrainRequest.call"}
# Messages in which nothing set says nothing else than absence. Others are std::optional.
PLAIN = {
    "StepReport",
    "Timing",
    "Limits",
    "ProgramTotals",
    "Component",
    "Rows",
    "Placement",
    "ServingOptions",
}
OPTIONAL_FIELDS = {"TrainRequest.evaluate", "Variable.initializer", "Trainer.lr_scheduler"}
PLAIN_FIELDS = {"GetServerInfoResponse.uptime", "ServedVersion.time", "Timing.queue", "Timing.compute", "TrainProgress.next"}

F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    F.TYPE_DOUBLE: "double",
    F.TYPE_INT64: "int64_t",
    F.TYPE_UINT64: "uint64_t",
    F.TYPE_INT32: "int32_t",
    F.TYPE_FIXED64: "uint64_t",
    F.TYPE_FIXED32: "uint32_t",
    F.TYPE_BOOL: "bool",
    F.TYPE_STRING: "std::string",
    F.TYPE_UINT32: "uint32_t",
}
# Types that the client has without its messages.
KNOWN = {
    ".google.protobuf.Timestamp": "absl::Time",
    ".google.protobuf.Duration": "absl::Duration",
    ".google.protobuf.Value": "Value",
    ".google.rpc.Status": "absl::Status",
    ".gluond.v1.Tensor.DType": "DType",
}
DEFAULTS = {"double": "0", "int64_t": "0", "uint64_t": "0", "int32_t": "0", "uint32_t": "0", "bool": "false"}
# Names that the messages' accessors end in `_` for, being C++'s.
KEYWORDS = {"operator", "default", "register"}


class Message:
    """A message with its place: its full name, the struct's name within its parent, the comments of its fields by their places."""

    def __init__(self, full, proto, comment, parent):
        self.full, self.proto, self.comment, self.comments = full, proto, comment, {}
        self.name = RENAMED.get(proto.name, proto.name) if parent is None else proto.name
        self.cpp = self.name if parent is None else f"{parent.cpp}::{self.name}"
        own = full.rsplit(".", 1)[0] if parent is None else None
        self.message = f"{own[1:].replace('.', '::')}::{proto.name}" if parent is None else f"{parent.message}_{proto.name}"
        self.nested, self.enums = [], []

    @property
    def path(self):
        """The name that OMITTED and PLAIN_FIELDS have."""
        return self.full.split(".v1.")[-1]


class Types:
    """All messages of the descriptors, and the order of those that become structs."""

    def __init__(self, descriptors):
        self.messages, self.enums = {}, {}
        for file in descriptors.file:
            comments = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
            for i, message in enumerate(file.message_type):
                self._add(f".{file.package}.{message.name}", message, (4, i), comments, None)
        self.order, self._seen = [], set()
        for root in [f".gluond.v1.{name}" for name in ROOTS] + FOREIGN_ROOTS:
            self._visit(self.messages[root])

    def _add(self, full, proto, path, comments, parent):
        message = Message(full, proto, comments.get(path, ""), parent)
        message.comments = {i: comments.get((*path, 2, i), "") for i in range(len(proto.field))}
        self.messages[full] = message
        for i, enum in enumerate(proto.enum_type):
            values = [(value, comments.get((*path, 4, i, 2, j), "")) for j, value in enumerate(enum.value)]
            entry = (
                f"{message.cpp}::{enum.name}",
                enum.name,
                comments.get((*path, 4, i), ""),
                values,
                f"{message.message}_{enum.name}",
            )
            self.enums[f"{full}.{enum.name}"] = entry
            message.enums.append(entry)
        for i, nested in enumerate(proto.nested_type):
            child = self._add(f"{full}.{nested.name}", nested, (*path, 3, i), comments, message)
            if not nested.options.map_entry:
                message.nested.append(child)
        return message

    def top(self, full):
        """The outermost message around one."""
        while full.rsplit(".", 1)[0] in self.messages:
            full = full.rsplit(".", 1)[0]
        return self.messages[full]

    def _visit(self, message):
        if message.full in self._seen:
            return
        self._seen.add(message.full)
        for part in self._parts(message):
            for field in self.fields(part):
                kinds = [field.type_name]
                entry = self.messages.get(field.type_name)
                if entry is not None and entry.proto.options.map_entry:
                    kinds = [each.type_name for each in entry.proto.field]
                for kind in kinds:
                    if kind and kind not in KNOWN and (kind in self.messages or kind.rsplit(".", 1)[0] in self.messages):
                        self._visit(self.top(kind if kind in self.messages else kind.rsplit(".", 1)[0]))
        self.order.append(message)

    def _parts(self, message):
        yield message
        for nested in message.nested:
            yield from self._parts(nested)

    def parts(self):
        """The structs, nested ones before those around them."""
        for message in self.order:
            yield from reversed(list(self._parts(message)))

    def fields(self, message):
        """The fields that the struct has."""
        return [field for field in message.proto.field if f"{message.path}.{field.name}" not in OMITTED]

    def entry(self, field):
        """A map field's entry, or None."""
        message = self.messages.get(field.type_name)
        return message.proto if message is not None and message.proto.options.map_entry else None

    def element(self, field):
        """A field's type, for one value."""
        if field.type_name in KNOWN:
            return KNOWN[field.type_name]
        if field.type == F.TYPE_ENUM:
            return self.enums[field.type_name][0]
        return self.messages[field.type_name].cpp if field.type == F.TYPE_MESSAGE else SCALARS[field.type]

    def is_optional(self, message, field):
        """Whether absence says something."""
        if field.label == F.LABEL_REPEATED:
            return False
        if field.type != F.TYPE_MESSAGE:
            return field.proto3_optional
        if field.type_name == ".google.rpc.Status":
            return False
        name, path = field.type_name.rsplit(".", 1)[-1], f"{message.path}.{field.name}"
        return path in OPTIONAL_FIELDS or (name not in PLAIN and path not in PLAIN_FIELDS)

    def declared(self, message, field):
        """(type, default) of a struct's member."""
        entry = self.entry(field)
        if entry is not None:
            key, value = map(self.element, entry.field)
            return ("Attributes" if value == "Value" else f"std::map<{key}, {value}>"), " = {}"
        kind = self.element(field)
        if field.label == F.LABEL_REPEATED:
            return f"std::vector<{kind}>", " = {}"
        if self.is_optional(message, field):
            return f"std::optional<{kind}>", " = {}"
        if field.type == F.TYPE_ENUM:
            first = "kFloat32" if kind == "DType" else constant(self.enums[field.type_name][3][0][0].name)
            return kind, f" = {kind}::{first}"
        return kind, f" = {DEFAULTS.get(kind, '{}')}"


def constant(name):
    """kTrainStep of TRAIN_STEP."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def commented(text, indent):
    """Lines of a comment."""
    return [f"{indent}//{line}" if line.strip() else f"{indent}//" for line in text.rstrip().split("\n")] if text else []


def struct(types, message, indent=""):
    """Lines of a struct, with what is nested in it."""
    lines = [*commented(message.comment, indent), f"{indent}struct {message.name} {{"]
    inner = indent + "  "
    for _, name, comment, values, _ in message.enums:
        if not any(field.type_name == f"{message.full}.{name}" for part in types.parts() for field in types.fields(part)):
            continue
        lines += [*commented(comment, inner), f"{inner}enum class {name} : int {{"]
        for value, about in values:
            lines += [*commented(about, inner + "  "), f"{inner}  {constant(value.name)} = {value.number},"]
        lines += [f"{inner}}};", ""]
    for nested in message.nested:
        lines += [*struct(types, nested, inner), ""]
    for i, field in enumerate(message.proto.field):
        if field not in types.fields(message):
            continue
        kind, default = types.declared(message, field)
        if kind.startswith(f"{message.cpp}::"):
            kind = kind[len(message.cpp) + 2 :]
        lines += [*commented(message.comments[i], inner), f"{inner}{kind} {field.name}{default};"]
    return [*lines, f"{indent}}};"]


def accessor(field):
    """The name by which the message's functions are called."""
    return field.name.lower() + ("_" if field.name in KEYWORDS else "")


def from_field(types, message, field):
    """Statements that fill a struct's member."""
    name, get = field.name, f"from.{accessor(field)}()"
    entry = types.entry(field)
    if entry is not None:
        if types.element(entry.field[1]) == "Value":
            return [f"to.{name} = FromProto({get});"]
        each = "static_cast<DType>(value)" if types.element(entry.field[1]) == "DType" else "value"
        if entry.field[1].type == F.TYPE_MESSAGE:
            each = "FromProto(value)"
        return [f"for (const auto& [key, value] : {get}) to.{name}.emplace(key, {each});"]
    convert = {F.TYPE_MESSAGE: "FromProto({})", F.TYPE_ENUM: f"static_cast<{types.element(field)}>({{}})"}.get(field.type, "{}")
    if field.label == F.LABEL_REPEATED:
        if convert == "{}":
            return [f"to.{name}.assign({get}.begin(), {get}.end());"]
        return [f"for (const auto& each : {get}) to.{name}.push_back({convert.format('each')});"]
    lines = [f"to.{name} = {convert.format(get)};"]
    return [f"if (from.has_{accessor(field)}()) {lines[0]}"] if types.is_optional(message, field) else lines


def to_field(types, message, field):
    """Statements that set a message's field."""
    name, plain = accessor(field), f"from.{field.name}"
    entry = types.entry(field)
    if entry is not None:
        value = entry.field[1]
        if types.element(value) == "Value":
            return [f"Fill({plain}, to.mutable_{name}());"]
        if value.type == F.TYPE_MESSAGE:
            return [f"for (const auto& [key, value] : {plain}) (*to.mutable_{name}())[key] = ToProto(value);"]
        text = "static_cast<v1::Tensor::DType>(value)" if value.type == F.TYPE_ENUM else "value"
        return [f"for (const auto& [key, value] : {plain}) (*to.mutable_{name}())[key] = {text};"]
    if field.label == F.LABEL_REPEATED:
        if field.type == F.TYPE_MESSAGE:
            return [f"for (const auto& each : {plain}) *to.add_{name}() = ToProto(each);"]
        return [f"to.mutable_{name}()->Add({plain}.begin(), {plain}.end());"]
    optional = types.is_optional(message, field)
    value = f"*{plain}" if optional else plain
    if field.type == F.TYPE_MESSAGE:
        line = f"*to.mutable_{name}() = ToProto({value});"
        empty = f"!({plain}.ok())" if types.element(field) == "absl::Status" else None
        if types.element(field) == "Component":
            empty = f"!{plain}.name.empty()"
        return [f"if ({plain}.has_value()) {line}" if optional else f"if ({empty}) {line}" if empty else line]
    if field.type == F.TYPE_ENUM:
        value = f"static_cast<{enum_type(types, field)}>({value})"
    line = f"to.set_{name}({value});"
    return [f"if ({plain}.has_value()) {line}" if optional else line]


def enum_type(types, field):
    """The message's enumeration."""
    return "v1::Tensor::DType" if field.type_name in KNOWN else types.enums[field.type_name][4]


def used_enums(types):
    """Enumerations of the structs."""
    wanted = {field.type_name for part in types.parts() for field in types.fields(part) if field.type == F.TYPE_ENUM}
    return [types.enums[name] for name in sorted(wanted) if name not in KNOWN]


def types_header(types):
    """The public structs."""
    lines = [
        "// Plain structs of what the server says and is told: one for each message of the wire, whose comments these are.",
        "// Written by client/cpp/generate_types.py from proto/. A message that may be absent is a std::optional.",
        "",
        "#ifndef GLUOND_TYPES_H_",
        "#define GLUOND_TYPES_H_",
        "",
        "#include <cstdint>",
        "#include <map>",
        "#include <optional>",
        "#include <string>",
        "#include <vector>",
        "",
        '#include "absl/status/status.h"',
        '#include "absl/time/time.h"',
        '#include "gluond/dtype.h"',
        '#include "gluond/export.h"',
        '#include "gluond/value.h"',
        "",
        "namespace gluond::client {",
        "",
    ]
    for message in types.order:
        lines += [*struct(types, message), ""]
    lines.append('// The name on the wire, as "INPUT"; of a number that has none, the number.')
    lines += [f"GLUOND_EXPORT std::string ToString({enum[0]} value);" for enum in used_enums(types)]
    return [*lines, "", "}  // namespace gluond::client", "", "#endif  // GLUOND_TYPES_H_"]


def fields_header(types):
    """The public fields of each struct, for programs that print or store them."""
    lines = [
        "// ForEachField(x, f) calls f(name, value) for each field of a struct of gluond/types.h. The names are the wire's.",
        "// Written by client/cpp/generate_types.py from proto/.",
        "",
        "#ifndef GLUOND_FIELDS_H_",
        "#define GLUOND_FIELDS_H_",
        "",
        '#include "gluond/types.h"',
        "",
        "namespace gluond::client {",
    ]
    for part in types.parts():
        lines += ["", "template <class Visit>", f"void ForEachField(const {part.cpp}& x, const Visit& visit) {{"]
        lines += [f'  visit("{field.name}", x.{field.name});' for field in types.fields(part)]
        lines.append("}")
    return [*lines, "", "}  // namespace gluond::client", "", "#endif  // GLUOND_FIELDS_H_"]


def messages_header(types):
    """The library's own conversions."""
    lines = [
        "// Structs of gluond/types.h as messages, and back. Written by client/cpp/generate_types.py from proto/.",
        "",
        "#ifndef GLUOND_CLIENT_CPP_TYPE_MESSAGES_H_",
        "#define GLUOND_CLIENT_CPP_TYPE_MESSAGES_H_",
        "",
        '#include "client/cpp/value_message.h"',
        '#include "gluond/types.h"',
        *(
            f'#include "gluond/v1/{name}.pb.h"'
            for name in sorted(
                "checkpoint dataset explain graph group model operator saved_session server serving trainer training".split()
            )
        ),
        '#include "proto/inference/grpc_service.pb.h"',
        "",
        "namespace gluond::client {",
        "",
    ]
    for part in types.parts():
        lines += [f"{part.cpp} FromProto(const {part.message}& from);", f"{part.message} ToProto(const {part.cpp}& from);"]
    return [*lines, "", "}  // namespace gluond::client", "", "#endif  // GLUOND_CLIENT_CPP_TYPE_MESSAGES_H_"]


def messages_source(types):
    """The conversions' bodies."""
    lines = ['#include "client/cpp/type_messages.h"', "", '#include "absl/strings/str_cat.h"', "", "namespace gluond::client {"]
    for part in types.parts():
        lines += ["", f"{part.cpp} FromProto([[maybe_unused]] const {part.message}& from) {{", f"  {part.cpp} to;"]
        lines += [f"  {line}" for field in types.fields(part) for line in from_field(types, part, field)]
        lines += ["  return to;", "}", ""]
        lines += [f"{part.message} ToProto([[maybe_unused]] const {part.cpp}& from) {{", f"  {part.message} to;"]
        lines += [f"  {line}" for field in types.fields(part) for line in to_field(types, part, field)]
        lines += ["  return to;", "}"]
    for cpp, _, _, values, _ in used_enums(types):
        lines += ["", f"std::string ToString({cpp} value) {{", "  switch (value) {"]
        lines += [f'    case {cpp}::{constant(value.name)}: return "{value.name}";' for value, _ in values]
        lines += ["  }", "  return absl::StrCat(static_cast<int>(value));", "}"]
    return [*lines, "", "}  // namespace gluond::client"]


def main(descriptors, *paths):
    with open(descriptors, "rb") as file:
        types = Types(descriptor_pb2.FileDescriptorSet.FromString(file.read()))
    for path, write in zip(paths, (types_header, fields_header, messages_header, messages_source)):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(write(types)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
