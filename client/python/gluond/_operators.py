"""The server's operators: their list, their arguments, and the functions of `nd` and `sym` that are made of them.

    info = find("FullyConnected")           # by name or alias; asks the server once, at the first use
    info.inputs, info.parameters            # its arguments
    parsed = info.parse((x, w), {"num_hidden": 10, "no_bias": True}, NDArray, "NDArray")
    parsed.tensors, parsed.attributes       # [x, w], {"num_hidden": "10", "no_bias": "True"}
    info.call_type(parsed.attributes, 2).outputs    # of such a call; asked once
    call_type("FullyConnected", parsed.attributes, 2)    # of this very call, whose attributes the server has checked

`nd` and `sym` fill their modules with `namespace` (module `__getattr__` and `__dir__`), each with a maker of its own that
turns an OperatorInfo into a function.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import grpc
import numpy as np

from . import _operators_cache
from ._attributes import Attribute, attribute_texts, did_you_mean, unknown_argument, warn_once
from ._proto import command_pb2, operator_pb2
from ._wire import connect, encoding
from ._wire.tensors import DTYPE_OF
from ._wire.values import Value
from .base import MXNetError, WrongType, _Null

_LIST = "/gluond.v1.OperatorService/ListOperators"
# How a result's shape follows from the inputs' (CallType.Shape).
INFERRED, FIRST, BROADCAST = range(3)
_TENSORS = ("NDArray", "Symbol")
# Hints where a tensor of the one kind, or a numpy array, is given in place of the other kind.
_HINTS = {
    ("NDArray", "ndarray"): "; mx.nd.array(...) makes one of it",
    ("NDArray", "list"): "; mx.nd.array(...) makes one of it",
    ("NDArray", "Symbol"): "; within hybrid_forward use F instead of mx.nd, elsewhere bind or eval the Symbol",
    ("Symbol", "NDArray"): "; within hybrid_forward use F and the parameters that it is given, elsewhere mx.nd has the same "
    "functions",
}


class Argument(NamedTuple):
    """An input tensor of an operator."""

    name: str
    type: str
    description: str

    @property
    def several(self) -> bool:
        """Whether it stands for any number of tensors."""
        return self.type.startswith("NDArray[]")


class Results(NamedTuple):
    """The types of a call's results, as far as the server tells them: their shape by that of the inputs, and their dtype by that of
    the first input. Others must be asked for, result by result."""

    shape: int = INFERRED
    dtypes: Mapping[np.dtype, np.dtype] = {}


NOT_TOLD = Results()


class CallType(NamedTuple):
    """The inputs and outputs of one call of an operator."""

    inputs: tuple[str, ...]
    auxiliary: tuple[int, ...]
    outputs: tuple[str, ...]
    input_attributes: tuple[Mapping[str, str], ...]
    results: Results = NOT_TOLD

    @staticmethod
    def of(proto: Any) -> "CallType":
        """A CallType of the wire."""
        return CallType(
            tuple(proto.inputs),
            tuple(proto.auxiliary),
            tuple(proto.outputs),
            tuple(dict(each.attributes) for each in proto.input_attributes),
            Results(proto.shape, {DTYPE_OF[first]: DTYPE_OF[dtype] for first, dtype in proto.dtypes.items()}),
        )


class Parsed(NamedTuple):
    """Arguments of a call. `named` holds tensors given by keyword; `tensors` those by position (None: left out)."""

    tensors: list
    named: dict[str, Any]
    attributes: dict[str, str]
    rest: dict[str, Any]


# Parameters that change something in MXNet, and nothing here.
_WITHOUT_EFFECT = {
    "sparse_grad": "the gradient is dense, and an optimizer updates all rows. gluon.nn.Embedding(..., sparse_grad=True) has the "
    "rows of a batch updated alone",
    "forward_stype": "all arrays are dense",
    "lstm_state_clip_nan": "states are not clipped",
}


class OperatorInfo:
    """One operator. `name` is the registered one, whatever alias it was found by."""

    def __init__(self, proto: Any) -> None:
        self.name: str = proto.name
        self.aliases: tuple[str, ...] = tuple(proto.aliases)
        self.description: str = proto.description
        self.inputs = tuple(Argument(each.name, each.type, each.description) for each in proto.inputs)
        self.outputs: tuple[str, ...] = tuple(proto.outputs)
        self.parameters: dict[str, Attribute] = {
            each.name: Attribute(
                each.name,
                each.type,
                each.default_value,
                each.required,
                tuple(each.values),
                each.range,
                each.description,
                each.decides,
            )
            for each in proto.parameters
        }
        self.differentiable: bool = proto.differentiable
        self.devices: tuple[str, ...] = tuple(proto.devices)
        self.variable_inputs: str = proto.variable_inputs
        self.several = any(each.several for each in self.inputs)
        self._input_names = {each.name: place for place, each in enumerate(self.inputs)}
        self._order = [each.name for each in self.inputs] + list(self.parameters)
        self._deciding = tuple(each for each in self.parameters.values() if each.decides)
        self._plain = CallType.of(proto.call) if proto.HasField("call") else None

    def parse(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensor: type, called: str, extra: Sequence[str] = ()) -> Parsed:
        """Sorts the arguments of a call into tensors and attributes.

        tensor: the class of tensors, and what it is called. extra: keywords that are the caller's own; they come back in `rest`.
        TypeError, MXNetError: what does not fit, with the closest name where one is misspelt.
        """
        named: dict[str, Any] = {}
        tensors, values, rest = [], {}, {}
        if self.several and len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = args[0]
        for place, value in enumerate(args):
            if value is _Null:
                continue
            if isinstance(value, tensor) or value is None and place < len(self.inputs):
                tensors.append(value)
            elif self.several or place >= len(self._order) or self._order[place] in self._input_names:
                raise WrongType(self._no_tensor(place, value, called))
            else:
                values[self._order[place]] = value
        for name, value in kwargs.items():
            if name in extra:
                rest[name] = value
            elif value is _Null:
                continue
            elif isinstance(value, tensor) or name in self._input_names:
                self._add_named(name, value, len(tensors), named, tensor, called)
            elif name in values:
                raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
            else:
                values[name] = value
        count = len(tensors) + len(named)
        if self.variable_inputs:
            values.setdefault(self.variable_inputs, count)
        if not self.parameters:  # MXNet takes them without a word: `nd.ones_like(x, dtype="float32")`.
            for name, value in values.items():
                warn_once(f"{self.name}({name}={value}) changes nothing: the operator has no such attribute", 5)
            values.clear()
        for name, why in _WITHOUT_EFFECT.items():
            if values.get(name) not in (None, False, "False") and name in self.parameters:
                warn_once(f"{self.name}({name}={values[name]}) changes nothing: {why}", 5)
        unknown = next((name for name in values if name not in self.parameters), None)
        if unknown is not None:
            raise unknown_argument(self.name, unknown, self._order)
        return Parsed(tensors, named, attribute_texts(self.name, self.parameters, values), rest)

    def _add_named(self, name: str, value: Any, positional: int, named: dict[str, Any], tensor: type, called: str) -> None:
        if value is None:
            return
        if name not in self._input_names and not self.several:
            raise unknown_argument(self.name, name, self._order)
        if not isinstance(value, tensor):
            raise WrongType(self._no_tensor(self._input_names[name], value, called))
        if self._input_names.get(name, positional) < positional:
            raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
        named[name] = value

    def _no_tensor(self, place: int, value: Any, called: str) -> str:
        if place >= len(self._order) and not self.several:
            return (
                f"{self.name}() takes at most {len(self._order)} arguments ({', '.join(self._order)}), "
                f"but {place + 1} were given"
            )
        name = self.inputs[min(place, len(self.inputs) - 1)].name if self.inputs else "?"
        kind = type(value).__name__
        got = f"a {kind}" if kind in _TENSORS else f"{value!r} of type {kind}"
        return f"Argument {name} of {self.name} must have {called} type, but got {got}" f"{_HINTS.get((called, kind), '')}"

    def in_order(self, parsed: Parsed) -> list:
        """The tensors in the operator's order, those left out dropped. MXNetError where a needed one is missing."""
        tensors = list(parsed.tensors)
        if parsed.named:
            if self.several:
                tensors += parsed.named.values()
            else:
                for name, value in parsed.named.items():
                    place = self._input_names[name]
                    tensors += [None] * (place + 1 - len(tensors))
                    tensors[place] = value
        return [each for each in tensors if each is not None]

    def call_type(self, attributes: Mapping[str, str], inputs: int) -> CallType:
        """A call's inputs and outputs. Calls that agree in the parameters that decide have one CallType, asked for once."""
        decided = tuple([attributes.get(each.name, each.default) for each in self._deciding])
        if self._plain is not None and decided == tuple([each.default for each in self._deciding]):
            return self._plain
        return _known_or(
            _by_decision, (self.name, inputs if self.several else -1, decided), lambda: call_type(self.name, attributes, inputs)
        )


