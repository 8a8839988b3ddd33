#!/usr/bin/python3
"""The wire as old clients know it: a text of all messages, fields, enums and methods, and what may change in it.

    tests/proto/golden.py                     # Tells what differs from golden.txt; fails where old clients would break.
    tests/proto/golden.py --update            # Writes golden.txt; refuses to where old clients would break.
    tests/proto/golden.py --update --break    # Writes it all the same.

Additions are allowed. One line each, sorted:

    enum gluond.v1.Family
    field gluond.v1.Tensor 1 shape repeated int64
    field gluond.v1.Fill 2 normal singular gluond.v1.Fill.Normal oneof=value
    message gluond.v1.Tensor
    reserved gluond.v1.Failure 2
    rpc gluond.v1.SessionService Run stream gluond.v1.SessionRequest -> stream gluond.v1.SessionResponse
    service gluond.v1.SessionService
    value gluond.v1.Family 1 OPTIMIZER

Needs protoc and python3-protobuf.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = pathlib.Path(__file__).with_name("golden.txt")
PACKAGE = "gluond."

_Field = descriptor_pb2.FieldDescriptorProto
_LABELS = {_Field.LABEL_OPTIONAL: "singular", _Field.LABEL_REPEATED: "repeated", _Field.LABEL_REQUIRED: "required"}


def compile_protos(root):
    """The FileDescriptorSet of the .proto files below root/proto."""
    sources = sorted(str(path.relative_to(root)) for path in (root / "proto").rglob("*.proto"))
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        include = ["--proto_path=%s" % path for path in _import_roots(root)]
        subprocess.run(["protoc", "-o", out.name, *include, *[_as_imported(root, s) for s in sources]], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())


def _import_roots(root):
    # Files are imported from the repository's root ("proto/gluond/v1/tensor.proto"), or from proto ("gluond/v1/tensor.proto").
    roots = [root / "proto"] if (root / "proto" / "gluond").is_dir() else []
    return [*roots, root, root / "third_party" / "googleapis", pathlib.Path("/usr/include")]


def _as_imported(root, source):
    under = pathlib.PurePath(source)
    if (root / "proto" / "gluond").is_dir() and under.parts[:2] == ("proto", "gluond"):
        return str(under.relative_to("proto"))
    return source


def describe(files):
    """The lines of a FileDescriptorSet, of our packages only."""
    lines = []
    for file in files.file:
        package = file.package + "."
        if not package.startswith(PACKAGE):
            continue
        for message in file.message_type:
            _describe_message(package, message, lines)
        for enum in file.enum_type:
            _describe_enum(package, enum, lines)
        for service in file.service:
            lines.append("service %s%s" % (package, service.name))
            for method in service.method:
                lines.append(
                    "rpc %s%s %s %s%s -> %s%s"
                    % (
                        package,
                        service.name,
                        method.name,
                        "stream " if method.client_streaming else "",
                        method.input_type[1:],
                        "stream " if method.server_streaming else "",
                        method.output_type[1:],
                    )
                )
    return sorted(lines, key=_in_order)


def _in_order(line):
    """Fields, values and reserved numbers by number."""
    words = line.split(" ")
    return words[0], words[1], int(words[2]) if words[0] in ("field", "value") else 0, line


def _describe_message(prefix, message, lines):
    name = prefix + message.name
    lines.append("message %s" % name)
    maps = {}
    for nested in message.nested_type:
        if nested.options.map_entry:
            maps[".%s.%s" % (name, nested.name)] = "map<%s,%s>" % tuple(_type(field) for field in nested.field)
        else:
            _describe_message(name + ".", nested, lines)
    for enum in message.enum_type:
        _describe_enum(name + ".", enum, lines)
    for field in message.field:
        kind = maps.get(field.type_name)
        label = "optional" if field.proto3_optional else "singular" if kind else _LABELS[field.label]
        words = ["field", name, str(field.number), field.name, label, kind or _type(field)]
        if field.HasField("oneof_index") and not field.proto3_optional:
            words.append("oneof=" + message.oneof_decl[field.oneof_index].name)
        if field.json_name and field.json_name != _json_name(field.name):
            words.append("json=" + field.json_name)
        lines.append(" ".join(words))
    _describe_reserved(name, ((r.start, r.end - 1) for r in message.reserved_range), message.reserved_name, lines)


def _describe_enum(prefix, enum, lines):
    name = prefix + enum.name
    lines.append("enum %s" % name)
    for value in enum.value:
        lines.append("value %s %d %s" % (name, value.number, value.name))
    _describe_reserved(name, ((r.start, r.end) for r in enum.reserved_range), enum.reserved_name, lines)


def _describe_reserved(name, ranges, names, lines):
    for first, last in ranges:
        lines.append("reserved %s %s" % (name, first if first == last else "%d-%d" % (first, last)))
    lines.extend('reserved %s "%s"' % (name, each) for each in names)


def _type(field):
    return field.type_name[1:] or _Field.Type.Name(field.type)[len("TYPE_") :].lower()


def _json_name(name):
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class _Wire:
    """The lines, by the names that must stay."""

    def __init__(self, lines):
        self.things = {}
        self.reserved = set()
        for line in lines:
            kind, owner, *rest = line.split(" ")
            if kind == "field":
                self.things["field %s of %s" % (rest[0], owner)] = " ".join(rest[1:])
            elif kind == "value":
                self.things["value %s of %s" % (rest[1], owner)] = rest[0]
            elif kind == "rpc":
                self.things["method %s of %s" % (rest[0], owner)] = " ".join(rest[1:])
            elif kind == "reserved":
                self.reserved.add((owner, rest[0]))
            else:
                self.things["%s %s" % (kind, owner)] = ""


def breaking(old, new):
    """What in the lines `new` would break a client that was made with the lines `old`, in sentences."""
    before, after = _Wire(old), _Wire(new)
    problems = []
    for name, was in before.things.items():
        now = after.things.get(name)
        if now is None:
            problems.append("%s is gone%s" % (name, " (%s)" % was if was else ""))
        elif now != was:
            problems.append("%s was %s and is now %s" % (name, was, now))
    for owner, what in sorted(before.reserved - after.reserved):
        kept = owner + " keeps " + what + " reserved no more: a removed field or value had it"
        if any(name in after.things for name in ("message " + owner, "enum " + owner)):
            problems.append(kept)
    return problems


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="writes the golden file")
    parser.add_argument("--break", action="store_true", dest="may_break", help="with --update: though old clients break")
    parser.add_argument("--golden", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder that has proto/")
    options = parser.parse_args(arguments)
    new = describe(compile_protos(options.root))
    old = options.golden.read_text(encoding="utf-8").splitlines() if options.golden.exists() else []
    problems = breaking(old, new)
    for problem in problems:
        print("breaks old clients: " + problem, file=sys.stderr)
    if problems and not (options.update and options.may_break):
        return 1
    if options.update:
        options.golden.write_text("\n".join(new) + "\n", encoding="utf-8")
        print("%s: %d lines, %d before" % (options.golden, len(new), len(old)))
    elif old != new:
        print(
            "%s is out of date by %d lines: tests/proto/golden.py --update" % (options.golden, len(set(old) ^ set(new))),
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
