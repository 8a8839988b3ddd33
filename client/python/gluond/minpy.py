"""Functions with gradients of their own, as minpy's `customop` makes them: a run of the function tells its shapes.

    @mx.customop("numpy")
    def softplus(x):
        return numpy.log1p(numpy.exp(x))

    softplus.def_grad(lambda ans, x: lambda g: g * (1 - numpy.exp(-ans)))

    with mx.autograd.record():
        y = softplus(x)

`grad` and `grad_and_loss` differentiate a whole function of arrays.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import ndarray
from ._array import tape
from ._array.array import NDArray
from ._custom import functions
from ._custom.inside import inside
from ._custom.local import local, make
from ._custom.recorded import record
from ._custom.snapshots import keep
from ._custom.values import Kind
from ._wire.frame import frame
from .context import current_context

__all__ = ["CustomFunction", "NoGradientFuncError", "customop", "grad", "grad_and_loss"]

Owner = Union[int, str]  # An argument: its position, or its keyword.


class NoGradientFuncError(ValueError):
    """Back-propagation arrived at an argument whose gradient nobody has defined."""


class CustomFunction:
    """A function of arrays whose gradients are defined with `def_grad` and the like. Made by `customop`."""

    __name__: str

    def __init__(self, func: Callable[..., Any], variant: str) -> None:
        functools.update_wrapper(self, func)
        self._func = func
        self._as_numpy = variant == "numpy"
        self._gradients: Dict[Owner, Callable[..., Any]] = {}
        self._together: List[Tuple[Callable[..., Any], Tuple[int, ...]]] = []

    def __repr__(self) -> str:
        return f"<customized op {self.__name__} of {'numpy' if self._as_numpy else 'mxnet'}>"

    # Gradients.

    def def_grad(self, func: Callable[..., Any], argnum: int = 0) -> "CustomFunction":
        """Defines the gradient of an argument: `func(ans, *args, **kwargs)` returns a function that makes the argument's
        gradient of the result's."""
        self._gradients[argnum] = func
        return self

    def def_grad_kw(self, func: Callable[..., Any], key: str) -> "CustomFunction":
        """Defines the gradient of a keyword argument."""
        self._gradients[key] = func
        return self

    def def_grad_zero(self, argnum: int = 0) -> "CustomFunction":
        """Says that an argument's gradient is zero."""
        self._gradients[argnum] = lambda ans, *args, **kwargs: lambda g: 0.0
        return self

    def def_multiple_grad(self, func: Callable[..., Any], argnums: Sequence[int]) -> "CustomFunction":
        """Defines the gradients of several arguments at once: the function that `func(ans, *args, **kwargs)` returns makes a
        sequence of them, in the order of `argnums`."""
        numbers = tuple(argnums)
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"argnums must be unique, not {numbers}")
        self._together.append((func, numbers))
        return self

    def gradable(self, bp_args: Sequence[int], bp_kwargs: Sequence[str] = ()) -> bool:
        """Whether all these arguments have a gradient."""
        known = {*self._gradients, *(number for _, numbers in self._together for number in numbers)}
        return known.issuperset((*bp_args, *bp_kwargs))

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result, as an NDArray or a tuple of them; recorded while autograd records."""
        owners: Dict[Owner, Any] = {**dict(enumerate(args)), **kwargs}  # type: ignore
        inputs = {owner: value for owner, value in owners.items() if isinstance(value, NDArray)}
        context = next((array.context for array in inputs.values()), current_context())
        recording = frame().recording and bool(inputs)
        kept = [keep(each) for each in inputs.values()] if recording else []
        histories = [each._has_history() for each in inputs.values()]
        with inside(frame().training, context):
            raw_args = [self._raw(value) for value in args]
            raw_kwargs = {key: self._raw(value) for key, value in kwargs.items()}
            answer = self._func(*raw_args, **raw_kwargs)
            results = [_wrapped(each, context) for each in (answer if isinstance(answer, tuple) else (answer,))]
            closures = self._closures(answer, raw_args, raw_kwargs, inputs) if recording else {}
        if recording:
            call = _RecordedCall(self, list(inputs), closures, answer, results[0]._session, context)
            results = record(call, kept, histories, results)
        return tuple(results) if isinstance(answer, tuple) else results[0]

    def _raw(self, value: Any) -> Any:
        """An argument as the function sees it."""
        if isinstance(value, NDArray):
            return value.asnumpy() if self._as_numpy else value
        if isinstance(value, (list, tuple)) and any(isinstance(each, NDArray) for each in value):
            return type(value)(self._raw(each) for each in value)
        return value

    def _closures(self, answer: Any, args: Sequence[Any], kwargs: Dict[str, Any], inputs: Dict[Owner, Any]) -> "Closures":
        """For each input with a gradient: the function that makes it, and its place among that function's results
        (None: it is the only one)."""
        found: Closures = {}
        for func, numbers in self._together:
            if any(number in inputs for number in numbers):
                closure = func(answer, *args, **kwargs)
                found.update({number: (closure, place) for place, number in enumerate(numbers) if number in inputs})
        for owner, func in self._gradients.items():
            if owner in inputs:
                found[owner] = func(answer, *args, **kwargs), None
        return found


Closures = Dict[Owner, Tuple[Callable[[Any], Any], Optional[int]]]


def _wrapped(value: Any, context: Any) -> NDArray:
    """A result as an NDArray, in its own dtype; Python's numbers are float32."""
    if isinstance(value, NDArray):
        return value
    values = np.array(value, np.float32 if isinstance(value, (bool, int, float)) else None)
    return make(values, context, values.dtype)


