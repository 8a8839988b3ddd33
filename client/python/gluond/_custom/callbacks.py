"""The answers to the server's questions: shapes, types, and passes of this process's operators.

An operator object lives from its forward pass to its backward pass. It is found by the number that the server gives the
forward pass; those that no backward pass has come for are forgotten when there are very many.
"""

from __future__ import annotations

import collections
import struct
import threading
import time
from typing import Any, Callable, List, NamedTuple, OrderedDict, Sequence, Tuple

import numpy as np

from .._array.array import NDArray
from .._proto import custom_operator_pb2 as pb, tensor_pb2
from .. import _side_effects
from .._wire import operator_errors as errors
from .._wire.tensors import DTYPE_OF, FLAG_OF
from ..base import MXNetError
from ..context import _of_device
from . import functions, props, registry
from .host import failure
from .inside import inside
from .local import absent, local, values_of, wanted_values
from .values import Kind, encode_computed, from_wire, kind_of

ArrayType = tensor_pb2.ArrayType
# Values, and the dtypes that they become.
Tensors = Sequence[Tuple[Any, np.dtype]]

# Limits on the operator objects kept before their backward pass, and after it (for another pass over the same history).
MOST_WAITING = 1024
MOST_USED = 64


class _Instance(NamedTuple):
    """An operator object between its passes."""

    operator: Any
    spec: props.Spec


class _Instances:
    """The operator objects of forward passes, by number. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, _Instance] = collections.OrderedDict()
        self._used: OrderedDict[int, _Instance] = collections.OrderedDict()

    def add(self, number: int, instance: _Instance) -> None:
        with self._lock:
            self._waiting[number] = instance
            forgotten = self._waiting.popitem(last=False) if len(self._waiting) > MOST_WAITING else None
        del forgotten  # Without the lock: freeing a user's object may run any code.

    def find(self, number: int, op_type: str) -> _Instance:
        with self._lock:
            instance = self._waiting.pop(number, None) or self._used.pop(number, None)
            if instance is None:
                raise MXNetError(
                    f"the operator object of this forward pass of '{op_type}' is gone: {MOST_WAITING} others have run since "
                    f"without a backward pass, or {MOST_USED} have had theirs; or the process that had it has ended. Run the "
                    "forward pass again"
                )
            self._used[number] = instance
            forgotten = self._used.popitem(last=False) if len(self._used) > MOST_USED else None
        del forgotten
        return instance


_instances = _Instances()


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: the forward passes were the parent's."""
    global _instances
    _instances = _Instances()


def answer(callback: Any, find_session: Callable[[], Any]) -> bytes:
    """HostRequest with the answer to a Callback. `find_session`: the session that its arrays belong to."""
    ask = callback.WhichOneof("ask")
    begin = time.perf_counter()
    try:
        if ask == "forward":
            return _encode(callback.call, begin, *_forward(callback, callback.forward, find_session()))
        if ask == "backward":
            return _encode(callback.call, begin, *_backward(callback, callback.backward, find_session()))
        if ask == "function":
            return _encode(callback.call, begin, _function(callback.function), ())
        arguments, outputs, auxiliary = _infer(callback, ask)
        result = pb.CallbackResult(
            call=callback.call,
            seconds=time.perf_counter() - begin,
            inferred={"arguments": arguments, "outputs": outputs, "auxiliary": auxiliary},
        )
        return pb.HostRequest(result=result).SerializeToString()
    except BaseException as error:  # The server must hear of any error.
        return failure(callback.call, error, time.perf_counter() - begin)


def _encode(call: int, begin: float, outputs: Tensors, auxiliary: Tensors) -> bytes:
    return encode_computed(call, outputs, auxiliary, struct.pack("<d", time.perf_counter() - begin))


def _registered(callback: Any) -> Tuple[registry.Registered, props.Texts, props.Spec]:
    registered = registry.find(callback.op_type)
    texts = registry.attribute_texts(dict(callback.attributes))
    return registered, texts, props.spec(registered, texts)


# Shapes and types.


