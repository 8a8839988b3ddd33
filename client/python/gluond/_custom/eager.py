"""`mx.nd.Custom`: a custom operator applied to arrays, here and now.

Its code runs in the calling thread: an error is raised where the operator was called, data stays where it is unless the
code asks for it, and output shapes need no round trip. While recording, the result is recorded as a function of this
process, and its `backward` is called when the gradient arrives. (The operator `Custom`, which the server runs by a
callback, is for graphs: see graph.py. A callback costs one more round trip and change of threads, and moves all inputs
and outputs.)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._array import calls, transfer
from .._array.array import NDArray
from .._array.here import Here, Later
from .._attributes import did_you_mean
from .._wire import connect, encoding, operator_errors as errors
from .._wire.frame import frame
from .._wire.tensors import DTYPE_OF
from ..base import MXNetError
from ..context import current_context
from . import functions, props, registry
from .inside import inside
from .local import absent, local, source_of
from .recorded import again, record
from .snapshots import constant, keep
from .values import Kind

# An input's values stay here for the next call, if they are not more bytes than this.
_KEPT_BYTES = 1 << 20


def Custom(
    *args: NDArray, op_type: Optional[str] = None, out: Any = None, name: Optional[str] = None, **kwargs: Any  # noqa: N802
) -> Any:
    """Applies a custom operator registered with `mx.operator.register(op_type)`.

    Arrays by position, or by the names that its CustomOpProp lists (auxiliary states after the arguments). All other
    arguments go to the prop, as text. Returns an NDArray, or a list of them if there are several outputs.
    """
    if op_type is None:
        raise MXNetError("Required argument `op_type` is missing.")
    registered = registry.find(op_type)
    named: Dict[str, NDArray] = {}
    for key in [key for key, value in kwargs.items() if isinstance(value, NDArray)]:
        named[key] = kwargs.pop(key)
    texts = registry.attribute_texts(kwargs)
    spec = props.spec(registered, texts)
    inputs = _arrange(op_type, spec.arguments + spec.auxiliary, args, named)
    try:
        outputs = _run(registered, texts, spec, inputs)
    except errors.OperatorError as error:
        raise errors.short(error)
    if out is not None:
        return _write(op_type, outputs, out, inputs)
    return outputs[0] if len(outputs) == 1 else outputs


def _arrange(op_type: str, names: Tuple[str, ...], args: Sequence[Any], named: Mapping[str, NDArray]) -> List[NDArray]:
    """The inputs in the operator's order."""
    if not named and len(args) == len(names):
        inputs: List[Any] = list(args)
    else:
        if len(args) > len(names):
            raise MXNetError(f"custom operator '{op_type}' takes {len(names)} inputs ({', '.join(names)}), got {len(args)}")
        inputs = list(args) + [None] * (len(names) - len(args))
        for key, value in named.items():
            if key not in names:
                raise MXNetError(
                    f"custom operator '{op_type}' has no input '{key}'{did_you_mean(key, names)}; its inputs "
                    f"are {', '.join(names)}"
                )
            if inputs[names.index(key)] is not None:
                raise TypeError(f"Custom() got multiple values for argument '{key}' of '{op_type}'")
            inputs[names.index(key)] = value
        missing = [name for name, value in zip(names, inputs) if value is None]
        if missing:
            raise MXNetError(
                f"custom operator '{op_type}' takes {len(names)} inputs ({', '.join(names)}), got "
                f"{len(names) - len(missing)}: {', '.join(missing)} missing"
            )
    for name, value in zip(names, inputs):
        if not isinstance(value, NDArray):
            raise TypeError(
                f"input '{name}' of custom operator '{op_type}' must be an NDArray, not {type(value).__name__}"
                + ("; mx.nd.array(x) makes one" if isinstance(value, np.ndarray) else "")
            )
    if len(inputs) > 1:
        calls.check_together(inputs, f"Custom '{op_type}'")
    return inputs


def _describe(arrays: Sequence[NDArray]) -> None:
    """Asks for the shapes and dtypes that only the server knows, of all arrays at once."""
    unknown = [array for array in arrays if array._shape is None or array._dtype is None]
    if not unknown:
        return
    reply = unknown[0]._session.request(encoding.describe([array._sent() for array in unknown]))
    for array, kind in zip(unknown, reply.arrays):
        array._shape, array._dtype = tuple(kind.shape), DTYPE_OF[kind.dtype]