_lock = threading.RLock()  # A finalizer may come while the list is made, and compute.
_operators: Optional[dict[str, OperatorInfo]] = None
# Functions that modules hold, as (module, name).
_made: list[tuple[dict[str, Any], str]] = []
_by_decision: dict[Any, CallType] = {}
_call_types: dict[Any, CallType] = {}
_MOST_CALL_TYPES = 4096


def operators() -> Mapping[str, OperatorInfo]:
    """All operators of the server, by name and by alias. Connects at the first use."""
    global _operators
    known = _operators
    if known is None:
        with _lock:
            if _operators is None:
                _operators = _ask()
            known = _operators
    return known


def forget() -> None:
    """Forgets the operators: another server may have others, or the same with other parameters."""
    global _operators
    with _lock:
        _operators = None
        _by_decision.clear()
        _call_types.clear()
        while _made:
            module, name = _made.pop()
            module.pop(name, None)


def forget_with_them(module: dict[str, Any], name: str) -> None:
    """A module holds a function of an operator, until forget()."""
    _made.append((module, name))


def _ask() -> dict[str, OperatorInfo]:
    session = connect.current()
    answer = _operators_cache.load(session.registry_hash)
    if answer is None:
        answer = _download(session)
        _operators_cache.store(answer)
    found: dict[str, OperatorInfo] = {}
    for proto in answer.operators:
        info = OperatorInfo(proto)
        for alias in info.aliases:
            found.setdefault(alias, info)
        found[info.name] = info
    return found


