"""`mx.optimizer.contrib`: optimizers that MXNet kept apart."""
from __future__ import annotations

from typing import Any

from .. import ndarray
from .._array.array import NDArray
from ._on_server import ServerKind
from ._optimizer import Optimizer, State, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history for each row, as embeddings want: h += mean(clip(g)^2), w -= lr clip(g) / sqrt(h + eps).

    There is no weight decay.
    """

    _on_server = ServerKind("groupadagrad", {"eps": "float_stable_eps"}, ("history",), is_composed=True)

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> State:
        """h, of shape (rows, 1)."""
        if len(weight.shape) != 2:
            raise AssertionError(f"GroupAdaGrad updates matrices only, not weights of shape {weight.shape}.")
        return ndarray.zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators."""
        _, lr, wd = self._begin(index)
        if wd != 0:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        g = self._scaled(grad)
        state[:] += ndarray.mean(g * g, axis=1, keepdims=True)
        weight[:] -= lr * ndarray.broadcast_div(g, ndarray.sqrt(state + self.float_stable_eps))
