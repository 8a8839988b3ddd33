"""Recording, marked arrays and backward passes: `autograd`, but for functions that this process computes.

The heads of a backward pass say where it begins: a result of such a function knows how the pass goes on from it
(Place.computed_here).
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from .._proto import command_pb2
from .._wire import encoding
from .._wire.encoding import WHEN_FRESH, number_of
from .._wire.frame import Within, change, frame
from .._wire.operator_errors import OperatorError, short
from .._wire.source_lines import INSIDE
from ..base import MXNetError, WrongValue
from . import calls
from .calls import Array

# grad_req as Variable.GradReq.
_REQUESTS = {"write": 0, "add": 1, "null": 2}


def is_recording() -> bool:
    """Whether the operations of this thread, or coroutine, are recorded."""
    return frame().recording


def is_training() -> bool:
    """Whether operators (Dropout, BatchNorm) are in training mode."""
    return frame().training


def set_recording(is_recording: bool) -> bool:
    """Sets the mode, and returns the one before."""
    before = frame().recording
    change(recording=bool(is_recording))
    return before


def set_training(train_mode: bool) -> bool:
    """Sets the mode, and returns the one before."""
    before = frame().training
    change(training=bool(train_mode))
    return before


def _within(**modes: Optional[bool]) -> Within:
    """None leaves a mode as it is."""
    return Within(**{name: bool(value) for name, value in modes.items() if value is not None})


def record(train_mode: bool = True) -> Within:
    """Records the computations within, for backward(). train_mode: as operators see it."""
    return _within(recording=True, training=train_mode)


def pause(train_mode: bool = False) -> Within:
    """Records nothing within: for computations that need no gradient."""
    return _within(recording=False, training=train_mode)


def train_mode() -> Within:
    """Training mode within; recording stays as it is."""
    return Within(training=True)


def predict_mode() -> Within:
    """Prediction mode within; recording stays as it is."""
    return Within(training=False)


def _check(grad_req: Any) -> None:
    if grad_req not in _REQUESTS:
        raise ValueError(f"grad_req must be one of {', '.join(_REQUESTS)}, not {grad_req!r}")


def _submit(session: Any, field: bytes, command: Any) -> None:
    session.submit(encoding.message(field, command))


def attach(variable: Array, grad_req: str) -> None:
    """NDArray.attach_grad."""
    _check(grad_req)
    gradient = None
    if grad_req != "null":
        gradient = calls.blank(type(variable), variable._session, variable._context, variable._shape, variable._dtype)
    _mark(variable, gradient, grad_req)


def _mark(variable: Array, gradient: Optional[Array], grad_req: str) -> None:
    command = command_pb2.Command.Mark()
    command.arrays.add(
        variable=number_of(variable._sent()),
        request=_REQUESTS[grad_req],
        gradient=None if gradient is None else number_of(gradient._sent()),
    )
    _submit(variable._session, encoding.MARK, command)
    variable._grad = gradient
    variable._grad_req = grad_req
    if gradient is not None:
        gradient._written_by_server()


def mark_variables(variables: Any, gradients: Any, grad_reqs: Union[str, Sequence[str]] = "write") -> None:
    """Asks that backward() computes the gradients of `variables` into `gradients`."""
    if not isinstance(variables, (list, tuple)):
        variables, gradients = [variables], [gradients]
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(variables) == len(gradients) == len(requests):
        raise WrongValue(f"there are {len(variables)} variables, but {len(gradients)} gradients and {len(requests)} grad_reqs")
    for variable, gradient, request in zip(variables, gradients, requests):
        _check(request)
        _mark(variable, gradient, request)


# A gradient is fresh if backward() has written it since it was last used. Only the server knows; only `are_fresh` waits.


def are_fresh(variables: Sequence[Array]) -> List[bool]:
    """Which gradients have been written since the last clear_fresh. Waits for the answer, not for the gradients."""
    command = encoding.fresh([each._sent() for each in variables], encoding.TELL)
    return list(variables[0]._session.request(command).fresh.fresh)


def require_fresh(variables: Sequence[Array]) -> None:
    """An error at the next point of waiting, unless the gradients of all are fresh; it names the first by its index."""
    variables[0]._session.submit(encoding.fresh([each._sent() for each in variables], encoding.REQUIRE))


def clear_fresh(variables: Sequence[Array]) -> None:
    """Marks the gradients as used: they are fresh again after the next backward()."""
    variables[0]._session.submit(encoding.fresh([each._sent() for each in variables], encoding.CLEAR))


def only_if_fresh(variable: Array) -> Within:
    """Within, writes to existing arrays (`out=`, `x[:] = y`, `x += y`, an operator's states) have no effect unless the
    variable's gradient is fresh. New arrays are made in any case."""
    return Within(when_fresh=WHEN_FRESH + variable._sent())


def in_any_case() -> Within:
    """Within, writes have their effect whatever only_if_fresh() is around."""
    return Within(when_fresh=b"")


def begin(heads: Any, head_grads: Any, retain_graph: bool, create_graph: bool = False) -> Tuple[command_pb2.Command.Backward, Any]:
    """A Backward with its heads, and the arrays that it names; the caller keeps these until it has submitted it."""
    if isinstance(heads, Array):
        heads = [heads]
        head_grads = None if head_grads is None else [head_grads]
    heads = list(heads)
    if not heads:
        raise MXNetError("backward needs at least one array to begin at")
    head_grads = [None] * len(heads) if head_grads is None else list(head_grads)
    if len(heads) != len(head_grads):
        raise WrongValue(f"there are {len(heads)} heads, but {len(head_grads)} head gradients")
    calls.check_together(heads + [each for each in head_grads if each is not None], "backward")
    try:
        start_at, skips = (list(zip(heads, head_grads)), False) if create_graph else _starts(heads, head_grads, retain_graph)
    except OperatorError as error:
        raise short(error)
    gradients = [0 if each is None else number_of(each._sent()) for _, each in start_at]
    command = command_pb2.Command.Backward(
        heads=[number_of(each._sent()) for each, _ in start_at],
        retain_graph=retain_graph,
        head_gradients=gradients if any(gradients) else [],
        create_graph=create_graph,
        skip_constants=skips,
    )
    return command, start_at


def _starts(heads: Sequence[Any], gradients: Sequence[Any], retain_graph: bool) -> Tuple[List[Tuple[Any, Any]], bool]:
    """The arrays at which the server begins a backward pass, with their gradients (None: ones); and whether some may
    have no history."""
    found: List[Tuple[Any, Any]] = []
    here: Dict[Any, List[Tuple[Any, Any]]] = {}
    for head, gradient in zip(heads, gradients):
        function = head._where.computed_here(head, gradient)
        (found if function is None else here.setdefault(function, [])).append((head, gradient))
    for function, pairs in here.items():
        found += function.starts(pairs, retain_graph)
    return found, bool(here)


def submit_backward(session: Any, command: command_pb2.Command.Backward) -> None:
    """Has the server compute gradients. Where an error is to be expected, it is waited for, and raised here."""
    is_doubtful = not (_calls_back or frame().called_back) and _is_doubtful(command)
    _submit(session, encoding.BACKWARD, command)
    if _writes_states and not frame().called_back:
        session.wait_all()
    elif is_doubtful:
        for number in command.heads:
            session.describe(encoding.name_of(number))


# Only the server knows whether a head has a history, and to ask it costs a round trip. An error is to be expected where a line
# of the program begins a backward pass for the first time, and at a head whose history has been freed.
# Where functions of the program take part in the pass nobody asks; but the pass is waited for where such a function may write an
# auxiliary state, which the program's next lines read and write.
_calls_back = _writes_states = False


def will_call_back(writes_states: bool) -> None:
    """From now on backward passes may call functions of this program. writes_states: such a function may write auxiliary states."""
    global _calls_back, _writes_states
    _calls_back = True
    _writes_states = _writes_states or writes_states


def _is_doubtful(command: command_pb2.Command.Backward) -> bool:
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and INSIDE[frame.f_code.co_filename]:
        frame = frame.f_back
    is_known = _lines.note((id(frame.f_code), frame.f_lasti))
    for head in command.heads:
        is_known = is_known and head not in _freed
        if not command.retain_graph:
            _freed.note(head)
    return not is_known


class _LastNoted:
    """Some 1,000 to 2,000 keys that were noted last."""

    _HALF = 1024

    def __init__(self) -> None:
        self._new: Set[Any] = set()
        self._old: Set[Any] = set()

    def __contains__(self, key: Any) -> bool:
        return key in self._new or key in self._old

    def note(self, key: Any) -> bool:
        """Whether the key was among them; it is from now on."""
        if key in self:
            return True
        if len(self._new) >= self._HALF:
            self._old, self._new = self._new, set()
        self._new.add(key)
        return False


_lines, _freed = _LastNoted(), _LastNoted()  # Positions in code objects; heads.


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Computes the gradients of sum_i head_grads[i] heads[i] with respect to all marked arrays, into their `grad`.

    heads: arrays (or one) computed while recording. head_grads: default ones. retain_graph: keep what was recorded, for
    another backward(). MXNetError: a head is no result of a recorded computation, or that has been freed.
    """
    heads = heads if isinstance(heads, Array) else list(heads)
    command, named = begin(heads, head_grads, retain_graph)
    command.training = train_mode
    session = heads._session if isinstance(heads, Array) else heads[0]._session
    submit_backward(session, command)
    del named
