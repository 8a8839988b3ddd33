"""The operator `Custom` in graphs: its answers to symbols, and its attributes for the server and for files.

A symbol's node has the user's own attributes only. The server also gets the process that computes it, and its inputs
and outputs (proto/custom_operator.proto). A file gets the same without the process: any client that shares the operator
may then compute it.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from .._attributes import visible
from .._operators import CallType
from .._wire import at_fork
from ..base import MXNetError
from . import hosts, props, registry


def _registered(attrs: Mapping[str, str]) -> Tuple[Optional[registry.Registered], props.Texts]:
    """The operator of a node, None if it is not this process's, and its parameters."""
    own = visible(attrs)
    op_type = own.pop("op_type", None)
    if op_type is None:
        raise MXNetError("Required argument `op_type` is missing.")
    return registry.get(op_type), registry.attribute_texts(own)


def _described(spec: props.Spec) -> Dict[str, str]:
    """The facts that the server must know of an operator, as attributes."""
    attrs = {"__arguments__": ",".join(spec.arguments), "__outputs__": ",".join(spec.outputs)}
    if spec.auxiliary:
        attrs["__auxiliary__"] = ",".join(spec.auxiliary)
    if not spec.reads_all():
        attrs["__dependencies__"] = ",".join(map(str, spec.dependencies))
    if spec.rules:
        attrs["__rules__"] = ",".join(spec.rules)
    return attrs


_forks = 0


def edits() -> int:
    """A number that grows when the meaning of nodes may have changed: a graph is then defined anew, with a new
    registration's version, or with a forked child's own scope."""
    return registry.replaced + _forks


@at_fork.in_child
def _after_fork() -> None:
    global _forks
    _forks += 1


def describe(attrs: Mapping[str, str], node: str) -> CallType:
    """A node's inputs and outputs. One that is not registered here lists them itself, if it comes from a file."""
    registered, texts = _registered(attrs)
    if registered is not None:
        spec = props.spec(registered, texts)
        arguments, outputs, auxiliary = spec.arguments, spec.outputs, spec.auxiliary
    elif "__arguments__" in attrs:
        arguments, outputs, auxiliary = (tuple(filter(None, attrs.get(f"__{key}__", "").split(",")))
                                         for key in ("arguments", "outputs", "auxiliary"))
    else:
        registry.find(attrs["op_type"])  # Says that there is none.
    count = len(arguments)
    return CallType(arguments + auxiliary, tuple(range(count, count + len(auxiliary))), outputs, ())


def needs_head_gradient(attrs: Mapping[str, str]) -> bool:
    """Whether its gradient depends on the head gradients."""
    registered, texts = _registered(attrs)
    if registered is not None:
        return props.spec(registered, texts).needs_head_gradient
    first = attrs.get("__dependencies__", "0").split(",")[0]
    return first.isdigit() and int(first) < len(attrs.get("__outputs__", "output").split(","))


def on_the_wire(attrs: Mapping[str, str]) -> Dict[str, str]:
    """A node's attributes as the server needs them."""
    registered, texts = _registered(attrs)
    if registered is None:
        return dict(attrs)
    return {**visible(attrs), **dict(texts), **_described(props.spec(registered, texts)), "__scope__": hosts.scope(),
            "__version__": str(registered.version)}


def in_a_file(attrs: Mapping[str, str]) -> Dict[str, str]:
    """A node's attributes as a file needs them."""
    registered, texts = _registered(attrs)
    return dict(attrs) if registered is None else {**attrs, **_described(props.spec(registered, texts))}


def is_shared(op_type: str) -> bool:
    """Whether other clients may use an operator: one that this process shares, or another one's."""
    registered = registry.get(op_type)
    return registered is None or registered.shared


def will_run(session: Any, op_types: Iterable[str]) -> None:
    """A session gets a graph with these operators: returns when its server can call this process."""
    names = {op_type: found.shared for op_type in op_types if (found := registry.get(op_type)) is not None}
    if names:
        hosts.of(session).offer(names)
