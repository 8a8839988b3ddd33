"""ExecutorGroup: the arrays of a module's symbol, for one shape of its batches."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from .. import symbol as sym
from .._array.array import NDArray
from ..base import MXNetError, WrongShape
from ..context import Context
from ..io._batches import DataDesc
from ..symbol._executor import Executor
from . import _inputs

GradReq = Union[str, Sequence[str], Dict[str, str]]


class ExecutorGroup:
    """A symbol bound to arrays: its parameters, the inputs of a batch, their gradients.

    Another group's parameters, their gradients and its auxiliary states are shared where they have the same names.
    As in MXNet there is a list `execs` of executors, and lists of lists `param_arrays`, `grad_arrays` and `aux_arrays`, with
    one array for each device: here there is one device.
    """

    shares_inputs = False  # Whether all other arrays of the same shapes are shared as well.

    def __init__(
        self,
        symbol: "sym.Symbol",
        context: Context,
        data_shapes: Sequence[DataDesc],
        label_shapes: Optional[Sequence[DataDesc]],
        param_names: Sequence[str],
        requests: Dict[str, str],
        shared: Optional["ExecutorGroup"] = None,
    ) -> None:
        self.data_shapes = list(data_shapes)
        self.label_shapes = list(label_shapes or [])
        self.param_names = list(param_names)
        self.batch_size = _inputs.batch_size(self.data_shapes)
        arguments = symbol.list_arguments()
        inputs = [desc for desc in self.data_shapes + self.label_shapes if desc.name in arguments]
        bound = symbol.simple_bind(
            context, requests, {desc.name: desc.dtype for desc in inputs}, **{desc.name: tuple(desc.shape) for desc in inputs}
        )
        self.executor: Executor = bound if shared is None else self._sharing(symbol, context, requests, bound, shared.executor)

    def _sharing(
        self, symbol: "sym.Symbol", context: Context, requests: Dict[str, str], bound: Executor, shared: Executor
    ) -> Executor:
        """As `bound`, with the arrays of another executor where that has them."""
        arguments, gradients, states = dict(bound.arg_dict), dict(bound.grad_dict), dict(bound.aux_dict)
        for own, others, names in ((arguments, shared.arg_dict, self.param_names), (states, shared.aux_dict, list(states))):
            for name in names:
                if name in others:
                    if own[name].shape != others[name].shape:
                        raise WrongShape(
                            f"Module: with batches of {[tuple(desc) for desc in self.data_shapes]} the shape of "
                            f"{name} would be {own[name].shape}, but it is {others[name].shape}."
                        )
                    own[name] = others[name]
        if self.shares_inputs:
            for name, array in shared.arg_dict.items():
                if name in arguments and (arguments[name].shape, arguments[name].dtype) == (array.shape, array.dtype):
                    arguments[name] = array
        for name in self.param_names:
            if gradients[name] is not None and shared.grad_dict.get(name) is not None:
                gradients[name] = shared.grad_dict[name]
        inputs = [desc.name for desc in self.data_shapes + self.label_shapes]
        return symbol.bind(context, arguments, gradients, requests, states).with_inputs(inputs)

    # Arrays.

    @property
    def params(self) -> Dict[str, NDArray]:
        """The parameters by name."""
        return {name: self.executor.arg_dict[name] for name in self.param_names}

    @property
    def execs(self) -> List[Executor]:
        """The executor of each device."""
        return [self.executor]

    @property
    def param_arrays(self) -> List[List[NDArray]]:
        """Each parameter, on each device."""
        return [[array] for array in self.params.values()]

    @property
    def grad_arrays(self) -> List[List[Any]]:
        """Each parameter's gradient, or None, on each device."""
        return [[self.executor.grad_dict[name]] for name in self.param_names]

    @property
    def aux_arrays(self) -> List[List[NDArray]]:
        """Each auxiliary state, on each device."""
        return [[array] for array in self.executor.aux_arrays]

    @property
    def bytes(self) -> int:
        """The memory of all these arrays."""
        executor = self.executor
        arrays = [*executor.arg_arrays, *executor.grad_arrays, *executor.aux_arrays]
        return sum(array.size * np.dtype(array.dtype).itemsize for array in arrays if array is not None)

    def install_monitor(self, mon: Any) -> None:
        """Has a Monitor watch the executors."""
        for executor in self.execs:
            mon.install(executor)

    # Batches.

    def load(self, data: Sequence[Any], label: Optional[Sequence[Any]]) -> None:
        """Copies a batch into the inputs. MXNetError: an array has another shape."""
        for desc, value in [*zip(self.data_shapes, data), *zip(self.label_shapes, label or [])]:
            array = self.executor.arg_dict.get(desc.name)
            if array is None:  # A label that only metrics see.
                continue
            if tuple(value.shape) != array.shape:
                raise WrongShape(
                    f"Module: {desc.name} of the batch has the shape {tuple(value.shape)}, but the module is bound "
                    f"for {array.shape}."
                )
            if isinstance(value, NDArray):
                value.copyto(array)
            else:
                array[:] = value

    @property
    def outputs(self) -> List[NDArray]:
        """The outputs of the last run."""
        return self.executor.outputs


def requests(
    symbol: "sym.Symbol", grad_req: GradReq, params: Sequence[str], fixed: Sequence[str], inputs: Sequence[str], for_training: bool
) -> Dict[str, str]:
    """Which gradients are computed, by argument: of parameters that are not `fixed`, and of `inputs`.

    grad_req: what is done with these; or a list, in the order of the arguments; or a dict of what differs.
    """
    arguments = symbol.list_arguments()
    if not for_training:
        return dict.fromkeys(arguments, "null")
    if isinstance(grad_req, (list, tuple)):
        if len(grad_req) != len(arguments):
            raise MXNetError(
                f"Module.bind: grad_req has {len(grad_req)} entries for {len(arguments)} arguments: " f"{', '.join(arguments)}"
            )
        return dict(zip(arguments, grad_req))
    usual = grad_req if isinstance(grad_req, str) else "write"
    found = {name: usual if name in params and name not in fixed or name in inputs else "null" for name in arguments}
    return {**found, **grad_req} if isinstance(grad_req, dict) else found
