"""Operator calls, from names of arrays to bytes on their way. Every `a + b` takes this path, so it is written for
speed: a `Call` is prepared once for each operator, its parameters, and its numbers of inputs and outputs.

Arrays are made here without their constructor: `blank` sets all members that an NDArray has. A name is read as
`x._name or x._sent()`: nearly every array is on the server already (where.py).
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._operators import BROADCAST, FIRST, NOT_TOLD, OperatorInfo, Results
from .._proto import command_pb2
from .._wire import encoding
from .._wire.values import Value
from .._wire.encoding import INVOKE, CallFrame, names
from .._wire.frame import frame
from .._wire.tensors import DTYPE_OF
from ..base import MXNetError
from ..context import Context
from .where import ON_SERVER, Place

_MOST_CALLS = 8192


class _Prepared:
    """A session's name for a call. The session forgets the name when this object is freed: one thread may be about to
    use it while another prepares the call for another session."""

    __slots__ = ("_session", "_number")

    def __init__(self, session: Any, number: int) -> None:
        self._session = session
        self._number = number

    def __del__(self) -> None:
        self._session.dead_calls.append(self._number)


class Call:
    """An operator with its parameters, for so many inputs and outputs; `ready` says how to invoke it in a session."""

    __slots__ = ("op", "attributes", "inputs", "outputs", "extra", "auxiliary", "results", "same", "ready", "custom")

    def __init__(
        self,
        op: str,
        attributes: Tuple[Tuple[str, str], ...],
        inputs: int,
        outputs: int,
        extra: int = 0,
        auxiliary: Tuple[int, ...] = (),
        results: Results = NOT_TOLD,
        custom: Any = None,
    ) -> None:
        self.op = op
        self.custom = custom  # A CustomOperatorSpec, or None.
        self.attributes = attributes
        self.inputs = inputs
        self.outputs = outputs
        self.extra = extra  # Bytes of further fields.
        self.auxiliary = auxiliary  # Inputs that the operator writes.
        self.results = results
        self.same: Optional[np.dtype] = None  # A dtype of the first input that is the results', too: the last one seen.
        # Session, first piece, middle piece, and the object that keeps the name in use. In one tuple, which a thread
        # reads at once and holds until it has submitted the command.
        self.ready: Tuple[Any, bytes, bytes, Optional[_Prepared]] = (None, b"", b"", None)

    def dtype_of(self, first: Optional[np.dtype]) -> Optional[np.dtype]:
        """The results' dtype, where it is known, by that of the first input."""
        dtype = None if first is None else self.results.dtypes.get(first)
        if dtype == first:
            self.same = first
        return dtype

    def prepare(self, session: Any) -> Tuple[Any, bytes, bytes, Optional[_Prepared]]:
        """Makes the call known to a session, and returns the new value of `ready`."""
        number = session.new_call()
        session.submit(
            encoding.message(
                encoding.PREPARE,
                command_pb2.Command.Prepare(
                    call=number,
                    op=self.op,
                    attributes={key: Value(string_value=text) for key, text in self.attributes},
                    custom=self.custom,
                ),
            )
        )
        frame = CallFrame(INVOKE, number, self.inputs, self.outputs, self.extra)
        ready = self.ready = (session, frame.head, frame.middle, _Prepared(session, number))
        return ready


_calls: dict[Any, Call] = {}


def forget_oldest(known: dict) -> None:
    """Makes room in a dict to which other threads may add."""
    with contextlib.suppress(RuntimeError, StopIteration):  # Another thread has just added one.
        known.pop(next(iter(known)), None)


def intern(
    op: str,
    attributes: Mapping[str, str],
    inputs: int,
    outputs: int,
    extra: int = 0,
    auxiliary: Tuple[int, ...] = (),
    results: Results = NOT_TOLD,
) -> Call:
    """The one Call of these arguments, so that the session learns of it once. The oldest of very many are forgotten."""
    items = tuple(attributes.items())
    key = (op, items, inputs, outputs, extra)
    call = _calls.get(key)
    if call is None or call.results is not results and results is not NOT_TOLD:
        if len(_calls) >= _MOST_CALLS:
            forget_oldest(_calls)
        call = _calls[key] = Call(op, items, inputs, outputs, extra, auxiliary, results)
    return call


def known(info: OperatorInfo, attributes: Mapping[str, str], inputs: int) -> Call:
    """The one Call of these arguments, with what the server tells of its results."""
    kind = info.call_type(attributes, inputs)
    return intern(info.name, attributes, inputs, len(kind.outputs), 0, kind.auxiliary, kind.results)


