"""Loops and branches of functions on NDArrays: `nd.contrib.foreach` and the like. Python runs them, call by call."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

from . import calls
from .array import NDArray
from .create import zeros
from .functions import concatenate


def foreach(body: Callable[[Any, Any], Tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """(outputs, states) of `body(slice, states) -> (outputs, states)`, for the slices of `data` along its first dimension.

    data: an NDArray or a list of them. outputs: an NDArray or nested lists of them; those of all slices are stacked.

        step = lambda x, states: (x + states[0], [states[0] * 2])
        outputs, states = nd.contrib.foreach(step, data, [nd.ones((10,))])
    """
    lone = isinstance(data, NDArray)
    for what, value in (("data", data), ("init_states", init_states)):
        if not all(isinstance(each, NDArray) for each in flat(value)):
            raise AssertionError(f"{what} should be an NDArray or a nested list of NDArrays")
    states, outputs = init_states, []
    for i in range(len(data if lone else data[0])):
        out, states = body(data[i] if lone else [each[i] for each in data], states)
        outputs.append(out)
    return _stacked(outputs, 0) if outputs else [], states


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: Any = None,
    name: str = "while_loop",
) -> Any:
    """(outputs, loop_vars) of `func(*loop_vars) -> (outputs, loop_vars)`, repeated while `cond(*loop_vars)`.

    The outputs of all steps are stacked, and filled up with zeros to `max_iterations` of them.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    lone = isinstance(loop_vars, NDArray)
    values = [loop_vars] if lone else list(loop_vars)
    if not values:
        raise ValueError("loop_vars should contain at least one element")
    outputs: List[Any] = []
    while len(outputs) < int(max_iterations) and bool(cond(*values)):
        out, following = func(*values)
        following = [following] if isinstance(following, NDArray) else list(following or [])
        if len(following) != len(values):
            raise ValueError("The length of loop_vars should be consistent during the loop")
        values = following
        outputs.append([] if out is None else out)
        if len(flat(outputs[-1])) != len(flat(outputs[0])):
            raise ValueError("Number of elements in step_output should be the same in each step")
    stacked = _stacked(outputs, int(max_iterations) - len(outputs)) if outputs else []
    return stacked, values[0] if lone else values


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """`then_func()` if the only element of `pred` is not 0, else `else_func()`."""
    return then_func() if bool(pred) else else_func()


def flat(value: Any) -> List[Any]:
    """The leaves of nested lists."""
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, (list, tuple)) else [value]


def _stacked(steps: List[Any], lacking: int) -> Any:
    """Nested lists as those of each step, with all steps' arrays stacked, and `lacking` more of zeros."""
    first = steps[0]
    if isinstance(first, (list, tuple)):
        return [_stacked([step[i] for step in steps], lacking) for i in range(len(first))]
    stacked = calls.invoke(calls.intern("stack", {"num_args": str(len(steps)), "axis": "0"}, len(steps), 1), steps)
    if not lacking:
        return stacked
    rest = zeros((lacking,) + first.shape, ctx=first.context, dtype=first.dtype)
    return concatenate([stacked, rest])