def _infer(callback: Any, ask: str) -> List[List[Any]]:
    """ArrayTypes of arguments, outputs and auxiliary states."""
    registered, texts, spec = _registered(callback)
    prop = props.make(registered, texts)
    given = getattr(callback, ask).arguments
    try:
        if ask == "infer_shape":
            shapes = props.infer_shapes(
                prop, spec, registered.op_type, [tuple(each.shape) if each.has_shape else None for each in given]
            )
            return [[ArrayType(has_shape=shape is not None, shape=shape or ()) for shape in each] for each in shapes]
        types = props.infer_types(
            prop, spec, registered.op_type, [DTYPE_OF[each.dtype] if each.HasField("dtype") else None for each in given]
        )
        return [[ArrayType() if dtype is None else ArrayType(dtype=FLAG_OF[dtype]) for dtype in each] for each in types]
    except errors.OperatorError:
        if all(_is_known(each, ask) for each in given):
            raise
        # The rule needs more than is known so far; it will be asked again.
        return [list(given), [ArrayType()] * len(spec.outputs), [ArrayType()] * len(spec.auxiliary)]


def _is_known(given: Any, ask: str) -> bool:
    return given.HasField("dtype") if ask == "infer_type" else given.has_shape and -1 not in given.shape


# Passes.


def _array(tensor: Any, session: Any, context: Any, writable: bool = False) -> NDArray:
    return local(
        session, context, Kind(tuple(tensor.shape), DTYPE_OF[tensor.dtype]), from_wire(tensor), writable=writable, is_shared=True
    )


def _requests(wanted: Sequence[bool]) -> List[str]:
    return ["write" if each else "null" for each in wanted]


def _results(given: Sequence[Any]) -> Tuple[List[Kind], List[bool]]:
    """The kinds of the results, and which of them anybody wants."""
    return [kind_of(each.type) for each in given], [each.wanted for each in given]


def _forward(callback: Any, forward: Any, session: Any) -> Tuple[Tensors, Tensors]:
    """Outputs, and auxiliary states if some were written."""
    registered, texts, spec = _registered(callback)
    context = _of_device(forward.device)
    arguments = [_array(tensor, session, context) for tensor in forward.arguments]
    auxiliary = [_array(tensor, session, context, writable=True) for tensor in forward.auxiliary]
    kinds, wanted = _results(forward.outputs)
    outputs = [local(session, context, kind) for kind in kinds]
    with inside(forward.training, context, called_back=True):
        plan = props.plan(registered, texts, [Kind(each._shape, each._dtype) for each in arguments + auxiliary])
        operator = plan.create(registered, context)
        with errors.calling(registered.op_type, "forward"):
            operator.forward(is_train=forward.training, req=_requests(wanted), in_data=arguments, out_data=outputs, aux=auxiliary)
            values = wanted_values(outputs, wanted)
            states = values_of(auxiliary) if any(each._version for each in auxiliary) else []
    if forward.keep:
        _instances.add(forward.instance, _Instance(operator, spec))
    return (
        [(each, kind.dtype) for each, kind in zip(values, kinds)],
        [(each, state._dtype) for each, state in zip(states, auxiliary)],
    )


def _backward(callback: Any, backward: Any, session: Any) -> Tuple[Tensors, Tensors]:
    """Gradients of the arguments, and auxiliary states if some were written."""
    op_type = callback.op_type
    context = _of_device(backward.device)
    operator = _instances.find(backward.instance, op_type).operator

    def operands(given: Sequence[Any], what: str) -> List[Any]:
        return [
            absent(session, context, op_type, f"{what}[{place}]") if each.absent else _array(each.tensor, session, context)
            for place, each in enumerate(given)
        ]

    auxiliary = [_array(tensor, session, context, writable=True) for tensor in backward.auxiliary]
    kinds, wanted = _results(backward.gradients)
    gradients = [local(session, context, kind) for kind in kinds]
    with inside(backward.training, context, called_back=True), errors.calling(op_type, "backward"):
        operator.backward(
            req=_requests(wanted),
            out_grad=operands(backward.out_grads, "out_grad"),
            in_data=operands(backward.arguments, "in_data"),
            out_data=operands(backward.outputs, "out_data"),
            in_grad=gradients,
            aux=auxiliary,
        )
        values = wanted_values(gradients, wanted)
        states = values_of(auxiliary) if any(each._version for each in auxiliary) else []
    return (
        [(each, kind.dtype) for each, kind in zip(values, kinds)],
        [(each, state._dtype) for each, state in zip(states, auxiliary)],
    )


def _function(asked: Any) -> Tensors:
    """Gradients of a recorded function's inputs."""
    kinds, wanted = _results(asked.gradients)
    values = functions.answer(asked.function, [from_wire(tensor) for tensor in asked.out_grads], kinds, wanted)
    return [(each, kind.dtype) for each, kind in zip(values, kinds)]
