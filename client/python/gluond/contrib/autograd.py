"""Gradients by the functions that MXNet had before mx.autograd.

    gradient = mx.contrib.autograd.grad(lambda x: (x * x).sum())
    gradient(nd.array([1, 2]))[0]  # [2, 4]
"""
from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from .. import ndarray
from .._array import tape
from .._array.array import NDArray
from .._array.tape import mark_variables

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]

Places = Union[None, int, List[int]]


def set_is_training(is_train: bool) -> bool:
    """Whether operators are recorded and run as in training from now on; returns whether they were recorded before."""
    tape.set_training(is_train)
    return tape.set_recording(is_train)


class TrainingStateScope:
    """set_is_training within a `with` block."""

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before = False

    def __enter__(self) -> None:
        self._before = set_is_training(self._enter_state)

    def __exit__(self, *exc: object) -> None:
        set_is_training(self._before)


def train_section() -> TrainingStateScope:
    """Operators within are recorded, and run as in training."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """Operators within are not recorded, and run as in prediction."""
    return TrainingStateScope(False)


def backward(
    outputs: Sequence[NDArray], out_grads: Optional[Sequence[Optional[NDArray]]] = None, retain_graph: bool = False
) -> None:
    """Computes the gradients of marked arrays. AssertionError: `outputs` is no list, or of another length."""
    if not isinstance(outputs, (list, tuple)):
        raise AssertionError("outputs must be a list or tuple of NDArrays")
    if out_grads is not None and len(out_grads) != len(outputs):
        raise AssertionError("outputs and out_grads must have the same length")
    tape.backward(list(outputs), None if out_grads is None else list(out_grads), retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """`backward`, by its older name."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: Places = None) -> Callable[..., Tuple[List[NDArray], Any]]:
    """A function of func's arguments: (gradients of those at the places `argnum`, by default of all; the result)."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Tuple[List[NDArray], Any]:
        places = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[place] for place in places]
        if not all(isinstance(variable, NDArray) for variable in variables):
            raise AssertionError("type of autograd input should NDArray.")
        gradients = [ndarray.zeros_like(variable) for variable in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: Places = None) -> Callable[..., List[NDArray]]:
    """As grad_and_loss, for the gradients alone."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(both)
    def wrapped(*args: Any) -> List[NDArray]:
        return both(*args)[0]

    return wrapped
