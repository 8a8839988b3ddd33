"""CachedOp: a symbol as a function of arrays, which a hybridized Block runs."""

from __future__ import annotations

from typing import Any, Iterable, List, Sequence, Tuple, Union

from .._array.array import NDArray
from .._array.calls import blank, check_not_in_graph, check_together, write
from .._wire import connect
from .._wire.frame import frame
from ..base import MXNetError
from ..context import current_context
from ._outputs import Outputs


class CachedOp:
    """Computes a symbol's outputs from arrays, given in the order of `symbol.list_inputs()`.

    The server gets the graph once; each call is one command, and one node for autograd. Inputs may have other shapes
    and dtypes at each call. Auxiliary states are updated in place by calls in training mode, those of custom operators
    by any call and by backward().

        op = CachedOp(net.symbol, flags=[("static_alloc", True)])
        y = op(data, weight, bias)       # An NDArray, or a list of them if the symbol has several outputs.

    flags: as MXNet's. `param_indices` are the places of inputs that stay the same from call to call, but for training: calls
    that only predict keep what follows from them. The server plans memory by itself, so the others make no difference.
    """

    def __init__(self, symbol: Outputs, flags: Iterable[Tuple[str, Any]] = ()) -> None:
        given = dict(flags)
        if given.get("static_shape") and not given.get("static_alloc"):
            raise MXNetError("static_alloc must be True when static_shape is True")
        self._symbol = symbol
        self._inputs = len(symbol.list_inputs())
        self._outputs = len(symbol)
        self._parameters = tuple(given.get("param_indices", ()))
        variables = symbol._define(self._parameters).variables
        auxiliaries, custom = set(symbol._variables()[1]), symbol._custom_states()
        self._auxiliary = [place for place, node in enumerate(variables) if node in auxiliaries]
        self._custom_states = [place for place, node in enumerate(variables) if node in custom]

    def __call__(self, *args: NDArray, out: Union[None, NDArray, Sequence[NDArray]] = None, default_ctx: Any = None) -> Any:
        """The outputs. out: arrays that get them instead. default_ctx: where a graph without inputs runs."""
        if len(args) != self._inputs:
            raise MXNetError(f"CachedOp takes {self._inputs} inputs ({', '.join(self._symbol.list_inputs())}), " f"got {len(args)}")
        if args:
            check_together(args, "CachedOp")
            session, context = args[0]._session, args[0]._context
        else:
            session, context = connect.current(), default_ctx or current_context()
        outputs = (
            [blank(NDArray, session, context, None, None) for _ in range(self._outputs)]
            if out is None
            else self._checked(out, args)
        )
        states = [args[place] for place in (self._auxiliary if frame().training else self._custom_states)]
        write(
            [*states, *(() if out is None else outputs)],
            lambda: self._symbol._define(self._parameters).run(
                session, [array._sent() for array in args], [array._sent() for array in outputs], frame().flags
            ),
        )
        for place in self._custom_states:
            args[place]._written_by_server()
        if out is not None:
            return out
        return outputs[0] if self._outputs == 1 else outputs

    def _checked(self, out: Any, args: Sequence[NDArray]) -> List[NDArray]:
        outputs: List[NDArray] = [out] if isinstance(out, NDArray) else list(out)
        if len(outputs) != self._outputs or not all(isinstance(array, NDArray) for array in outputs):
            raise MXNetError(f"CachedOp has {self._outputs} outputs: out= wants as many arrays")
        if frame().recording:
            check_not_in_graph(outputs, args)
        return outputs