def _run(registered: registry.Registered, texts: props.Texts, spec: props.Spec, inputs: List[NDArray]) -> List[NDArray]:
    _describe(inputs)
    session = inputs[0]._session if inputs else connect.current()
    context = inputs[0]._context if inputs else current_context()
    plan = props.plan(registered, texts, [Kind(array._shape, array._dtype) for array in inputs])
    operator = plan.create(registered, context)
    count = len(spec.arguments)
    recording, training = frame().recording and count > 0, frame().training
    arguments, auxiliary = inputs[:count], inputs[count:]
    versions = [array._where.version(array) for array in arguments]
    kept = [keep(array) for array in arguments] if recording else arguments
    in_data = [constant(array) for array in kept]
    out_data = [local(session, context, kind) for kind in plan.outputs]
    elsewhere = {i for i, array in enumerate(in_data) if array._where.here is None}
    forward, backward = plan.fetched
    wanted = forward | backward if recording else forward
    _fetch(session, [in_data[i] for i in elsewhere & wanted])
    with inside(training, context), errors.calling(registered.op_type, "forward"):
        operator.forward(is_train=training, req=["write"] * len(out_data), in_data=in_data, out_data=out_data, aux=auxiliary)
        for output in out_data:
            if isinstance(output._where, Later):
                output._sent()
    fetched = [i for i in elsewhere if in_data[i]._where.here is not None]
    plan.fetched[0].update(fetched)
    for i in fetched:
        if in_data[i]._where.here.nbytes <= _KEPT_BYTES:
            arguments[i]._where.keep(arguments[i], in_data[i]._where.known(in_data[i]), versions[i])
    if not recording:
        return list(out_data)
    results = [constant(array) for array in out_data]
    call = EagerCall(registered, spec, plan, operator, in_data, results, auxiliary, context, training)
    return record(call, kept, [array._has_history() for array in arguments], results)


def _fetch(session: Any, arrays: Sequence[NDArray]) -> None:
    """Gets the values of arguments that the operator is going to read."""
    if arrays:
        for array, values in zip(arrays, transfer.fetch_all(session, [array._sent() for array in arrays])):
            array._where.keep(array, values, 0)


def _write(op_type: str, outputs: Sequence[NDArray], out: Any, inputs: Sequence[NDArray]) -> Any:
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(targets) != len(outputs):
        raise MXNetError(f"custom operator '{op_type}' has {len(outputs)} output(s), but out= holds {len(targets)}")
    if frame().recording:
        calls.check_not_in_graph(targets, inputs)
    for target, output in zip(targets, outputs):
        transfer.overwrite(target, output)
    return out


class EagerCall(functions.Recorded):
    """A recorded call: the things that its backward pass needs."""

    def __init__(
        self,
        registered: registry.Registered,
        spec: props.Spec,
        plan: props.Plan,
        operator: Any,
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        auxiliary: Sequence[Any],
        context: Any,
        training: bool,
    ) -> None:
        super().__init__(registered.op_type, out_data[0]._session, context, training, len(out_data))
        self._spec = spec
        self._plan = plan
        self._operator = operator
        self._in_data: List[Any] = [array if spec.reads_argument(i) else None for i, array in enumerate(in_data)]
        self._reads_results = any(map(spec.reads_output, range(len(out_data))))
        self._out_data: List[Any] = list(out_data) if self._reads_results else [None] * len(out_data)
        self._auxiliary = list(auxiliary)
        self.has_states = bool(auxiliary)

    def reads_head(self, place: int) -> bool:
        return self._spec.reads_out_grad(place)

    def gradients(self, heads: Sequence[Any], wanted: Sequence[bool], kinds: Sequence[Kind] = ()) -> List[NDArray]:
        elsewhere = [i for i, array in enumerate(self._in_data) if array is not None and array._where.here is None]
        found = self._backward(heads, self._in_data, self._out_data, wanted)
        self._plan.fetched[1].update(i for i in elsewhere if self._in_data[i]._where.here is not None)
        return found

    def recorded_gradients(self, heads: Sequence[Any]) -> List[NDArray]:
        out_data = again(self, self._out_data) if self._reads_results else self._out_data
        found = self._backward(heads, self.inputs, out_data, [True] * len(self.inputs))
        for i, array in enumerate(found):
            if isinstance(array._where, Here) and array._version:
                raise MXNetError(
                    f"what was assigned to in_grad[{i}] was computed with numpy, which cannot be recorded "
                    "(create_graph=True); compute it with mx.nd"
                )
        return [source_of(array) for array in found]

    def _backward(
        self, heads: Sequence[Any], in_data: Sequence[Any], out_data: Sequence[Any], wanted: Sequence[bool]
    ) -> List[NDArray]:
        spec = self._spec
        in_grad = [local(self.session, self.context, kind) for kind in self._plan.inputs[: len(in_data)]]
        self._operator.backward(
            req=["write" if each else "null" for each in wanted],
            out_grad=self._present(heads, spec.reads_out_grad, "out_grad"),
            in_data=self._present(in_data, spec.reads_argument, "in_data"),
            out_data=self._present(out_data, spec.reads_output, "out_data"),
            in_grad=in_grad,
            aux=self._auxiliary,
        )
        return in_grad

    def _present(self, arrays: Sequence[Any], reads: Callable[[int], bool], what: str) -> List[Any]:
        return [
            array if reads(i) else absent(self.session, self.context, self.name, f"{what}[{i}]") for i, array in enumerate(arrays)
        ]
