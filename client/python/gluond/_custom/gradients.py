"""`autograd.grad`: gradients as new arrays, recorded if that is wanted, through functions of this process as well."""

from __future__ import annotations

from typing import Any, List, Optional

from .._array import calls, tape
from .._array.array import NDArray
from .._proto import command_pb2
from .._wire import encoding
from .._wire.encoding import number_of
from .._wire.waiter import Waiter
from .._wire.frame import frame
from ..base import WrongValue
from . import functions


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: Optional[bool] = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> List[NDArray]:
    """The gradients of sum_i head_grads[i] heads[i] with respect to `variables`, as new arrays; their `grad` stays.

    create_graph: records the computation of the gradients, for gradients of gradients: also that of custom operators and
    Functions whose backward computes with mx.nd. retain_graph: default, as create_graph.
    """
    variables = [variables] if isinstance(variables, NDArray) else list(variables)
    if not variables:
        raise WrongValue("variables cannot be an empty list.")
    wanted = [number_of(each._sent()) for each in variables]
    command, named = tape.begin(heads, head_grads, create_graph if retain_graph is None else retain_graph, create_graph)
    session = variables[0]._session
    outputs = [calls.blank(NDArray, session, each._context, each._shape, each._dtype) for each in variables]
    command.variables.extend(wanted)
    command.outputs.extend(number_of(each._name) for each in outputs)
    command.training = train_mode
    if create_graph and functions.functions.most_results:
        _differentiate_recorded(session, command)
    else:
        tape.submit_backward(session, command)
    del named
    return outputs


def _differentiate_recorded(session: Any, command: command_pb2.Command.Backward) -> None:
    """A Backward with create_graph: the server stops at each function of this process, whose gradients are computed here,
    and recorded."""
    most = functions.functions.most_results
    names = [next(encoding.names) for _ in range(most)]
    command.out_grads.extend(map(encoding.number_of, names))
    begun = Waiter()
    try:
        state = session.request(encoding.message(encoding.BACKWARD, command), begun)
        while state.backward.function:
            go_on = command_pb2.Command.ContinueBackward(backward=begun.number)
            function = functions.functions.find(state.backward.function)
            heads = [calls.blank(NDArray, function.session, function.context, None, None) for _ in range(function.num_results)]
            for head, name in zip(heads, names):
                head._name = name
            with function.within(frame().called_back, recording=True):
                gradients = function.recorded_gradients(heads)
                go_on.gradients.extend(encoding.number_of(each._sent()) for each in gradients)
            names = names[len(heads) :] + [next(encoding.names) for _ in heads]
            go_on.out_grads.extend(map(encoding.number_of, names))
            state = session.request(encoding.message(encoding.CONTINUE_BACKWARD, go_on))
    except BaseException:
        if begun.number and session.is_open:  # It may wait for gradients that do not come.
            give_up = command_pb2.Command.ContinueBackward(backward=begun.number)
            session.submit(encoding.message(encoding.CONTINUE_BACKWARD, give_up))
        raise


def get_symbol(x: NDArray) -> Any:
    """Not offered: recordings stay on the server."""
    raise NotImplementedError(
        "gluond keeps the recorded computation on the server and makes no Symbol of it; "
        "write the computation with mx.sym, or hybridize a HybridBlock, to have one"
    )
