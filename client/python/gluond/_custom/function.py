"""`autograd.Function`: a function of arrays with a gradient of its own, for use while recording."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from .._array import calls
from .._array.array import NDArray
from .._wire.frame import Within, frame
from . import functions
from .local import local
from .recorded import again, record
from .snapshots import keep
from .values import Kind

__all__ = ["Function"]


class Function:
    """A differentiable function whose gradient is written by hand.

        class Sigmoid(mx.autograd.Function):
            def forward(self, x):
                y = 1 / (1 + mx.nd.exp(-x))
                self.save_for_backward(y)
                return y

            def backward(self, dy):
                y, = self.saved_tensors
                return dy * y * (1 - y)

        with mx.autograd.record():
            y = Sigmoid()(x)

    Both run in this process; an object is for one call. Not for Symbols: hybridized Blocks use CustomOp.
    """

    _used = False
    _saved: Tuple[Any, ...] = ()

    def __init__(self) -> None:
        pass

    def save_for_backward(self, *args: NDArray) -> None:
        """Keeps arrays for backward(), as `saved_tensors`."""
        self._saved = args

    @property
    def saved_tensors(self) -> Tuple[Any, ...]:
        """The arguments of save_for_backward()."""
        return self._saved

    def __call__(self, *inputs: NDArray) -> Any:
        """forward(), recorded: an NDArray, or as many as forward() returns."""
        if self._used:
            raise AssertionError("Each Function instance can only be called once. Please create another instance.")
        for place, array in enumerate(inputs):
            if not isinstance(array, NDArray):
                raise TypeError(
                    f"input {place} of {type(self).__name__} must be an NDArray, not {type(array).__name__}: keep "
                    "other values in the object, by its constructor"
                )
        self._used = True
        recording, training = frame().recording, frame().training
        kept = [keep(each) for each in inputs] if recording else []
        histories = [each._has_history() for each in inputs]
        with Within(recording=False):
            outputs = self.forward(*inputs)
        results = [outputs] if isinstance(outputs, NDArray) else outputs
        if not isinstance(results, (list, tuple)) or not all(isinstance(each, NDArray) for each in results):
            raise TypeError(
                f"{type(self).__name__}.forward must return an NDArray, or a list or tuple of NDArrays, not " f"{outputs!r}"
            )
        if not recording or not inputs or not results:
            return outputs
        calls.check_together([*inputs, *results], type(self).__name__)
        recorded = record(_Call(self, inputs, results, training), kept, histories, results)
        return recorded[0] if results is not outputs else type(outputs)(recorded)

    def forward(self, *inputs: Any) -> Any:
        """Computes the results. Nothing is recorded within."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def backward(self, *output_grads: Any) -> Any:
        """The gradients of all inputs, from those of all results."""
        raise NotImplementedError(f"{type(self).__name__} has no backward()")


class _Call(functions.Recorded):
    """A Function that has been called."""

    def __init__(self, function: Function, inputs: Sequence[NDArray], results: Sequence[NDArray], training: bool) -> None:
        super().__init__(type(function).__name__, inputs[0]._session, inputs[0]._context, training, len(results))
        self._function = function
        # The results that are saved, by their place there: for the gradient of its gradient they need a history.
        self._saved = {place: i for place, saved in enumerate(function._saved) for i, each in enumerate(results) if each is saved}
        self._results = list(results) if self._saved else []

    def gradients(self, heads: Sequence[Any], wanted: Sequence[bool], kinds: Sequence[Kind] = ()) -> List[NDArray]:
        found = self._backward(heads)
        return [self._assigned(*each) for each in zip(found, kinds or self.kinds(), wanted)]

    def recorded_gradients(self, heads: Sequence[Any]) -> List[NDArray]:
        function, saved = self._function, self._function._saved
        if self._saved:
            results = again(self, self._results)
            function._saved = tuple(
                results[self._saved[place]] if place in self._saved else each for place, each in enumerate(saved)
            )
        try:
            found = self._backward(heads)
        finally:
            function._saved = saved
        return [
            calls.invoke(calls.intern("zeros_like", {}, 1, 1), (each,)) if gradient is None else gradient
            for each, gradient in zip(self.inputs, found)
        ]

    def _backward(self, heads: Sequence[Any]) -> List[Optional[NDArray]]:
        found = self._function.backward(*heads)
        given = [found] if isinstance(found, NDArray) or found is None else list(found)
        if len(given) != len(self.inputs):
            raise ValueError(
                f"{self.name}.backward must return exactly the same number of NDArrays as the number of NDArrays "
                f"arguments to forward. Expecting {len(self.inputs)} got {len(given)}"
            )
        for place, gradient in enumerate(given):
            if gradient is not None and not isinstance(gradient, NDArray):
                raise TypeError(f"autograd.Function.backward must return NDArrays, not {type(gradient)} (gradient {place})")
        return given

    def _assigned(self, gradient: Optional[NDArray], kind: Kind, wanted: bool) -> NDArray:
        """A gradient in the shape that it must have; None is one of zeros."""
        target = local(self.session, self.context, kind)
        if gradient is not None and wanted:
            target[:] = gradient
        return target
