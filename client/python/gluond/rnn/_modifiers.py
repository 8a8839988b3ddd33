"""Cells around another cell: zoneout and a residual connection."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import symbol
from ..symbol.symbol import Symbol
from ._recurrent_cell import Arrays, BaseRNNCell, RNNParams, Steps, arranged
from ._combined import BidirectionalCell, SequentialRNNCell
from ._fused import FusedRNNCell


class ModifierCell(BaseRNNCell):
    """Base class of cells that change another cell's results; its parameters are those of that cell."""

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The base cell's."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """The base cell's."""
        return self.base_cell.state_info

    def begin_state(self, init_sym: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> List[Symbol]:  # type: ignore[override]
        """The base cell's; `init_sym` is its `func`."""
        self._expect_unmodified()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(**{"func": init_sym, **kwargs})
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Arrays) -> Arrays:
        """The base cell's."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Arrays) -> Arrays:
        """The base cell's."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """In training keeps each output with probability `zoneout_outputs`, each state with `zoneout_states`, as it was."""

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, FusedRNNCell):
            raise AssertionError("FusedRNNCell doesn't support zoneout. Please unfuse first.")
        if isinstance(base_cell, (BidirectionalCell, SequentialRNNCell)):
            raise AssertionError(
                f"{type(base_cell).__name__} doesn't support zoneout since it doesn't support step. "
                "Please add ZoneoutCell to the cells underneath instead."
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self.prev_output: Optional[Symbol] = None

    def reset(self) -> None:
        """Forgets the last output."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        output, after = self.base_cell(inputs, states)
        before = self.prev_output if self.prev_output is not None else symbol.zeros((0, 0))
        if self.zoneout_outputs != 0:
            output = _zoned(self.zoneout_outputs, output, before)
        if self.zoneout_states != 0:
            after = [_zoned(self.zoneout_states, new, old) for new, old in zip(after, states)]
        self.prev_output = output
        return output, after


def _zoned(rate: float, new: Symbol, old: Symbol) -> Symbol:
    """`new`, or with probability `rate` `old`. Dropout of ones says which, and only in training."""
    return symbol.where(symbol.Dropout(symbol.ones_like(new), p=rate), new, old)


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        output, states = self.base_cell(inputs, states)
        return _with_residual(output, inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """Unrolls the base cell, and adds the inputs."""
        self.reset()
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(
            length, inputs=inputs, begin_state=begin_state, layout=layout, merge_outputs=merge_outputs
        )
        self.base_cell._modified = True
        inputs, _ = arranged(length, inputs, layout, isinstance(outputs, Symbol))
        if isinstance(outputs, Symbol):
            return _with_residual(outputs, inputs), states
        return [_with_residual(output, step) for output, step in zip(outputs, inputs)], states


def _with_residual(output: Symbol, inputs: Symbol) -> Symbol:
    return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