class Array:
    """The part of an NDArray that calls need: its name in a session, and this client's knowledge of it."""

    # _name: bytes, as they stand in commands (encoding.py), while the server has the present values under it; else None.
    # _where: the place where the values are. _version: see Place.version. _shape and _dtype are None while only the server
    # knows them. _grad_req: the way in which _grad is written; not set where there has been no gradient.
    __slots__ = ("_session", "_name", "_context", "_shape", "_dtype", "_grad", "_version", "_where", "_grad_req", "__weakref__")
    _session: Any
    _name: Any
    _context: Context
    _shape: Any
    _dtype: Any
    _grad: Any
    _version: Any
    _where: Any
    _grad_req: str
    # Members of NDArray, for code that is given one.
    asnumpy: Callable[[], np.ndarray]
    as_in_context: Callable[[Context], Any]
    _written_by_server: Callable[[], None]
    _has_history: Callable[[], Optional[bool]]

    @property
    def dtype(self) -> Any:
        """NDArray's."""
        raise NotImplementedError

    def __del__(self) -> None:
        try:
            name = self._name
            where = self._where if name is None else ON_SERVER
        except AttributeError:  # An interrupt came while the array was being made.
            return
        if name is None:
            where.free(self)
        else:
            self._session.dead_arrays.append(name)

    def _sent(self) -> Any:
        """The name under which the server has the present values. Sends what it takes that it has them."""
        return self._name or self._where.send(self)

    def _describe(self) -> None:
        """Asks for the shape and dtype."""
        kind = self._session.describe(self._sent())
        self._shape = tuple(kind.shape)
        self._dtype = DTYPE_OF[kind.dtype]


_new: Callable[[Any], Any] = object.__new__


def blank(
    kind: type, session: Any, context: Any, shape: Optional[Tuple[int, ...]], dtype: Optional[np.dtype], where: Place = ON_SERVER
) -> Any:
    """An array of this class, with its values in this place; on the server, it has a new name, which stands for nothing yet."""
    array = _new(kind)
    array._session = session
    array._name = next(names) if where is ON_SERVER else None
    array._context = context
    array._shape = shape
    array._dtype = dtype
    array._grad = None
    array._version = 0
    array._where = where
    return array


def unary(call: Call, data: Any) -> Any:
    """A call of one input, one output, of the same shape."""
    session = data._session
    ready = call.ready
    if ready[0] is not session:
        ready = call.prepare(session)
    out = _new(type(data))
    out._session = session
    name = out._name = next(names)
    out._context = data._context
    out._shape = data._shape
    dtype = data._dtype
    out._dtype = dtype if dtype is call.same else call.dtype_of(dtype)
    out._grad = None
    out._version = 0
    out._where = ON_SERVER
    session.submit(ready[1] + (data._name or data._sent()) + ready[2] + name + frame().flags)
    return out


def binary(call: Call, lhs: Any, rhs: Any) -> Any:
    """A call of two inputs, whose shapes broadcast."""
    session = lhs._session
    context = lhs._context
    if rhs._session is not session or rhs._context is not context:
        check_together((lhs, rhs), call.op)
    ready = call.ready
    if ready[0] is not session:
        ready = call.prepare(session)
    shape = lhs._shape
    other = rhs._shape
    if shape is not None and shape != other:
        shape = None if other is None else broadcast_shape(shape, other)
    out = _new(type(lhs))
    out._session = session
    name = out._name = next(names)
    out._context = context
    out._shape = shape
    dtype = lhs._dtype
    out._dtype = dtype if dtype is call.same else call.dtype_of(dtype)
    out._grad = None
    out._version = 0
    out._where = ON_SERVER
    session.submit(ready[1] + (lhs._name or lhs._sent()) + (rhs._name or rhs._sent()) + ready[2] + name + frame().flags)
    return out


def write(targets: Sequence[Any], submit: Callable[[], Any]) -> None:
    """Submits what gives the targets new values. These count as new before it, too: an interrupt may come anywhere, and values
    that were fetched before must not be taken for theirs."""
    for each in targets:
        each._sent()  # Some are read as well, and from now on the server has their values.
        each._where.forget(each)
    submit()
    for each in targets:  # Another thread may have fetched the old ones meanwhile.
        each._where.written(each)


