"""BaseRNNCell: one step of a recurrent network as symbols, its parameters, and how steps are unrolled."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .. import ndarray, symbol
from .._array.array import NDArray
from ..symbol.symbol import Symbol

Arrays = Dict[str, NDArray]
Steps = Union[Symbol, List[Symbol]]


class RNNParams:
    """Variables by name, all of which begin with `prefix`. Cells that are given the same one share their parameters."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: Dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable `prefix` + `name`. kwargs: of sym.Variable, where it is not there yet."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """Base class of cells: `output, states = cell(input, states)` makes the symbols of one step, from an input (N, C).

    `prefix` begins the names of the step's symbols and, where no `params` are given, of the parameters.
    """

    _cells: Sequence["BaseRNNCell"] = ()  # The cells that it is made of.

    def __init__(self, prefix: str = "", params: Optional[RNNParams] = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Before another graph: the counts of steps and of states, which names have, begin anew."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._cells:
            cell.reset()

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        raise NotImplementedError()

    @property
    def params(self) -> RNNParams:
        """The parameters. A cell whose parameters were asked for may share them."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """Shape and layout of each state; the batch size, 0, is inferred."""
        raise NotImplementedError()

    @property
    def state_shape(self) -> List[Tuple[int, ...]]:
        """The shapes of the states."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        """The gates' parts of their own weights' names; a cell without parameters has none."""
        return ()

    def _expect_unmodified(self) -> None:
        if self._modified:
            raise AssertionError(
                "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called "
                "directly. Call the modifier cell instead."
            )

    def begin_state(self, func: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> List[Symbol]:
        """The initial states, `func(name=..., shape=..., **kwargs)` for each: zeros, or a Variable to feed them."""
        self._expect_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**kwargs, **(info or {})}))
        return states

    def unpack_weights(self, args: Arrays) -> Arrays:
        """`args` with a weight and a bias for each gate, `lstm_i2h_f_weight`, instead of those of all gates."""
        args = dict(args)
        for source, kind in self._packed():
            packed = args.pop(f"{self._prefix}{source}_{kind}")
            hidden = packed.shape[0] // len(self._gate_names)
            for place, gate in enumerate(self._gate_names):
                args[f"{self._prefix}{source}{gate}_{kind}"] = packed[place * hidden : (place + 1) * hidden].copy()
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """The reverse of `unpack_weights`."""
        args = dict(args)
        for source, kind in self._packed():
            gates = [args.pop(f"{self._prefix}{source}{gate}_{kind}") for gate in self._gate_names]
            args[f"{self._prefix}{source}_{kind}"] = ndarray.concatenate(gates)
        return args

    def _packed(self) -> List[Tuple[str, str]]:
        """The parameters that consist of gates; of a cell without gates none."""
        if not self._gate_names:
            return []
        return [(source, kind) for source in ("i2h", "h2h") for kind in ("weight", "bias")]

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """Makes `length` steps: (outputs, last states).

        inputs: one symbol of `layout`, or a list of steps (N, C). outputs: one symbol of that layout with
        `merge_outputs`, else a list of steps.
        """
        self.reset()
        steps, _ = arranged(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for place in range(length):
            output, states = self(steps[place], states)
            outputs.append(output)
        return arranged(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        """The activation, a name that `Activation` takes, or a function. kwargs: the symbol's name."""
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


def arranged(length: Optional[int], inputs: Any, layout: str, merge: Optional[bool]) -> Tuple[Any, int]:
    """(one symbol of `layout` if `merge`, a list of steps if it is False, or either as it is; the axis of steps)."""
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    axis = layout.find("T")
    if isinstance(inputs, Symbol):
        if merge is False:
            if len(inputs.list_outputs()) != 1:
                raise AssertionError(
                    "unroll doesn't allow grouped symbol as input. Please convert to list with "
                    "list(inputs) first or let unroll handle splitting."
                )
            inputs = split(inputs, axis, length)
    else:
        if length is not None and len(inputs) != length:
            raise AssertionError(f"unroll: {len(inputs)} inputs are given for a length of {length}")
        if merge is True:
            inputs = symbol.Concat(*[symbol.expand_dims(step, axis=axis) for step in inputs], dim=axis)
    return inputs, axis


def split(inputs: Symbol, axis: int, length: Optional[int]) -> List[Symbol]:
    """The steps along an axis, without it."""
    parts: Any = {"num_outputs": length, "squeeze_axis": 1}  # As MXNet writes it. None is refused.
    return list(symbol.split(inputs, axis=axis, **parts))