def _download(session: Any) -> Any:
    """The ListOperatorsResponse with all operators."""
    method = session.channel.unary_unary(
        _LIST, operator_pb2.ListOperatorsRequest.SerializeToString, operator_pb2.ListOperatorsResponse.FromString
    )
    answer = operator_pb2.ListOperatorsResponse()
    request = operator_pb2.ListOperatorsRequest(full=True, internal=True, page_size=1000)
    try:
        while True:
            page = method(request, timeout=60)
            request.page_token, page.next_page_token = page.next_page_token, ""
            answer.MergeFrom(page)
            if not request.page_token:
                return answer
    except grpc.RpcError as error:
        raise MXNetError(f"The server at {session.address} does not list its operators: {error.details()}") from None


def find(name: str) -> OperatorInfo:
    """The operator of this name or alias; MXNetError with the closest names."""
    info = operators().get(name)
    if info is None:
        raise MXNetError(f"The server has no operator '{name}'{did_you_mean(name, list(operators()), 3)}")
    return info


def call_type(op: str, attributes: Mapping[str, str], num_inputs: int) -> CallType:
    """The inputs and outputs of a call with these parameters. Waits for the server's answer, the first time."""

    def ask() -> CallType:
        command = encoding.message(
            encoding.DESCRIBE_CALL,
            command_pb2.Command.DescribeCall(
                op=op, attributes={name: Value(string_value=text) for name, text in attributes.items()}, num_inputs=num_inputs
            ),
        )
        return CallType.of(connect.current().request(command).call)

    return _known_or(_call_types, (op, tuple(sorted(attributes.items())), num_inputs), ask)


def _known_or(known: dict[Any, CallType], key: Any, ask: Callable[[], CallType]) -> CallType:
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_CALL_TYPES:
            with contextlib.suppress(RuntimeError, StopIteration):  # Another thread has just added one.
                known.pop(next(iter(known)), None)
        found = known[key] = ask()
    return found
