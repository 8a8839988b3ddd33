"""Sequences of steps, for arrays and Symbols alike: splitting, joining, masking steps beyond the valid length."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

from ... import ndarray, symbol
from ..._array.array import NDArray
from ...symbol.symbol import Symbol

Tensor = Union[NDArray, Symbol]


def module_of(tensor: Tensor) -> Any:
    """`nd` or `sym`."""
    return symbol if isinstance(tensor, Symbol) else ndarray


def split_steps(length: Optional[int], inputs: Any, layout: str) -> List[Tensor]:
    """The steps, (N, ...) each, of one tensor of `layout` ('NTC' or 'TNC'), or of a list of them."""
    if isinstance(inputs, (list, tuple)):
        if length is not None and len(inputs) != length:
            raise AssertionError(f"unroll: {len(inputs)} inputs are given for a length of {length}")
        return list(inputs)
    axis = layout.find("T")
    if isinstance(inputs, Symbol):
        if len(inputs.list_outputs()) != 1:
            raise AssertionError(
                "unroll doesn't allow grouped symbol as input. Please convert to list with "
                "list(inputs) first or let unroll handle splitting."
            )
        steps = length
    else:
        steps = inputs.shape[axis]
        if length is not None and length != steps:
            raise AssertionError(
                f"unroll: the inputs of shape {inputs.shape} have {steps} steps on axis {axis} of " f"layout {layout}, not {length}"
            )
    parts = module_of(inputs).split(inputs, axis=axis, num_outputs=steps, squeeze_axis=True)
    if isinstance(parts, Symbol):
        return [parts[i] for i in range(len(parts.list_outputs()))]
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def join_steps(steps: Sequence[Tensor], layout: str) -> Tensor:
    """One tensor of `layout`."""
    return module_of(steps[0]).stack(*steps, axis=layout.find("T"))


def arrange(outputs: Any, length: int, layout: str, merge: Optional[bool]) -> Any:
    """One tensor (merge True), a list of steps (False), or either as it is (None)."""
    whole = not isinstance(outputs, (list, tuple))
    if merge is True and not whole:
        return join_steps(outputs, layout)
    if merge is False and whole:
        return split_steps(length, outputs, layout)
    return outputs


def mask_steps(outputs: Any, valid_length: Tensor, layout: str) -> Tensor:
    """One tensor of `layout`, with zeros from step `valid_length` (N,) on."""
    whole = join_steps(outputs, layout) if isinstance(outputs, (list, tuple)) else outputs
    return module_of(whole).SequenceMask(whole, sequence_length=valid_length, use_sequence_length=True, axis=layout.find("T"))


def reverse_steps(steps: Sequence[Tensor], valid_length: Optional[Tensor]) -> List[Tensor]:
    """The steps from the last valid one to the first; those beyond stay where they are."""
    if valid_length is None:
        return list(reversed(steps))
    F = module_of(steps[0])  # noqa: N806
    reversed_ = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return split_steps(len(steps), reversed_, "TNC")


def zeros_for(like: Tensor, shape: Sequence[int], batch_axis: int, like_axis: int) -> Tensor:
    """Zeros of `shape`, but along `batch_axis` as many as `like` (N, C, ...) or (T, N, C) has on `like_axis`.

    The size of the batch need not be known, as it is not in a graph, and of an array that only the server knows.
    """
    known = like._shape if isinstance(like, NDArray) else None
    if known and known[like_axis] != 0 and like._dtype is not None:  # `zeros` takes 0 for an unknown size.
        sizes = (known[like_axis] if axis == batch_axis else size for axis, size in enumerate(shape))
        return ndarray.zeros(tuple(sizes), like.context, like.dtype)
    F = module_of(like)  # noqa: N806
    rank = 3 if like_axis == 1 else 2
    row = like if rank == 3 else F.reshape(like, shape=(0, -1))
    for axis in range(rank):
        if axis != like_axis:
            row = F.slice_axis(row, axis=axis, begin=0, end=1)
    column = F.reshape(F.zeros_like(row), shape=tuple(-1 if axis == batch_axis else 1 for axis in range(len(shape))))
    others = tuple(axis for axis in range(len(shape)) if axis != batch_axis)
    return F.broadcast_axis(column, axis=others, size=tuple(shape[axis] for axis in others))


def begin_states(cell: Any, like: Tensor) -> List[Tensor]:
    """Zeros for a cell's states, for the batch of a step `like` (N, ...)."""
    return cell.begin_state(func=lambda shape, **_: zeros_for(like, shape, 0, 0))


def last_valid(states: Sequence[Sequence[Tensor]], valid_length: Tensor) -> List[Tensor]:
    """The states after the last valid step, from the states after each step."""
    F = module_of(states[0][0])  # noqa: N806
    return [
        F.SequenceLast(F.stack(*each, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
        for each in zip(*states)
    ]
