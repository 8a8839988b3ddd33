"""Executor: a symbol with arrays for its variables, run forward and backward. See `Executor`."""

from __future__ import annotations

import functools
import math
import os
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .._array.array import NDArray
from .._array.calls import blank, write
from .._array.create import empty, zeros
from .._attributes import dtype_name
from .._wire import connect, encoding
from ..base import MXNetError
from ..context import Context, current_context
from . import _common
from ._gradients import HeadGradients, MarkedArguments
from ._outputs import Outputs
from ._monitored import MonitoredSymbol


class Executor:
    """Runs a symbol on bound arrays. Made by `Symbol.bind` and `Symbol.simple_bind`.

    Each run reads the arrays as they are then. `forward` makes new outputs each time; `backward` writes into the
    gradient arrays, or adds to them. Auxiliary states are updated in place by training runs.

    >>> executor = net.simple_bind(mx.cpu(), data=(32, 784))
    >>> probabilities, = executor.forward(is_train=True, data=batch)
    >>> executor.backward()
    >>> executor.grad_dict["fc_weight"]
    """

    def __init__(
        self,
        symbol: Outputs,
        ctx: Optional[Context],
        args: Sequence[NDArray],
        grads: Sequence[Optional[NDArray]],
        requests: Sequence[str],
        states: Sequence[NDArray],
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self._names = symbol.list_arguments()
        self._state_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self.arg_arrays: List[NDArray] = list(args)
        self.grad_arrays: List[Any] = list(grads)
        self.aux_arrays: List[NDArray] = list(states)
        self._requests = list(requests)
        arguments, auxiliaries = symbol._variables()
        custom = symbol._custom_states()
        self._custom_states = [array for array, node in zip(self.aux_arrays, auxiliaries) if node in custom]
        self._places = {node: place for place, node in enumerate(arguments + auxiliaries)}
        self._monitored: Optional[MonitoredSymbol] = None
        self._watch: Optional[Tuple[Callable[[str, NDArray], Any], bool]] = None  # The callback, and whether inputs are told.
        self._probes: List[NDArray] = []  # The zeros that the monitored symbol reads.
        # Names of the arguments that change from run to run; None where nobody has said.
        self._inputs: Optional[FrozenSet[str]] = None
        self._runs(symbol)
        self._outputs: Optional[List[NDArray]] = None
        self._recorded: Optional[List[NDArray]] = None  # The outputs of the last run with their histories, if it was recorded.
        self._is_used_up = False  # Whether backward_once() has come since.
        self._marked = MarkedArguments(self.arg_arrays, self.grad_arrays, self._requests)
        self._heads = HeadGradients(symbol)
        self._merges = os.environ.get("MXNET_ELIMINATE_COMMON_EXPR") != "0"

    def _runs(self, symbol: Outputs) -> None:
        """From now on the graph of `symbol` is run."""
        self._running = symbol
        variables = symbol._define().variables
        self._order = [self._places[node] for node in variables]
        arguments, last = len(self.arg_arrays), len(self.arg_arrays) + len(self.aux_arrays)

        def stays(place: int) -> bool:
            """Whether the array mostly stays the same from run to run, as a parameter does."""
            if place >= arguments:
                return place < last
            if self._inputs is None:
                return self.grad_arrays[place] is not None
            return self._names[place] not in self._inputs

        self._parameters = tuple(number for number, place in enumerate(self._order) if stays(place))

    def with_inputs(self, names: Iterable[str]) -> "Executor":
        """This executor, whose arguments of these names change from run to run. The server keeps what follows from the others."""
        inputs = frozenset(names).union(self._inputs or ())
        if inputs != self._inputs:
            self._inputs = inputs
            self._runs(self._running)
        return self

    def set_monitor_callback(self, callback: Callable[[str, NDArray], Any], monitor_all: bool = False) -> None:
        """`callback(name, array)` is called for each operator's outputs after each run, and for gradients; see MonitoredSymbol.

        For gradients the executor gets arrays for those of all inputs of operators.
        monitor_all: for the operators' inputs as well.
        """
        requests = dict(zip(self._names, self._requests)) if self._marked.any else {}
        self._monitored = MonitoredSymbol(self._symbol, monitor_all, self.arg_dict, requests)
        probes = self._monitored.probes
        first = len(self.arg_arrays) + len(self.aux_arrays)
        self._places.update({probe.variable: first + place for place, probe in enumerate(probes)})
        self._probes = [probe.zeros for probe in probes]
        gradients = [*self.grad_arrays, *[probe.gradient for probe in probes]]
        self._marked = MarkedArguments([*self.arg_arrays, *self._probes], gradients, [*self._requests, *["write"] * len(probes)])
        self._runs(self._monitored.symbol)
        self._watch = (callback, monitor_all)

    def watched_as(self, other: "Executor") -> "Executor":
        """This executor, with the callback of another one."""
        if other._watch is not None:
            self.set_monitor_callback(*other._watch)
        return self

    # Arrays by name.

    @functools.cached_property
    def arg_dict(self) -> Dict[str, NDArray]:
        """The arguments by name."""
        return _by_name(self._names, self.arg_arrays)

    @functools.cached_property
    def grad_dict(self) -> Dict[str, Any]:
        """The gradients by argument; None where none is computed."""
        return _by_name(self._names, self.grad_arrays)

    @functools.cached_property
    def aux_dict(self) -> Dict[str, NDArray]:
        """The auxiliary states by name."""
        return _by_name(self._state_names, self.aux_arrays)

    @property
    def output_dict(self) -> Dict[str, NDArray]:
        """The outputs of the last run by name."""
        return _by_name(self._output_names, self.outputs)

    @property
    def outputs(self) -> List[NDArray]:
        """The outputs of the last run; zeros before the first."""
        if self._outputs is None:
            shapes = {name: array.shape for name, array in self.arg_dict.items()}
            dtypes = {name: dtype_name(array.dtype) for name, array in self.arg_dict.items()}
            result = self._symbol._define().infer(shapes, dtypes)
            self._outputs = [empty(kind.shape or (), ctx=self._ctx, dtype=kind.dtype or "float32") for kind in result.outputs]
        return self._outputs

    # Running.

    def forward(self, is_train: bool = False, **kwargs: Union[NDArray, np.ndarray]) -> List[NDArray]:
        """The outputs. kwargs: new values of arguments, copied into the bound arrays.

        is_train: training mode; only then does `backward` see what random operators drew.
        """
        if kwargs:
            arrays = self.arg_dict
            for name, value in kwargs.items():
                if not isinstance(value, (NDArray, np.ndarray)):
                    raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
                if name not in arrays:
                    raise TypeError(f"Unknown argument {name}; the arguments are: {', '.join(self._names)}")
                if arrays[name].shape != value.shape:
                    raise ValueError(f"Shape not match! Argument {name}, need: {arrays[name].shape}, " f"received: {value.shape}")
                arrays[name][:] = value
            self.with_inputs(kwargs)
        return self._run(recording=bool(is_train) and self._marked.any, training=bool(is_train))

    def _run(self, recording: bool, training: bool) -> List[NDArray]:
        inputs = [*self.arg_arrays, *self.aux_arrays]
        session = inputs[0]._session if inputs else connect.current()
        context = inputs[0].context if inputs else self._ctx or current_context()
        if self._recorded is not None:  # The run that it keeps is freed before the next one, not when the client comes to it.
            session.submit(encoding.free([output._sent() for output in self._recorded]))
        self._recorded, self._is_used_up = None, False
        arguments = self._marked.read() if recording else [array._sent() for array in [*self.arg_arrays, *self._probes]]
        first = len(self.arg_arrays)
        names = [*arguments[:first], *[array._sent() for array in self.aux_arrays], *arguments[first:]]
        outputs = [blank(NDArray, session, context, None, None) for _ in range(len(self._running))]
        write(
            self.aux_arrays if training else self._custom_states,
            lambda: self._running._define(self._parameters).run(
                session,
                [names[place] for place in self._order],
                [output._name for output in outputs],
                encoding.mode_flags(recording, training),
            ),
        )
        for array in self._custom_states:
            array._written_by_server()
        results = outputs[: len(self._output_names)]
        self._recorded = results if recording else None
        self._outputs = [array.detach() for array in results] if recording else results  # Which the program may write.
        if self._monitored is not None and self._watch is not None:
            for name, _, array in self._monitored.told(outputs, {**self.arg_dict, **self.aux_dict}):
                self._watch[0](name, array)
        return self._outputs

    def backward(
        self, out_grads: Union[None, NDArray, Sequence[NDArray], Mapping[str, NDArray]] = None, is_train: bool = True
    ) -> None:
        """Computes the gradients of the last `forward` into `grad_arrays`.

        out_grads: dL/d(output), for each output, in order or by name; not needed where all outputs are losses.
        It may be called again, with others.
        """
        self._compute(out_grads, is_train, keeps=True)

    def backward_once(self, out_grads: Any = None) -> None:
        """`backward` for the last time since `forward`. The server goes on with the run, and needs no memory for a copy."""
        self._compute(out_grads, is_train=True, keeps=False)

    def _compute(self, out_grads: Any, is_train: bool, keeps: bool) -> None:
        if self._is_used_up:
            raise MXNetError(
                "Executor.backward: the run of the last forward is freed, as forward_backward() and fit() compute gradients once. "
                "For another backward call forward(is_train=True) and backward(), which keeps the run."
            )
        if self._marked.any and self._recorded is None:  # The last run was for prediction.
            self._run(recording=True, training=False)
        if not self._marked.any:  # MXNet wants no head gradients then.
            return
        gradients = self._heads.check(out_grads, self._output_names, self._outputs or [])
        self._marked.backward(self._recorded or [], gradients, bool(is_train), keeps)
        if not keeps:
            self._recorded, self._is_used_up = None, True
        if self._monitored is not None and self._watch is not None:
            written = {
                name: grad for name, grad, request in zip(self._names, self.grad_arrays, self._requests) if request == "write"
            }
            for name, array in self._monitored.told_gradients(written):
                self._watch[0](name, array)

    # Arrays replaced.

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Optional[Mapping[str, NDArray]] = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copies values into arguments and auxiliary states. ValueError: a name that is not there, unless allowed."""
        for params, arrays, kind in (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        ):
            for name, value in params.items():
                if name in arrays:
                    if arrays[name].shape != value.shape:
                        raise MXNetError(f"{name}: expected {arrays[name].shape}, got {value.shape}")
                    arrays[name][:] = value.astype(arrays[name].dtype)
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {kind}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Sequence[int]) -> "Executor":
        """An Executor for inputs of other shapes, which shares the arrays whose shapes stay.

        partial_shaping: arrays that are not named may change their shapes, too (they begin as zeros).
        allow_up_sizing: arrays may become larger.
        """
        names = [node.name for node in self._symbol._define().variables]
        for name in kwargs:
            if name not in names:
                raise MXNetError(f"Keyword argument name {name} not found among {', '.join(names)}")
        dtypes = {name: dtype_name(array.dtype) for name, array in self.arg_dict.items()}
        result = self._symbol._define().infer(dict(kwargs), dtypes)
        shapes = {name: kind.shape for name, kind in zip(names, result.inputs)}

        def fitted(name: str, array: NDArray) -> NDArray:
            shape = shapes[name]
            if shape is None or min(shape, default=1) < 0:
                raise MXNetError(f"The shape of {name} cannot be inferred: give it to reshape()")
            if tuple(shape) == array.shape:
                return array
            if name not in kwargs and not partial_shaping:
                raise MXNetError(
                    f"Shape of unspecified argument {name} changed from {array.shape} to {tuple(shape)}. "
                    "If this is intended, set partial_shaping=True."
                )
            if math.prod(shape) > math.prod(array.shape) and not allow_up_sizing:
                raise MXNetError(
                    f"New shape of {name}, {tuple(shape)}, is larger than {array.shape}. If you really "
                    "want to up size, set allow_up_sizing=True."
                )
            return zeros(shape, ctx=self._ctx, dtype=array.dtype)

        grads = [None if grad is None else fitted(name, grad) for name, grad in zip(self._names, self.grad_arrays)]
        arguments = [fitted(name, array) for name, array in zip(self._names, self.arg_arrays)]
        states = [fitted(name, array) for name, array in zip(self._state_names, self.aux_arrays)]
        executor = Executor(self._symbol, self._ctx, arguments, grads, self._requests, states).watched_as(self)
        return executor if self._inputs is None else executor.with_inputs(self._inputs)

    def debug_str(self) -> str:
        """The graph as text for people."""
        return self._symbol.debug_str()

    def get_optimized_symbol(self) -> Outputs:
        """The symbol with equal computations made once, unless MXNET_ELIMINATE_COMMON_EXPR was 0 when it was bound."""
        return type(self._symbol)(_common.merged(self._symbol._entries) if self._merges else self._symbol._entries)


def _by_name(names: Sequence[str], arrays: Sequence[Any]) -> Dict[str, Any]:
    result = dict(zip(names, arrays))
    if len(result) != len(names):
        raise ValueError(f"Duplicate names detected, {', '.join(names)}")
    return result
