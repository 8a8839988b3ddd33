"""Steps of optimizers that the server has, too: it steps all weights by one command, with the bits of `update`.

The states stay arrays of this program, under their own names. The server learns of the optimizer again where an attribute, a
multiplier or an array has changed.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import ndarray
from .._array import calls
from .._array.array import NDArray
from .._wire.frame import frame
from .._wire.optimizers import SessionOptimizer, Weight

# Attributes that the server takes as shares only, and those that may be of any size. Others are not negative.
_SHARES = frozenset(("beta1", "beta2", "gamma1", "gamma2", "rho"))
_ANY = frozenset(("eta", "lamda", "beta", "clip_weights", "lower_bound", "upper_bound"))
# The methods of an optimizer that say what a step is. A class that changes one steps for itself.
_DECIDING = frozenset(
    ("update", "update_multi_precision", "create_state", "create_state_multi_precision")
    + ("_get_lr", "_get_wd", "_update_count", "_note_step", "_begin", "_call", "_clip", "_clipped", "_scaled")
)


_HALF, _FULL = np.dtype("float16"), (np.dtype("float32"), np.dtype("float64"))


class ServerKind(NamedTuple):
    """An optimizer of the server. states: names of the arrays of create_state(), in order. number: a table of numbers by index
    that is a state there. is_composed: it computes 16 bits in float32 where `update` does not."""

    name: str
    attributes: Dict[str, str] = {}  # Members, by the attribute's name.
    states: Tuple[str, ...] = ()
    number: str = ""
    is_composed: bool = False
    steps: bool = True  # Whether its steps have the bits of `update`.


class ServerStep(NamedTuple):
    """A step of one weight, which is counted. before, after: its number in ServerKind.number."""

    index: Any
    weight: NDArray
    grad: NDArray
    states: Dict[str, NDArray]
    update: int
    learning_rate: float
    before: float
    after: float


class _Defined(NamedTuple):
    on_server: SessionOptimizer
    name: str
    attributes: Dict[str, Any]
    weights: List[Weight]
    failures: int  # The session's: the definition may have failed since.


def named_states(of: Any, state: Any, is_half: bool) -> Dict[str, NDArray]:
    """The arrays of one weight's state by the server's names. Requires: the server has such an optimizer."""
    found: Dict[str, NDArray] = {}
    if is_half and of.multi_precision:
        # SGD keeps the weight in float32 behind its own state, the others before it.
        state, found["weight32"] = state if of._keeps_weight_last else (state[1], state[0])
    parts = state if isinstance(state, tuple) else (state,)
    found.update({key: part for key, part in zip(of._on_server.states, parts) if part is not None})
    return found


def keeps_number(of: Any) -> bool:
    """Whether the server has a number of each weight among the states."""
    return bool(of._on_server.number) and (of._on_server.name != "lars" or of.momentum_correction and of.momentum != 0)


def _attributes(of: Any) -> Optional[Dict[str, Any]]:
    """The attributes for the server; None: one of them is nothing that it takes."""
    found: Dict[str, Any] = {"multi_precision": bool(of.multi_precision)}
    members = {"wd": "wd", "clip_gradient": "clip_gradient", **of._on_server.attributes}
    for key, member in members.items():
        value = getattr(of, member)
        if value is None:
            continue
        if not isinstance(value, (bool, int, float, np.number)):
            return None
        if isinstance(value, bool):
            found[key] = value
            continue
        found[key] = value = float(value)
        if not np.isfinite(value) or key not in _ANY and (key != "clip_gradient" and value < 0 or key in _SHARES and value > 1):
            return None
    return found


class ServerSteps:
    """The steps of one updater's weights by the server."""

    def __init__(self) -> None:
        self._defined: Dict[Any, _Defined] = {}  # By device.
        # By index: the number as the last step has left it, and the session's failures.
        self._numbers: Dict[Any, Tuple[NDArray, float, int]] = {}
        # The optimizer that was taken over last: its attributes, and the states of a weight of more than 16 bits.
        self._attributes: Optional[Dict[str, Any]] = None
        self._states: List[str] = []

    def __reduce__(self) -> Any:
        """A copy of an updater defines its optimizer anew: arrays are others, and in another process the session is."""
        return ServerSteps, ()

    def take_over(self, of: Any, weight: NDArray) -> bool:
        """Whether the server steps the weights of this optimizer. weight: any of them."""
        kind = of._on_server
        if kind is None or not kind.steps or not _DECIDING.isdisjoint(vars(of)):
            return False
        for base in type(of).__mro__:
            if "_on_server" in vars(base):
                break
            if not _DECIDING.isdisjoint(vars(base)):
                return False
        self._attributes = _attributes(of)
        if self._attributes is None or kind.is_composed and of.clip_gradient is not None and of.clip_gradient <= 0:
            return False
        missing = ["mom"] if getattr(of, "momentum", None) == 0 else []
        missing += ["g", "delta"] if getattr(of, "centered", True) is False else []
        self._states = [name for name in kind.states if name not in missing]
        return not (kind.name == "groupadagrad" and of.wd) and "optimizers" in weight._session.features

    def states(self, of: Any, weight: NDArray, state: Any) -> Optional[Dict[str, NDArray]]:
        """The states by their names, where the server steps this weight, too; else None. Requires: take_over()."""
        dtype = weight._dtype or np.dtype(weight.dtype)
        is_half = dtype is _HALF
        if dtype not in _FULL and not (is_half and (of.multi_precision or not of._on_server.is_composed)):
            return None
        found = named_states(of, state, is_half)
        # It may have been made with other attributes.
        return found if self._states == [name for name in found if name != "weight32"] else None

    def begin(self, of: Any, index: Any, weight: NDArray, grad: NDArray, states: Dict[str, NDArray]) -> ServerStep:
        """Counts a step. Requires: states() gave these."""
        count, table = of._update_count(index), of._on_server.number
        if not table:
            return ServerStep(index, weight, grad, states, count, float(of.learning_rate), 0.0, 0.0)
        numbers = getattr(of, table)
        before = numbers.get(index, 0.0)
        of._note_step(index, count)
        return ServerStep(index, weight, grad, states, count, float(of.learning_rate), before, numbers[index])

    def run(self, of: Any, steps: Sequence[ServerStep], only_fresh: bool = False) -> None:
        """Takes the steps. Requires: no weight is in two. only_fresh: all gradients must be fresh, and none is afterwards."""
        places: Dict[Any, List[ServerStep]] = {}
        for step in steps:
            places.setdefault((step.weight._session, step.weight._context), []).append(step)
        for (session, context), alike in places.items():
            self._run(of, session, context, alike, only_fresh)

    def _run(self, of: Any, session: Any, context: Any, steps: Sequence[ServerStep], only_fresh: bool) -> None:
        weights: List[Weight] = []
        read: List[NDArray] = []
        written: List[NDArray] = []
        for step in steps:
            states = step.states
            if keeps_number(of):
                states[of._on_server.number] = self._number(session, context, step)
            names = {key: state._name or state._sent() for key, state in states.items()}
            lr_mult = float(of._multiplier(step.index, "lr_mult", of.lr_mult))
            wd_mult = float(of._multiplier(step.index, "wd_mult", of.wd_mult))
            weights.append(Weight(step.weight._name or step.weight._sent(), of._name(step.index), lr_mult, wd_mult, names))
            read.append(step.grad)
            written += (step.weight, *states.values())
        self._check(of, read, written)
        on_server = self._define(of, session, context, weights)
        command = on_server.step(
            [step.learning_rate for step in steps],
            [step.update for step in steps],
            float(of.rescale_grad),
            [grad._name or grad._sent() for grad in read],
            only_fresh,
            frame().when_fresh,
        )
        calls.write(written, lambda: session.submit(command))

    def _check(self, of: Any, read: Sequence[NDArray], written: Sequence[NDArray]) -> None:
        calls.check_together((*written, *read), of._on_server.name)
        for array in written:
            calls.check_writable(array, "write to")
        if frame().recording:
            calls.check_not_in_graph(written, read)

    def _define(self, of: Any, session: Any, context: Any, weights: List[Weight]) -> SessionOptimizer:
        known, name, attributes = self._defined.get(context), of._on_server.name, self._attributes or {}
        if known is not None and known.on_server.session is session:
            if (known.name, known.attributes, known.weights, known.failures) == (name, attributes, weights, session.failures):
                return known.on_server
            on_server = known.on_server
        else:
            on_server = SessionOptimizer(session)
        on_server.define(name, attributes, weights)
        self._defined[context] = _Defined(on_server, name, attributes, weights, session.failures)
        return on_server

    def _number(self, session: Any, context: Any, step: ServerStep) -> NDArray:
        """The array of a weight's number; sent where it is not the one that the last step has left."""
        array, after, failures = self._numbers.get(step.index, (None, 0.0, 0))
        if array is None or array._session is not session or after != step.before or failures != session.failures:
            array = ndarray.array([step.before], ctx=context, dtype="float64")
        self._numbers[step.index] = (array, step.after, session.failures)
        return array
