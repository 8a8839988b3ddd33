"""The operator `Custom` in graphs: its answers to symbols, and its attributes for the server and for files.

A symbol's node has the user's own attributes only. The server also gets the process that computes it, and its inputs
and outputs (proto/gluond/v1/custom_operator.proto). A file gets the same without the process: any client that shares the operator
may then compute it.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from google.protobuf import json_format

from .._attributes import visible
from .._operators import CallType
from .._proto import graph_pb2
from .. import _side_effects
from ..base import MXNetError
from . import hosts, props, registry


def _registered(attrs: Mapping[str, str]) -> Tuple[Optional[registry.Registered], props.Texts]:
    """The operator of a node, None if it is not this process's, and its parameters."""
    own = visible(attrs)
    op_type = own.pop("op_type", None)
    if op_type is None:
        raise MXNetError("Required argument `op_type` is missing.")
    return registry.get(op_type), registry.attribute_texts(own)


# The attribute that has the CustomOperatorSpec, as JSON, of a node in a file.
_IN_FILES = "__custom__"


def _described(spec: props.Spec) -> Any:
    """The facts that the server must know of an operator, as a CustomOperatorSpec."""
    made = graph_pb2.CustomOperatorSpec(
        arguments=spec.arguments,
        outputs=spec.outputs,
        auxiliary=spec.auxiliary,
        same_shape="shape" in spec.rules,
        same_dtype="type" in spec.rules,
    )
    if not spec.reads_all():
        made.dependencies.SetInParent()
        made.dependencies.out_grads.extend(i for i in range(len(spec.outputs)) if spec.reads_out_grad(i))
        made.dependencies.arguments.extend(i for i in range(len(spec.arguments)) if spec.reads_argument(i))
        made.dependencies.outputs.extend(i for i in range(len(spec.outputs)) if spec.reads_output(i))
    return made


def _from_a_file(attrs: Mapping[str, str]) -> Any:
    """The CustomOperatorSpec of a node of a file; None: it has none. MXNetError: a broken one."""
    if _IN_FILES not in attrs:
        return _from_an_earlier_file(attrs) if "__arguments__" in attrs else None
    try:
        return json_format.Parse(attrs[_IN_FILES], graph_pb2.CustomOperatorSpec())
    except json_format.ParseError as error:
        raise MXNetError(f"'{_IN_FILES}' of the custom operator '{attrs.get('op_type')}' cannot be read: {error}") from None


def _from_an_earlier_file(attrs: Mapping[str, str]) -> Any:
    """The same where an attribute stands for each fact, as files had it at first."""
    arguments, outputs, auxiliary, rules, numbers = (
        list(filter(None, attrs.get(f"__{key}__", "").split(",")))
        for key in ("arguments", "outputs", "auxiliary", "rules", "dependencies")
    )
    made = graph_pb2.CustomOperatorSpec(
        arguments=arguments, outputs=outputs, auxiliary=auxiliary, same_shape="shape" in rules, same_dtype="type" in rules
    )
    if "__dependencies__" in attrs:
        made.dependencies.SetInParent()
        places = (
            [(made.dependencies.out_grads, i) for i in range(len(outputs))]
            + [(made.dependencies.arguments, i) for i in range(len(arguments))]
            + [(made.dependencies.outputs, i) for i in range(len(outputs))]
        )
        for number in numbers:
            if not number.isdigit() or int(number) >= len(places):
                raise MXNetError(
                    f"'__dependencies__' of the custom operator '{attrs.get('op_type')}' has '{number}'; want "
                    f"numbers below {len(places)}"
                )
            field, place = places[int(number)]
            field.append(place)
    return made


_forks = 0


def edits() -> int:
    """A number that grows when the meaning of nodes may have changed: a graph is then defined anew, with a new
    registration's version, or with a forked child's own scope."""
    return registry.replaced + _forks


@_side_effects.in_child
def _after_fork() -> None:
    global _forks
    _forks += 1


def describe(attrs: Mapping[str, str], node: str) -> CallType:
    """A node's inputs and outputs. One that is not registered here lists them itself, if it comes from a file."""
    registered, texts = _registered(attrs)
    if registered is not None:
        spec = props.spec(registered, texts)
        arguments, outputs, auxiliary = spec.arguments, spec.outputs, spec.auxiliary
    elif (found := _from_a_file(attrs)) is not None:
        arguments, outputs, auxiliary = tuple(found.arguments), tuple(found.outputs), tuple(found.auxiliary)
    else:
        registry.find(attrs["op_type"])  # Says that there is none.
    count = len(arguments)
    return CallType(arguments + auxiliary, tuple(range(count, count + len(auxiliary))), outputs, ())


def needs_head_gradient(attrs: Mapping[str, str]) -> bool:
    """Whether its gradient depends on the head gradients."""
    registered, texts = _registered(attrs)
    if registered is not None:
        return props.spec(registered, texts).needs_head_gradient
    found = _from_a_file(attrs)
    return found is None or not found.HasField("dependencies") or bool(found.dependencies.out_grads)


def on_the_wire(attrs: Mapping[str, str], for_all: bool = False) -> Tuple[Dict[str, str], Any]:
    """A node's attributes, and its CustomOperatorSpec, as the server needs them. for_all: whoever shares it computes it."""
    registered, texts = _registered(attrs)
    own = visible(attrs)
    op_type = own.pop("op_type")
    if registered is None:
        made = _from_a_file(attrs) or graph_pb2.CustomOperatorSpec(arguments=["data"])
    else:
        made = _described(props.spec(registered, texts))
        own.update(texts)
    made.op_type = op_type
    made.shared = registered is None or for_all
    if registered is not None and not for_all:
        made.version = registered.version
    return own, made


def in_a_file(attrs: Mapping[str, str]) -> Dict[str, str]:
    """A node's attributes as a file needs them."""
    registered, texts = _registered(attrs)
    if registered is None:
        return dict(attrs)
    described = json_format.MessageToJson(_described(props.spec(registered, texts)), indent=None)
    return {**attrs, _IN_FILES: described}


def from_the_wire(custom: Any) -> Dict[str, str]:
    """The attributes of a node with this CustomOperatorSpec."""
    kept = graph_pb2.CustomOperatorSpec()
    kept.CopyFrom(custom)
    for field in ("op_type", "shared", "version"):
        kept.ClearField(field)
    return {"op_type": custom.op_type, _IN_FILES: json_format.MessageToJson(kept, indent=None)}


def is_shared(op_type: str) -> bool:
    """Whether other clients may use an operator: one that this process shares, or another one's."""
    registered = registry.get(op_type)
    return registered is None or registered.shared


def will_run(session: Any, op_types: Iterable[str]) -> None:
    """A session gets a graph with these operators: returns when its server can call this process."""
    names = {op_type: found.shared for op_type in op_types if (found := registry.get(op_type)) is not None}
    if names:
        hosts.of(session).offer(names)
