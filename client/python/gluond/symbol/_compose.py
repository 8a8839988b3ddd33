"""Composition: an operator applied to symbols, and symbols put in the place of variables."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NoReturn, Optional, Sequence

from .. import attribute, name as naming
from .._attributes import text
from ..base import MXNetError
from . import _server
from ._attributes import normalized
from ._graph import Entry, Node, rebuild, walk


def apply(
    op: str,
    positional: Sequence[Optional[Entry]],
    named: Mapping[str, Entry],
    attrs: Mapping[str, Any],
    *,
    name: Optional[str] = None,
    hint: Optional[str] = None,
    attr: Optional[Mapping[str, str]] = None,
) -> list[Entry]:
    """The visible outputs of a new node.

    positional, named: its inputs; those left out (or None) become variables `<name>_<input>`.
    attrs: the operator's parameters, of any type; attr: hidden attributes besides those of the AttrScope.
    hint: what the name begins with if none is given.
    """
    positional = list(positional)
    while positional and positional[-1] is None:
        positional.pop()
    own = {key: text(value) for key, value in attrs.items()}
    own.update(normalized(attribute.current().get(attr)))
    name = naming.current().get(name, (hint or op).lower())
    call = _server.describe(op, own, len(positional) + len(named), name)
    inputs = _arrange(call.inputs, positional, named, op)
    for index, argument in enumerate(call.inputs):
        automatic = call.input_attributes[index] if index < len(call.input_attributes) else {}
        entry = inputs[index]
        if entry is None:
            inputs[index] = Entry(Node(None, f"{name}_{argument}", {**own, **automatic}), 0)
        elif entry.node.is_variable:
            for key, value in automatic.items():
                entry.node.attrs.setdefault(key, value)
    node = Node(op, name, own, [entry for entry in inputs if entry is not None], call)
    return [Entry(node, index) for index in range(len(call.outputs))]


def _arrange(
    arguments: Sequence[str], positional: Sequence[Optional[Entry]], named: Mapping[str, Entry], op: str
) -> list[Optional[Entry]]:
    """The inputs in the operator's order, None where one is left out."""
    if len(positional) > len(arguments):
        raise MXNetError(
            f"Incorrect number of arguments of {op}, requires {len(arguments)} "
            f"({', '.join(arguments)}), provided {len(positional)}"
        )
    inputs: list[Optional[Entry]] = list(positional) + [None] * (len(arguments) - len(positional))
    places = {argument: index for index, argument in enumerate(arguments)}
    for key, entry in named.items():
        if key not in places:
            _no_such_argument(key, arguments)
        if inputs[places[key]] is not None:
            raise TypeError(f"{op}() got multiple values for argument '{key}'")
        inputs[places[key]] = entry
    return inputs


def substitute(entries: Sequence[Entry], named: Mapping[str, Entry], name: Optional[str]) -> list[Entry]:
    """The entries with other symbols in the place of variables. `name`: a new name for the node of the entries."""
    variables = [node for node in walk(entries) if node.is_variable]
    replacements = {node: named[node.name] for node in variables if node.name in named}
    found = {node.name for node in replacements}
    for key in named:
        if key not in found:
            _no_such_argument(key, [node.name for node in variables])
    new = rebuild(entries, replacements)
    if not name or not new:
        return new
    head = new[0].node
    renamed = head.copy(head.inputs, name)
    return [Entry(renamed, entry.output) if entry.node is head else entry for entry in new]


def _no_such_argument(key: str, candidates: Iterable[str]) -> NoReturn:
    listed = "".join(f"\n\t[{index}]{candidate}" for index, candidate in enumerate(candidates))
    raise MXNetError(f"Symbol.Compose: keyword argument name {key} not found.\nCandidate arguments:{listed}")
