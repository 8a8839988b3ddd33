"""Cells made of cells: in a row, in both directions, with dropout, zoneout or a residual connection."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ... import ndarray
from .recurrent_cell import HybridRecurrentCell, RecurrentCell
from .sequences import Tensor, arrange, begin_states, join_steps, mask_steps, module_of, reverse_steps, split_steps


class _CellOfCells(RecurrentCell):
    """A cell whose states are those of all its cells, in one list."""

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """The states of all cells."""
        return [info for cell in self._children.values() for info in cell.state_info(batch_size)]  # type: ignore

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any) -> List[Any]:
        """The states of all cells."""
        if self._modified:
            return super().begin_state(batch_size, func, **kwargs)
        cells: Any = self._children.values()
        return [state for cell in cells for state in cell.begin_state(batch_size=batch_size, func=func, **kwargs)]


class _CellRow(_CellOfCells):
    """Cells one above the other."""

    def add(self, cell: RecurrentCell) -> None:
        """Puts a cell on top."""
        self.register_child(cell)

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, index: int) -> Any:
        return list(self._children.values())[index]

    def _shares(self, states: Sequence[Any]) -> List[Tuple[Any, List[Any]]]:
        """Each cell with its part of the states."""
        shares, begin = [], 0
        for cell in self._children.values():
            end = begin + len(cell.state_info())  # type: ignore[attr-defined]
            shares.append((cell, list(states[begin:end])))
            begin = end
        return shares

    def _step(self, inputs: Any, states: Sequence[Any]) -> Any:
        self._counter += 1
        after: List[Any] = []
        for cell, share in self._shares(states):
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("A BidirectionalCell in a row of cells cannot be stepped. Please use unroll")
            inputs, share = cell(inputs, share)
            after.extend(share)
        return inputs, after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[Sequence[Tensor]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
        valid_length: Optional[Tensor] = None,
    ) -> Tuple[Any, List[Any]]:
        """Unrolls one cell after the other; see RecurrentCell.unroll."""
        self.reset()
        steps: Any = split_steps(length, inputs, layout)
        states = begin_state if begin_state is not None else begin_states(self, steps[0])
        after: List[Any] = []
        last = len(self._children) - 1
        for i, (cell, share) in enumerate(self._shares(states)):
            steps, share = cell.unroll(length, steps, share, layout, merge_outputs if i == last else None, valid_length)
            after.extend(share)
        return steps, after


class SequentialRNNCell(_CellRow):
    """Cells one above the other."""

    def __call__(self, inputs: Any, states: Any) -> Any:
        return self._step(inputs, states)


class HybridSequentialRNNCell(_CellRow, HybridRecurrentCell):  # type: ignore[misc]
    """Hybrid cells one above the other."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # noqa: N803
        """(N, C), all states -> (output, all states)."""
        self._counter -= 1  # `forward` has counted this step already.
        return self._step(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout of its input, without states; along `axes` the same values are dropped."""

    def __init__(self, rate: float, axes: Sequence[int] = (), prefix: Optional[str] = None, params: Any = None) -> None:
        if not isinstance(rate, (int, float)):
            raise AssertionError("rate must be a number")
        super().__init__(prefix, params)
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def _alias(self) -> str:
        return "dropout"

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """None."""
        return []

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # noqa: N803
        """(N, C) -> (N, C)."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=tuple(self._axes), name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[Sequence[Tensor]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
        valid_length: Optional[Tensor] = None,
    ) -> Tuple[Any, List[Any]]:
        """Drops from the whole sequence at once, if it is given as one tensor."""
        self.reset()
        if isinstance(inputs, (list, tuple)):
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        out, states = self.hybrid_forward(module_of(inputs), inputs, list(begin_state or []))
        return arrange(out, length, layout, merge_outputs), states


