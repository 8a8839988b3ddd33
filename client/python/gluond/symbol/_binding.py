"""Symbols given arrays: `bind`, `simple_bind` and `eval`, which make Executors."""

from __future__ import annotations

from typing import Any, List, Mapping, NoReturn, Optional, Sequence, Union

from .._array.array import NDArray
from .._array.create import zeros as zeros_of
from .._attributes import warn_once
from ..base import MXNetError
from ..context import Context
from . import _infer
from ._attributes import dtype_of
from ._definition import KnownType
from ._executor import Executor
from ._graph import Node
from ._outputs import Outputs

GradReq = Union[str, Sequence[str], Mapping[str, str]]


def _warn_of_groups(function: str, group2ctx: Any) -> None:
    if group2ctx:
        warn_once(f"{function}(group2ctx=...) changes nothing: a graph runs on one device", 4)


class Binding(Outputs):
    """The methods that make Executors, for Symbol."""

    __slots__ = ()

    def simple_bind(
        self,
        ctx: Optional[Context] = None,
        grad_req: GradReq = "write",
        type_dict: Optional[Mapping[str, Any]] = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Sequence[int],
    ) -> Executor:
        """An Executor with new arrays of zeros for all arguments, gradients and auxiliary states.

        kwargs: shapes by argument name; the others are inferred. type_dict: dtypes by name, default float32.
        grad_req: "write", "add" or "null", for all, in order, or by name. The sharing arguments are accepted and make
        no difference: the server shares memory by itself.

        >>> executor = net.simple_bind(mx.cpu(), data=(32, 784))
        """
        _warn_of_groups("simple_bind", group2ctx)
        arguments, auxiliaries = self._variables()
        requests = requests_by_order(self, grad_req, "simple_bind")
        shapes = {
            **_infer.declared_shapes(self),
            **{key: tuple(shape) for key, shape in kwargs.items() if isinstance(shape, (tuple, list))},
        }
        dtypes = {**_infer.declared_types(self), **{key: dtype_of(dtype) for key, dtype in (type_dict or {}).items()}}
        kinds = dict(zip(self._define().variables, self._define().infer(shapes, dtypes).inputs))
        _check_known(kinds, kwargs)

        def zeros(node: Node) -> NDArray:
            return zeros_of(kinds[node].shape or (), ctx=ctx, dtype=kinds[node].dtype or "float32")

        gradients = [zeros(node) if request != "null" else None for node, request in zip(arguments, requests)]
        states = [zeros(node) for node in auxiliaries]
        executor = Executor(self, ctx, [zeros(node) for node in arguments], gradients, requests, states)
        return executor.with_inputs(kwargs) if kwargs else executor

    def bind(
        self,
        ctx: Optional[Context],
        args: Any,
        args_grad: Any = None,
        grad_req: GradReq = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Executor:
        """An Executor on the given arrays, which it reads at each run and writes the gradients and states into.

        args: one for each argument, in order or by name. args_grad: where gradients go; arguments without one have
        none. aux_states: one for each auxiliary state.
        """
        _warn_of_groups("bind", group2ctx)
        arrays = _arrays(args, self.list_arguments(), "args", allow_missing=False)
        gradients = (
            _arrays(args_grad, self.list_arguments(), "args_grad", allow_missing=True)
            if args_grad is not None
            else [None] * len(arrays)
        )
        states = _arrays(
            aux_states if aux_states is not None else [], self.list_auxiliary_states(), "aux_states", allow_missing=False
        )
        requests = requests_by_order(self, grad_req, "bind")
        requests = [request if gradient is not None else "null" for request, gradient in zip(requests, gradients)]
        shapes = {name: array._shape for name, array in zip(self.list_arguments(), arrays) if array._shape is not None}
        self._define().infer(shapes, {})  # Shapes that do not fit are told here.
        return Executor(self, ctx, arrays, gradients, requests, states)

    def eval(self, ctx: Optional[Context] = None, **kwargs: NDArray) -> List[NDArray]:
        """The outputs for arrays given by name: `(a + b).eval(a=x, b=y)`."""
        return self.bind(ctx, kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> NoReturn:
        """MXNet declares this, and has not implemented it either."""
        raise MXNetError("not implemented: bind the symbol and call backward() on its Executor")


def _check_known(kinds: Mapping[Node, KnownType], given: Mapping[str, Any]) -> None:
    """RuntimeError with the variables whose shapes are not known from those given."""
    unknown = [f"{node.name}: {kind.shape}" for node, kind in kinds.items() if kind.shape is None or min(kind.shape, default=0) < 0]
    if unknown:
        listed = "".join(f"{key}: {shape}\n" for key, shape in given.items())
        raise RuntimeError(
            f"simple_bind error. Arguments:\n{listed}Cannot decide shapes for the following arguments "
            "(-1 means unknown dimensions). Please consider providing them as inputs:\n"
            f"{', '.join(unknown)}"
        )


def requests_by_order(symbol: Outputs, grad_req: GradReq, what: str) -> List[str]:
    """The gradient request of each argument."""
    arguments = symbol.list_arguments()
    if isinstance(grad_req, str):
        requests = [grad_req] * len(arguments)
    elif isinstance(grad_req, Mapping):
        requests = [grad_req.get(name, "null") for name in arguments]
    else:
        requests = list(grad_req)
    if len(requests) != len(arguments):
        raise RuntimeError(
            f"{what} error. The length of grad_req list does not match the number of input arguments, "
            f"expected {len(arguments)}, provided {len(requests)}"
        )
    for request in requests:
        if request not in ("null", "write", "add"):
            raise RuntimeError(
                f"{what} error. grad_req={request} is not a valid input; only 'null', 'write', and " "'add' are supported"
            )
    return requests


def _arrays(values: Any, names: Sequence[str], what: str, allow_missing: bool) -> List[Any]:
    """The arrays in the order of `names`."""
    if isinstance(values, Mapping):
        if not allow_missing:
            for name in names:
                if name not in values:
                    raise ValueError(f"key `{name}` is missing in `{what}`")
        arrays = [values.get(name) for name in names]
    elif isinstance(values, (list, tuple)):
        if len(values) != len(names):
            raise ValueError(
                f"Length of {what} does not match the number of arguments: {len(values)} for " f"{len(names)} ({', '.join(names)})"
            )
        arrays = list(values)
    else:
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    for array in arrays:
        if not isinstance(array, NDArray) and not (allow_missing and array is None):
            raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    return arrays
