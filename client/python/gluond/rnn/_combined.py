"""Cells made of cells, in a row and in both directions, and dropout between them."""
from __future__ import annotations

import numbers
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import symbol
from ..symbol.symbol import Symbol
from ._recurrent_cell import Arrays, BaseRNNCell, RNNParams, Steps, arranged


class _SymbolCellOfCells(BaseRNNCell):
    """A cell whose parameters and states are those of all its cells. `params`: the cells take these, not their own."""

    def __init__(self, params: Optional[RNNParams]) -> None:
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        self._cells: List[BaseRNNCell] = []

    def _take(self, *cells: BaseRNNCell) -> None:
        if self._override_cell_params and not all(cell._own_params for cell in cells):
            raise AssertionError(f"Either specify params for {type(self).__name__} or child cells, not both.")
        for cell in cells:
            if self._override_cell_params:
                cell.params._params.update(self.params._params)
            self.params._params.update(cell.params._params)
            self._cells.append(cell)

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """The states of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> List[Symbol]:
        """The initial states of all cells."""
        self._expect_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Arrays) -> Arrays:
        """The weights of all cells, one after the other."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """The reverse of `unpack_weights`."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _shares(self, states: List[Symbol]) -> List[Tuple[BaseRNNCell, List[Symbol]]]:
        """Each cell with its part of the states."""
        shares, begin = [], 0
        for cell in self._cells:
            end = begin + len(cell.state_info)
            shares.append((cell, states[begin:end]))
            begin = end
        return shares


class SequentialRNNCell(_SymbolCellOfCells):
    """Cells one above the other."""

    def __init__(self, params: Optional[RNNParams] = None) -> None:
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Puts a cell on top."""
        self._take(cell)

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        self._counter += 1
        after: List[Symbol] = []
        for cell, share in self._shares(states):
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("A BidirectionalCell in a row of cells cannot be stepped. Please use unroll")
            inputs, share = cell(inputs, share)
            after += share
        return inputs, after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """Unrolls one cell after the other; see BaseRNNCell.unroll."""
        self.reset()
        after: List[Any] = []
        for cell, share in self._shares(self.begin_state() if begin_state is None else begin_state):
            inputs, share = cell.unroll(
                length,
                inputs=inputs,
                begin_state=share,
                layout=layout,
                merge_outputs=merge_outputs if cell is self._cells[-1] else None,
            )
            after += share
        return inputs, after


class DropoutCell(BaseRNNCell):
    """Dropout of its input, without states."""

    def __init__(self, dropout: float, prefix: str = "dropout_", params: Optional[RNNParams] = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, numbers.Real):
            raise AssertionError("dropout probability must be a number")
        self.dropout: float = dropout

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """None."""
        return []

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        return (symbol.Dropout(data=inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """Drops from the whole sequence at once, if it is one symbol."""
        self.reset()
        inputs, _ = arranged(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class BidirectionalCell(_SymbolCellOfCells):
    """One cell from the first step to the last and one back; outputs are concatenated. Only `unroll`, no step."""

    def __init__(
        self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: Optional[RNNParams] = None, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(params)
        self._output_prefix = output_prefix
        self._take(l_cell, r_cell)

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """(outputs of twice the size, [the states of the one cell, the states of the other])."""
        self.reset()
        steps, axis = arranged(length, inputs, layout, False)
        begin = self.begin_state() if begin_state is None else begin_state
        (left, left_states), (right, right_states) = self._shares(begin)
        forth, left_states = left.unroll(length, inputs=steps, begin_state=left_states, layout=layout, merge_outputs=merge_outputs)
        back, right_states = right.unroll(
            length, inputs=list(reversed(steps)), begin_state=right_states, layout=layout, merge_outputs=merge_outputs
        )
        states = [left_states, right_states]
        if isinstance(forth, Symbol) and isinstance(back, Symbol):
            back = symbol.reverse(back, axis=axis)
            return symbol.Concat(forth, back, dim=2, name=f"{self._output_prefix}out"), states
        each = zip(_as_steps(forth, axis, length), reversed(_as_steps(back, axis, length)))
        return [
            symbol.Concat(one, other, dim=1, name=f"{self._output_prefix}t{place}") for place, (one, other) in enumerate(each)
        ], states


def _as_steps(outputs: Steps, axis: int, length: int) -> List[Symbol]:
    if isinstance(outputs, Symbol):
        parts: Any = {"num_outputs": length, "squeeze_axis": 1}
        return list(symbol.SliceChannel(outputs, axis=axis, **parts))
    return outputs
