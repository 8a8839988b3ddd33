"""RecurrentCell: one step of a recurrent network, and how steps are unrolled."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ... import ndarray, symbol
from .._block import Block
from .._hybrid_block import HybridBlock
from .sequences import Tensor, arrange, begin_states, last_valid, mask_steps, split_steps


class RecurrentCell(Block):
    """Base class of cells: `output, states = cell(input, states)` computes one step."""

    def __init__(self, prefix: Optional[str] = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def __repr__(self) -> str:
        lines = "\n".join(f"  ({key}): {block!r}" for key, block in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def reset(self) -> None:
        """Before a sequence: step and state counts begin anew. `unroll` does it."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            cell.reset()  # type: ignore[attr-defined]

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any) -> List[Any]:
        """Initial states: `func(shape=..., **kwargs)` for each; zeros by default."""
        if self._modified:
            raise AssertionError(
                "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called "
                "directly. Call the modifier cell instead."
            )
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            arguments = {"shape": info["shape"], **kwargs}
            if getattr(func, "__module__", "").startswith(symbol.__name__):
                arguments["name"] = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(**arguments))
        return states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:  # noqa: N803
        """The activation, a name that `Activation` takes, or a Block. `kwargs` are the operator's, as its `name`."""
        return F.Activation(inputs, act_type=activation, **kwargs) if isinstance(activation, str) else activation(inputs)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[Sequence[Tensor]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
        valid_length: Optional[Tensor] = None,
    ) -> Tuple[Any, List[Any]]:
        """Runs `length` steps: (outputs, last states).

        inputs: one tensor of `layout`, or a list of steps (N, C). outputs: one tensor of that layout if
        `merge_outputs`, a list if it is False. With `valid_length` (N,), outputs are 0 beyond it, and the last states are
        those after it.
        """
        self.reset()
        steps = split_steps(length, inputs, layout)
        states = list(begin_state) if begin_state is not None else begin_states(self, steps[0])
        outputs, seen = [], []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
            seen.append(states)
        whole: Any = outputs
        if valid_length is not None:
            states = last_valid(seen, valid_length)
            whole = mask_steps(outputs, valid_length, layout)
        return arrange(whole, length, layout, merge_outputs), states

    def __call__(self, inputs: Any, states: Any) -> Any:
        return super().__call__(inputs, states)

    def forward(self, inputs: Any, states: Any) -> Any:
        """(output, states) of one step; input (N, C)."""
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):  # type: ignore[misc]  # A cell gets states, too.
    """A cell whose step is `hybrid_forward(F, inputs, states, ...)`; it gives (output, states)."""
