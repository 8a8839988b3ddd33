#!/usr/bin/python3
"""Writes docs/wire.md, the wire reference, from the comments in proto/.

    docs/generate_wire.py

Every service, RPC, message, field, enum and enum value must have a comment: one without is an error
that names it. tests/docs/wire_test.py fails where docs/wire.md is not what this script writes.
Needs protoc and python3-protobuf.
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Services first, then their messages, from the simple to the composed.
FILES = [
    "call",
    "operator",
    "model",
    "training",
    "serving",
    "group",
    "session",
    "command",
    "saved_session",
    "server",
    "tensor",
    "graph",
    "explain",
    "parameters",
    "checkpoint",
    "dataset",
    "trainer",
    "custom_operator",
    "options",
]

HEADER = """# The wire

*Written by `docs/generate_wire.py` from the comments in [`proto/`](../proto); do not edit.*

Everything that a client and `gluond-server` can say to each other, package `gluond.v1`. Beside it
the server answers the open inference protocol ([`proto/inference`](../proto/inference)),
`grpc.health.v1.Health` (Check, List, Watch; `model:NAME`, `model:NAME:VERSION` and `model:NAME:LABEL`
are the published models) and reflection, so that `grpcurl
-plaintext HOST:PORT list` works; [`deploy/grpcurl`](../deploy/grpcurl) has a document for each
step from a definition to a checkpoint.

Errors are gRPC's, chosen by who can act: `INVALID_ARGUMENT` never works, `FAILED_PRECONDITION`
works after a change of state, `NOT_FOUND` lists the closest names, `RESOURCE_EXHAUSTED` names the
limit and its flag, `UNAVAILABLE` works on retry. A message says where, what was expected, what
came and what to do. Any method may answer `INVALID_ARGUMENT` for a message that cannot be parsed,
`RESOURCE_EXHAUSTED` for one that is too large or comes while too many are at work, `CANCELLED`,
`DEADLINE_EXCEEDED`, and `UNAVAILABLE` while the server drains. A call that changes a model, a step
for instance, may be `RESOURCE_EXHAUSTED` because something holds the values of before: a checkpoint
that is being written, or a session's arrays. The change then needs memory of its own.

Messages are for people, and their words may change. Programs read the `google.rpc.ErrorInfo` among
the error's details (`grpc-status-details-bin`; in a session, `Failure.status`): its `domain` is
`gluond`, its `reason` one of these. A failed custom operator's traceback is a
`google.rpc.DebugInfo`. Where another attempt makes sense after a time, a `google.rpc.RetryInfo`
tells the time; where the error names a field of the request, a `google.rpc.BadRequest` does.

A call may carry the metadata `x-request-id` (1 to 128 printable characters) and `traceparent` (W3C
Trace Context). The server's logs have both. The trailing metadata give back the `x-request-id`, with
a call that fails one that the server has made, and the `traceparent` of the call's own span. A
message may be compressed by gRPC's `gzip` or `deflate`; a call that has one message gets its answer
compressed then, where that is shorter.

