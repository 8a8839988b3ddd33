"""Optimizers whose step adapts to each weight's history."""
from __future__ import annotations

from typing import Any, Optional

from .. import ndarray
from .._array.array import NDArray
from ._on_server import ServerKind
from ._optimizer import Optimizer, State, register, zeros_of


@register
class AdaGrad(Optimizer):
    """h += clip(g)^2; w -= lr (clip(g) / sqrt(h + eps) + wd w)."""

    _on_server = ServerKind("adagrad", {"eps": "float_stable_eps"}, ("history",), is_composed=True)

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> State:
        """h."""
        return zeros_of(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators."""
        _, lr, wd = self._begin(index)
        g = self._scaled(grad)
        state[:] += g * g
        weight[:] -= lr * (g / ndarray.sqrt(state + self.float_stable_eps) + wd * weight)


@register
class RMSProp(Optimizer):
    """g = clip(rescale_grad grad + wd w); n = (1 - gamma1) g^2 + gamma1 n; w -= lr g / sqrt(n + epsilon).

    `centered` subtracts the square of the gradient's moving average from n, and has a momentum gamma2.
    """

    _on_server = ServerKind(
        "rmsprop", {key: key for key in ("gamma1", "gamma2", "epsilon", "centered", "clip_weights")}, ("n", "g", "delta")
    )

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(n,), or (n, the gradient's average, the step)."""
        return tuple(zeros_of(weight) for _ in range(3 if self.centered else 1))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        rates = self._begin_rates(index)
        attributes = {"gamma1": self.gamma1, "epsilon": self.epsilon, **self._clip()}
        if self.clip_weights:
            attributes["clip_weights"] = float(self.clip_weights)
        if self.centered:
            self._step("rmspropalex_update", weight, grad, *state, **rates, gamma2=self.gamma2, **attributes)
        else:
            self._step("rmsprop_update", weight, grad, *state, **rates, **attributes)


@register
class AdaDelta(Optimizer):
    """n = rho n + (1 - rho) g^2; d = sqrt(s + epsilon) / sqrt(n + epsilon) g; s = rho s + (1 - rho) d^2; w -= d + wd w.

    There is no learning rate.
    """

    _on_server = ServerKind("adadelta", {"rho": "rho", "epsilon": "epsilon"}, ("grads", "steps"), is_composed=True)

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(n, s)."""
        return (zeros_of(weight), zeros_of(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators."""
        _, _, wd = self._begin(index)
        n, s = state
        g = self._scaled(grad)
        n[:] = self.rho * n + (1.0 - self.rho) * g * g
        step = ndarray.sqrt(s + self.epsilon) / ndarray.sqrt(n + self.epsilon) * g
        s[:] = self.rho * s + (1.0 - self.rho) * step * step
        weight[:] -= step + wd * weight


@register
class Ftrl(Optimizer):
    """Follow the regularized leader: L1 by `lamda1`, L2 by `wd` (McMahan et al., 2013)."""

    _on_server = ServerKind("ftrl", {"lamda1": "lamda1", "beta": "beta"}, ("z", "n"))

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(z, n)."""
        return (zeros_of(weight), zeros_of(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        attributes = {"lamda1": self.lamda1, "beta": self.beta, **self._clip()}
        self._step("ftrl_update", weight, grad, *state, **self._begin_rates(index), **attributes)