def invoke(call: Call, inputs: Sequence[Any], out: Any = None, tail: bytes = b"") -> Any:
    """Any call with inputs: its output, or a list of its outputs. `out`: arrays (or one) that get the values instead.

    tail: the further fields that call.extra counts.
    """
    first = inputs[0]
    session = first._session
    context = first._context
    if len(inputs) > 1:
        check_together(inputs, call.op)
    if out is None:
        shape, dtype = _shape_of_results(call, inputs), call.dtype_of(first._dtype)
        outputs: Sequence[Any] = [blank(type(first), session, context, shape, dtype) for _ in range(call.outputs)]
    else:
        outputs = out if isinstance(out, (list, tuple)) else (out,)
        check_outputs(call, inputs, outputs)
    if frame().when_fresh and (out is not None or call.auxiliary):
        tail = frame().when_fresh
        call = intern(call.op, dict(call.attributes), call.inputs, call.outputs, len(tail), call.auxiliary)
    ready = call.ready
    if ready[0] is not session:
        ready = call.prepare(session)
    command = b"".join(
        (
            ready[1],
            *[each._name or each._sent() for each in inputs],
            ready[2],
            *[each._name or each._sent() for each in outputs],
            frame().flags,
            tail,
        )
    )
    if out is None and not call.auxiliary:
        session.submit(command)
    else:
        targets = [*[inputs[place] for place in call.auxiliary], *(() if out is None else outputs)]
        write(targets, lambda: session.submit(command))
    if out is not None:
        return out
    return outputs[0] if call.outputs == 1 else outputs


def create(
    call: Call,
    kind: type,
    session: Any,
    context: Any,
    shape: Optional[Tuple[int, ...]],
    dtype: np.dtype,
    tail: bytes,
    out: Any = None,
) -> Any:
    """A call without inputs. kind: the class of its result. `tail`: the device field."""
    ready = call.ready
    if ready[0] is not session:
        ready = call.prepare(session)
    array = blank(kind, session, context, shape, dtype) if out is None else out
    command = ready[1] + ready[2] + array._sent() + frame().flags + tail
    write(() if out is None else (out,), lambda: session.submit(command))
    return array


def _shape_of_results(call: Call, inputs: Sequence[Any]) -> Optional[Tuple[int, ...]]:
    if call.results.shape == FIRST:
        return inputs[0]._shape
    if call.results.shape != BROADCAST or inputs[0]._shape is None or inputs[1]._shape is None:
        return None
    return broadcast_shape(inputs[0]._shape, inputs[1]._shape)


def broadcast_shape(left: Tuple[int, ...], right: Tuple[int, ...]) -> Optional[Tuple[int, ...]]:
    """The shape of an elementwise result of both; MXNetError where there is none."""
    pairs = itertools.zip_longest(reversed(left), reversed(right), fillvalue=1)
    shape = []
    for l, r in pairs:
        if l != r and l != 1 and r != 1:
            raise MXNetError(f"operands could not be broadcast together with shapes {list(left)} {list(right)}")
        shape.append(r if l == 1 else l)
    return tuple(reversed(shape))


def check_together(arrays: Iterable[Any], op: str) -> None:
    """MXNetError unless the arrays are on one device, of one session."""
    arrays = tuple(arrays)
    first = arrays[0]
    for other in arrays[1:]:
        if other._session is not first._session:
            raise MXNetError(
                f"{op}: the arrays belong to two sessions, with {first._session.address} and with "
                f"{other._session.address}; arrays made before mx.connect() or a fork do not work with later "
                "ones. Hand the values over: mx.nd.array(x.asnumpy())"
            )
        if (
            other._context is not first._context
            and other._context != first._context
            and not (first._context.device_type.startswith("cpu_") or other._context.device_type.startswith("cpu_"))
        ):
            raise MXNetError(
                f"{op}: the arrays are on different devices, {first._context} and {other._context}; "
                f"move one with x.as_in_context({first._context})"
            )


_IN_PLACE = "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd."
_IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Also note "
    "that you cannot use inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section."
)


def check_writable(array: Any, what: str) -> None:
    """ValueError for an array that may only be read. what: the attempt, in words."""
    if not array._where.writable:
        raise ValueError(
            f"trying to {what} a readonly NDArray: an operator's inputs belong to its caller; assign to "
            "out_data or in_grad, or compute in a copy (x.copy())"
        )


def check_outputs(call: Call, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """MXNetError where `out=` does not fit."""
    if len(outputs) != call.outputs:
        raise MXNetError(f"{call.op} has {call.outputs} output(s), but out= holds {len(outputs)}")
    for each in outputs:
        if not isinstance(each, Array):
            raise TypeError(f"out= of {call.op} must be NDArray, not {type(each).__name__}")
        check_writable(each, "write to")
    if frame().recording:
        check_not_in_graph(outputs, inputs)


def check_not_in_graph(outputs: Iterable[Any], inputs: Iterable[Any]) -> None:
    """MXNetError where recording would lose an array's earlier value."""
    if any(each._grad is not None for each in outputs):
        raise MXNetError(_IN_GRAPH)
    if any(each._grad is not None for each in inputs):
        raise MXNetError(_IN_PLACE)