class ModifierCell(HybridRecurrentCell):
    """Base class of cells that change another cell's results; its parameters are that cell's."""

    def __init__(self, base_cell: Any) -> None:
        if base_cell._modified:
            raise AssertionError(f"Cell {base_cell.name} is already modified. One cell cannot be modified twice")
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """The base cell's."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """The base cell's."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any) -> List[Any]:
        """The base cell's."""
        if self._modified:
            return super().begin_state(batch_size, func, **kwargs)
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(batch_size=batch_size, func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


class ZoneoutCell(ModifierCell):
    """In training keeps each output with probability `zoneout_outputs`, each state with `zoneout_states`, as it was."""

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError(
                "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add "
                "ZoneoutCell to the cells underneath instead."
            )
        if isinstance(base_cell, _CellRow):
            raise AssertionError(
                "A row of cells doesn't support zoneout. Please add ZoneoutCell to the cells " "underneath instead."
            )
        super().__init__(base_cell)
        self._zoneout_outputs = zoneout_outputs
        self._zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self._zoneout_outputs}, p_state={self._zoneout_states}, " f"{self.base_cell!r})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Forgets the last output."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # noqa: N803
        """(output, states) of one step."""
        output, after = self.base_cell(inputs, states)
        if self._zoneout_outputs != 0:
            before = self._prev_output if self._prev_output is not None else F.zeros_like(output)
            output = _zoned(F, self._zoneout_outputs, output, before)
        if self._zoneout_states != 0:
            after = [_zoned(F, self._zoneout_states, new, old) for new, old in zip(after, states)]
        self._prev_output = output
        return output, after


def _zoned(F: Any, rate: float, new: Any, old: Any) -> Any:  # noqa: N803
    """`new`, or with probability `rate` `old`. Dropout of ones says which, and only in training."""
    return F.where(F.Dropout(F.ones_like(new), p=rate), new, old)


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # noqa: N803
        """(output + input, states)."""
        output, states = self.base_cell(inputs, states)
        return output + inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[Sequence[Tensor]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
        valid_length: Optional[Tensor] = None,
    ) -> Tuple[Any, List[Any]]:
        """Unrolls the base cell, and adds the inputs, those beyond `valid_length` as zeros."""
        self.reset()
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.base_cell._modified = True
        whole = not isinstance(outputs, (list, tuple))
        steps: Any = split_steps(length, inputs, layout)
        if valid_length is not None:
            steps = mask_steps(steps, valid_length, layout)
            steps = steps if whole else split_steps(length, steps, layout)
        elif whole:
            steps = join_steps(steps, layout)
        return (outputs + steps if whole else [out + step for out, step in zip(outputs, steps)]), states


class BidirectionalCell(_CellOfCells, HybridRecurrentCell):  # type: ignore[misc]
    """One cell from the first step to the last and one back; outputs are concatenated. Only `unroll`, no single step."""

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:
        raise NotImplementedError("Bidirectional cell cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        cells = self._children
        return f"{type(self).__name__}(forward={cells['l_cell']!r}, backward={cells['r_cell']!r})"

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[Sequence[Tensor]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
        valid_length: Optional[Tensor] = None,
    ) -> Tuple[Any, List[Any]]:
        """Outputs of twice the size; see RecurrentCell.unroll."""
        self.reset()
        steps = split_steps(length, inputs, layout)
        states = list(begin_state) if begin_state is not None else begin_states(self, steps[0])
        left, right = self._children["l_cell"], self._children["r_cell"]
        count = len(left.state_info())  # type: ignore[attr-defined]
        forth, states_left = left.unroll(length, steps, states[:count], layout, False, valid_length)  # type: ignore
        backwards = reverse_steps(steps, valid_length)
        back, states_right = right.unroll(length, backwards, states[count:], layout, False, valid_length)  # type: ignore
        F = module_of(steps[0])  # noqa: N806
        outputs: Any = [
            F.concat(left_out, right_out, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (left_out, right_out) in enumerate(zip(forth, reverse_steps(back, valid_length)))
        ]
        if valid_length is not None:
            outputs = mask_steps(outputs, valid_length, layout)
        return arrange(outputs, length, layout, merge_outputs), list(states_left) + list(states_right)