class _RecordedCall(functions.Recorded):
    """A recorded call. The gradient functions have been asked for already: they hold the values that they need."""

    callback = "grad"
    wants_wanted = True

    def __init__(
        self, function: CustomFunction, owners: List[Owner], closures: Closures, answer: Any, session: Any, context: Any
    ) -> None:
        super().__init__(function.__name__, session, context, frame().training, len(answer) if isinstance(answer, tuple) else 1)
        self._as_numpy = function._as_numpy
        self._owners = owners
        self._closures = closures
        self._is_tuple = isinstance(answer, tuple)

    def gradients(self, heads: Sequence[Any], wanted: Sequence[bool], kinds: Sequence[Kind] = ()) -> List[NDArray]:
        given = tuple(head.asnumpy() for head in heads) if self._as_numpy else tuple(heads)
        arrays = [local(self.session, self.context, kind) for kind in kinds or self.kinds()]
        made: Dict[int, Any] = {}
        for owner, array, each in zip(self._owners, arrays, wanted):
            if not each:
                continue
            if owner not in self._closures:
                raise NoGradientFuncError(
                    f"No partial derivative of customized op {self.name} defined on argument {owner}. Define it with "
                    f"{self.name}.def_grad{'_kw' if isinstance(owner, str) else ''}(func, {owner!r})"
                )
            closure, place = self._closures[owner]
            if id(closure) not in made:
                made[id(closure)] = closure(given if self._is_tuple else given[0])
            found = made[id(closure)]
            array[:] = found if place is None else found[place]
        return arrays


def customop(op_type: str) -> Callable[[Callable[..., Any]], CustomFunction]:
    """A decorator that makes a CustomFunction.

    op_type: `numpy`, the function gets numpy arrays and returns one (or a number, or a tuple), or `mxnet`, NDArrays.
    """

    def decorate(func: Callable[..., Any]) -> CustomFunction:
        if op_type not in ("numpy", "mxnet"):
            raise ValueError('Wrong type for CustomOp. Must be either "numpy" or "mxnet"')
        return CustomFunction(func, op_type)

    return decorate


# Whole functions.


def grad_and_loss(func: Callable[..., Any], argnum: Union[int, Sequence[int]] = 0) -> Callable[..., Tuple[Any, Any]]:
    """A function that returns the gradients of `func` with respect to its arguments `argnum`, and its value.

    The arguments are NDArrays or numpy arrays; gradients are NDArrays (a tuple, where argnum is a sequence), or 0.0 where
    the value does not depend on the argument.
    """
    numbers = (argnum,) if isinstance(argnum, int) else tuple(argnum)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        arrays = list(args)
        for number in numbers:
            value = arrays[number]
            arrays[number] = value.detach() if isinstance(value, NDArray) else ndarray.from_numpy(np.asarray(value))
            arrays[number].attach_grad()
        with tape.record():
            value = func(*arrays, **kwargs)
        found: List[Any] = [0.0] * len(numbers)
        if isinstance(value, NDArray):
            tape.backward([value])
            found = [arrays[number].grad for number in numbers]
        return (found[0] if isinstance(argnum, int) else tuple(found)), value

    return differentiated


def grad(func: Callable[..., Any], argnum: Union[int, Sequence[int]] = 0) -> Callable[..., Any]:
    """A function that returns the gradients of `func` with respect to its arguments `argnum`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[0]

    return differentiated
