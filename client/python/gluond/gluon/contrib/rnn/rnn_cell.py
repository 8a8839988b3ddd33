"""Recurrent cells that MXNet kept in `gluon.contrib.rnn`."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from .... import ndarray, symbol
from ....symbol.symbol import Symbol
from ...rnn import steps
from ...rnn.combined_cells import BidirectionalCell, ModifierCell
from ...rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell

__all__ = ["VariationalDropoutCell", "LSTMPCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps: of the inputs, the first state, and the outputs (Gal and Ghahramani, 2016)."""

    def __init__(self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0) -> None:
        if drop_states and isinstance(base_cell, BidirectionalCell):
            raise AssertionError(
                "BidirectionalCell doesn't support variational state dropout. Please add "
                "VariationalDropoutCell to the cells underneath instead."
            )
        super().__init__(base_cell)
        self._rates = {"inputs": drop_inputs, "states": drop_states, "outputs": drop_outputs}
        self._masks: Dict[str, Any] = {}

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """New masks for the next sequence."""
        super().reset()
        self._masks = {}

    def _drop(self, F: Any, what: str, x: Any) -> Any:  # noqa: N803
        if not self._rates[what]:
            return x
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(x), p=self._rates[what])
        return x * self._masks[what]

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # noqa: N803
        """(output, states) of one step."""
        states = list(states)
        states[0] = self._drop(F, "states", states[0])
        output, after = self.base_cell(self._drop(F, "inputs", inputs), states)
        return self._drop(F, "outputs", output), after

    def __repr__(self) -> str:
        rates = self._rates
        return (
            f"{type(self).__name__}(p_out = {rates['outputs']}, p_state = {rates['states']}, p_in = "
            f"{rates['inputs']}, {self.base_cell!r})"
        )


class LSTMPCell(HybridRecurrentCell):
    """LSTMCell whose output and h are projected to `projection_size` numbers (Sak et al., 2014)."""

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._projection_size = projection_size
        size = 4 * hidden_size
        for name, shape, init in (
            ("i2h_weight", (size, input_size), i2h_weight_initializer),
            ("h2h_weight", (size, projection_size), h2h_weight_initializer),
            ("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer),
            ("i2h_bias", (size,), i2h_bias_initializer),
            ("h2h_bias", (size,), h2h_bias_initializer),
        ):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """(N, projection_size) and (N, hidden_size)."""
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in (self._projection_size, self._hidden_size)]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape  # type: ignore[attr-defined]
        return f"{type(self).__name__}({columns or None} -> {rows} -> {self._projection_size})"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **weights: Any) -> Any:  # noqa: N803
        """(N, C), [r, c] -> (r', [r', c'])."""
        return steps.lstmp(F, inputs, states, self._hidden_size, self._projection_size, self._named, **weights)

    def _named(self, part: str) -> str:
        return f"t{self._counter}_{part}"


def dynamic_unroll(
    cell: RecurrentCell,
    inputs: Any,
    begin_state: Sequence[Any],
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> Tuple[Any, List[Any]]:
    """Runs a cell over all steps of the inputs, however many: (outputs, last states). See `contrib.foreach`.

    With `valid_length` (N,), outputs are 0 beyond it, and the last states are those after it. drop_inputs, drop_outputs: rates of
    dropouts with one mask for all steps.
    """
    F: Any = symbol if isinstance(inputs, Symbol) else ndarray  # noqa: N806
    axis = layout.find("T")
    inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,)) if drop_inputs else inputs
    inputs = inputs if axis == 0 else F.swapaxes(inputs, dim1=0, dim2=1)

    def step(data: Any, states: List[Any]) -> Tuple[Any, List[Any]]:
        *states, number = states
        output, new = cell(data, states)
        if valid_length is not None:
            is_valid = F.broadcast_greater(valid_length, number)
            new = [F.where(is_valid, each, before) for each, before in zip(new, states)]
        return output, [*new, number + 1]

    outputs, states = F.contrib.foreach(step, inputs, [*begin_state, F.zeros((1,))])
    outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,)) if drop_outputs else outputs
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, valid_length, use_sequence_length=True, axis=0)
    return outputs if axis == 0 else F.swapaxes(outputs, dim1=0, dim2=1), states[:-1]
