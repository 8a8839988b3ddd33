"""Functions that libraries' own cells import from `gluon.rnn.rnn_cell` by private names, with MXNet 1.9.1's arguments and answers."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ... import ndarray
from .sequences import Tensor, join_steps, mask_steps, module_of, split_steps


def format_sequence(
    length: Optional[int], inputs: Any, layout: str, merge: Optional[bool], in_layout: Optional[str] = None
) -> Tuple[Any, int, Any, int]:
    """`inputs` as one tensor of `layout` (merge True), as a list of steps (False), or as it is (None); the axis of time; `nd` or
    `sym`; and the size of the batch, 0 for Symbols. in_layout: the layout that `inputs` have, `layout` unless given."""
    axis, batch_axis, batch_size = layout.find("T"), layout.find("N"), 0
    in_axis = axis if in_layout is None else in_layout.find("T")
    is_list = isinstance(inputs, (list, tuple))
    if is_list:
        inputs = split_steps(length, inputs, layout)
    F = module_of(inputs[0] if is_list else inputs)  # noqa: N806
    if F is ndarray:
        batch_size = inputs[0].shape[0] if is_list else inputs.shape[batch_axis]
    if is_list and merge is True:
        return join_steps(inputs, layout), axis, F, batch_size
    if not is_list and merge is False:
        return split_steps(length, inputs, layout if in_layout is None else in_layout), axis, F, batch_size
    if not is_list and axis != in_axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, F, batch_size


def get_begin_state(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:  # noqa: N803
    """`begin_state`, or zeros where the inputs are."""
    if begin_state is not None:
        return begin_state
    if F is not ndarray:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    with (inputs[0] if isinstance(inputs, (list, tuple)) else inputs).context:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


def mask_sequence_variable_length(
    F: Any, data: Any, length: Optional[int], valid_length: Tensor, time_axis: int, merge: Optional[bool]  # noqa: N803
) -> Any:
    """`data` with zeros from step `valid_length` (N,) on: one tensor if `merge`, else a list of `length` steps."""
    layout = "TNC" if time_axis == 0 else "NTC"
    outputs = mask_steps(data, valid_length, layout)
    return outputs if merge else split_steps(length, outputs, layout)


def cells_state_info(cells: Any, batch_size: int) -> List[Any]:
    """The states of all cells, in order."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def cells_begin_state(cells: Any, **kwargs: Any) -> List[Any]:
    """The first states of all cells, in order."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]