| reason | code | metadata | meaning |
| --- | --- | --- | --- |
| `ALREADY_EXISTS` | `ALREADY_EXISTS` | `kind`, `name` | A model or dataset has this name. |
| `ANSWER_FORGOTTEN` | `FAILED_PRECONDITION` | `last` | The numbered call was applied, and its answer is no longer kept. |
| `BAD_FIELD` | `INVALID_ARGUMENT` | `field` | The request's field, or tensor, of this name is wrong. |
| `CLIENT_TOO_OLD` | `FAILED_PRECONDITION` | `protocol`, `lowest`, `version` | The server speaks the client's protocol no more. |
| `DAMAGED_ON_THE_WAY` | `DATA_LOSS` | | The bytes that came have another checksum than the client said; it sends them again. |
| `DRAINING` | `UNAVAILABLE` | | The server is stopping; a call may work with another one, or later. |
| `LIMIT` | `RESOURCE_EXHAUSTED` | `flag`, `wait_ms` | The limit of a flag of the server, such as `--max_models`, or a tenant's quota, such as `--tenants:models`; for requests per second with the milliseconds until one may come. UNAVAILABLE: a group has fewer processes than `--group_size` asks for; try again after `wait_ms`. |
| `LOADING` | `UNAVAILABLE` | | The server has just started and loads its models; a call works later. |
| `NOT_FOUND` | `NOT_FOUND` | `kind`, `name` | No model or dataset has this name. |
| `NO_IDENTITY` | `UNAUTHENTICATED` | | The server wants to know who calls, and does not: no token or certificate, or one that nobody has. |
| `NO_PERMISSION` | `PERMISSION_DENIED` | `role` | The caller lacks this role. |
| `OPERATOR_FAILED` | `FAILED_PRECONDITION` | | The function of a client that computes the operator has raised an exception, whose traceback is in a `DebugInfo`. |
| `PROVIDER_GONE` | `UNAVAILABLE` | `operator` | The client that computes the operator is not connected. |
| `REWOUND` | `ABORTED` | `last` | The server was started anew, and has lost the numbered calls after `last`. |
| `SEQUENCE_GAP` | `FAILED_PRECONDITION` | `last` | The call's number is not the next one; `last` is the last one applied. |
| `SEQUENCE_REUSED` | `INVALID_ARGUMENT` | `last` | Another call had this number. |
| `SESSION_GONE` | `NOT_FOUND` | | The server has no such session, or no longer. |
| `STALE_GRADIENT` | `FAILED_PRECONDITION` | `arrays` | These arrays' gradients were not computed since the last step. |
| `TOO_MANY_CALLS` | `RESOURCE_EXHAUSTED` | | Too many numbered calls of this client wait for those before them. |
| `TRAINING_UNDER_WAY` | `FAILED_PRECONDITION` | | Another Train of this model is under way. |
| `UNKNOWN_COMMAND` | `UNIMPLEMENTED` | `number`, `field`, `protocol` | The server does not know the session's command of this number; `field` is its number in `Command`. |
| `VERSION_CHANGED` | `ABORTED` | `version` | The model, or the save, no longer has the version that the call expected; nothing was changed. |
| `WRONG_KEY` | `PERMISSION_DENIED` | `name` | What the session saved has another key. |
"""

_Field = descriptor_pb2.FieldDescriptorProto
_LABEL_REPEATED = _Field.LABEL_REPEATED
_SCALARS = {number: name[len("TYPE_") :].lower() for name, number in _Field.Type.items()}


class MissingComment(Exception):
    """Names what has no comment."""


def describe(proto_root):
    """The FileDescriptorProtos of FILES, with source positions."""
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        subprocess.run(
            [
                "protoc",
                "--include_source_info",
                "--include_imports",
                "-o",
                out.name,
                "--proto_path=%s/proto" % proto_root,
                "--proto_path=%s/third_party/googleapis" % proto_root,
                "--proto_path=/usr/include",
            ]
            + ["gluond/v1/%s.proto" % name for name in FILES],
            check=True,
        )
        files = {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(out.read()).file}
    descriptor_pool.Default().Add(files["gluond/v1/options.proto"])
    return [files["gluond/v1/%s.proto" % name] for name in FILES]


class _Comments:
    """The leading comments of one file, by path of field numbers and indices."""

    def __init__(self, file):
        self._file = file.name
        self._by_path = {tuple(l.path): l.leading_comments for l in file.source_code_info.location}

    def __call__(self, path, name):
        text = self._by_path.get(tuple(path), "")
        if not text.strip():
            raise MissingComment("%s: %s has no comment" % (self._file, name))
        return [line[1:] if line.startswith(" ") else line for line in text.rstrip("\n").split("\n")]


def _paragraphs(lines):
    """Text as it stands; what is indented is an example in JSON."""
    out, in_code = [], False
    for line in lines:
        is_code = line.startswith("  ")
        if is_code != in_code:
            out.append("```json" if is_code else "```")
            in_code = is_code
        out.append(line[2:] if is_code else line)
    return "\n".join(out + ["```"] * in_code).strip("\n")


def _cell(lines):
    return " ".join(line.strip() for line in lines if line.strip()).replace("|", "\\|")


def _anchor(full_name):
    return full_name.removeprefix(".gluond.v1.").lower().replace(".", "")


def _link(type_name):
    short = type_name.removeprefix(".gluond.v1.")
    if type_name.startswith(".google."):
        return "`%s`" % type_name.removeprefix(".google.protobuf.").removeprefix(".")
    return "[`%s`](#%s)" % (short, _anchor(type_name))


def _single_type(field):
    return _link(field.type_name) if field.type_name else "`%s`" % _SCALARS[field.type]


def _type(field, maps):
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        return "map of %s by %s" % (_single_type(value), _single_type(key))
    return ("list of " if field.label == _LABEL_REPEATED else "") + _single_type(field)


def _message(message, name, path, comments, out):
    out += ["", "### %s" % name, "", _paragraphs(comments(path, name))]
    maps = {".gluond.v1.%s.%s" % (name, nested.name): nested for nested in message.nested_type if nested.options.map_entry}
    if message.field:
        out += ["", "| field | type | meaning |", "| --- | --- | --- |"]
    for i, oneof in enumerate(message.oneof_decl):
        if not oneof.name.startswith("_"):  # protoc's own, for `optional`.
            comments(path + [8, i], "%s.%s" % (name, oneof.name))
    for i, field in enumerate(message.field):
        text = _cell(comments(path + [2, i], "%s.%s" % (name, field.name)))
        if field.HasField("oneof_index") and not field.proto3_optional:
            text = "*One of `%s`.* " % message.oneof_decl[field.oneof_index].name + text
        out.append("| `%s` = %d | %s | %s |" % (field.name, field.number, _type(field, maps), text))
    for i, enum in enumerate(message.enum_type):
        _enum(enum, "%s.%s" % (name, enum.name), path + [4, i], comments, out)
    for i, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            _message(nested, "%s.%s" % (name, nested.name), path + [3, i], comments, out)


def _enum(enum, name, path, comments, out):
    out += ["", "### %s" % name, "", _paragraphs(comments(path, name)), "", "| value | meaning |", "| --- | --- |"]
    for i, value in enumerate(enum.value):
        text = _cell(comments(path + [2, i], "%s.%s" % (name, value.name)))
        out.append("| `%s` = %d | %s |" % (value.name, value.number, text))


def _caller(method):
    """Who may call a method, and how its calls are audited, by its options."""
    options = descriptor_pb2.MethodOptions.FromString(method.options.SerializeToString())
    rule = options.Extensions[descriptor_pool.Default().FindExtensionByName("gluond.v1.method")]
    role, audit = (
        rule.DESCRIPTOR.enum_types_by_name[name].values_by_number[value].name
        for name, value in [("Role", rule.role), ("Audit", rule.audited)]
    )
    return ("everybody" if role == "OPEN" else "any role" if role == "ANY" else "`%s`" % role.lower()) + {
        "NEVER": "",
        "EACH": ", audited",
        "MANY": ", some audited",
    }[audit]


def _service(service, path, comments, out):
    out += [
        "",
        "## %s" % service.name,
        "",
        _paragraphs(comments(path, service.name)),
        "",
        "| method | caller's role | request, reply | what it does |",
        "| --- | --- | --- | --- |",
    ]
    for i, method in enumerate(service.method):
        text = _cell(comments(path + [2, i], "%s.%s" % (service.name, method.name)))
        out.append(
            "| `%s` | %s | %s, %s | %s |"
            % (method.name, _caller(method), _link(method.input_type), _link(method.output_type), text)
        )


def generate(files):
    """The page. MissingComment: something on the wire is not explained."""
    out = [HEADER.rstrip("\n")]
    for file in files:
        comments = _Comments(file)
        for i, service in enumerate(file.service):
            _service(service, [6, i], comments, out)
    for file in files:
        comments = _Comments(file)
        out += ["", "## %s" % file.name]
        for i, enum in enumerate(file.enum_type):
            _enum(enum, enum.name, [5, i], comments, out)
        for i, message in enumerate(file.message_type):
            _message(message, message.name, [4, i], comments, out)
    return "\n".join(out) + "\n"


def main():
    try:
        page = generate(describe(ROOT))
    except MissingComment as error:
        sys.exit("generate_wire: %s" % error)
    (ROOT / "docs" / "wire.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
