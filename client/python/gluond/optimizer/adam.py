"""Adam and its relatives: moving averages of the gradient and of its square."""
from __future__ import annotations

import math
from typing import Any, Dict, Optional

from .. import ndarray
from .._array.array import NDArray
from ._on_server import ServerKind
from ._optimizer import Optimizer, State, register, zeros_of


_BETAS = {"beta1": "beta1", "beta2": "beta2"}
_AVERAGES = {**_BETAS, "epsilon": "epsilon"}


class _TwoMoments(Optimizer):
    """With moving averages m of the gradient and v of its square, or what a subclass makes of v."""

    def __init__(self, learning_rate: float, beta1: float, beta2: float, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(m, v)."""
        return (zeros_of(weight), zeros_of(weight))

    def _averages(self) -> Dict[str, float]:
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}  # type: ignore[attr-defined]

    def _decayed(self, weight: NDArray, grad: NDArray, wd: float) -> NDArray:
        """clip(rescale_grad grad + wd w)."""
        return self._clipped(grad * float(self.rescale_grad) + wd * weight)


@register
class Adam(_TwoMoments):
    """g = clip(rescale_grad grad + wd w); w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)."""

    _on_server = ServerKind("adam", _AVERAGES, ("mean", "var"))

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        t, lr, wd = self._begin(index)
        lr *= math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        rates = {"lr": lr, "wd": wd, "rescale_grad": float(self.rescale_grad)}
        self._step("adam_update", weight, grad, *state, **rates, **self._averages(), **self._clip())


@register
class Adamax(_TwoMoments):
    """u = max(beta2 u, |g|); w -= lr / (1 - beta1^t) m / u."""

    _on_server = ServerKind("adamax", _BETAS, ("mean", "max"), is_composed=True)

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators. A weight whose gradients have all been 0 stays, where MXNet gives NaN."""
        t, lr, wd = self._begin(index)
        m, u = state
        g = self._decayed(weight, grad, wd)
        m[:] = self.beta1 * m + (1.0 - self.beta1) * g
        u[:] = ndarray.maximum(self.beta2 * u, ndarray.abs(g))
        weight[:] -= (lr / (1.0 - self.beta1**t)) * m / ndarray.maximum(u, 1e-37)


@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum, whose momentum warms up by `schedule_decay`.

    The product of the schedule's momenta is kept for each parameter. (MXNet keeps one for all of them, so that results
    there depend on the number of parameters; with one parameter they are the same.)
    """

    _on_server = ServerKind(
        "nadam", {**_AVERAGES, "schedule_decay": "schedule_decay"}, ("mean", "var"), "m_schedule", is_composed=True
    )

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule: Dict[Any, float] = {}

    def _momentum_at(self, t: int) -> float:
        return self.beta1 * (1.0 - 0.5 * 0.96 ** (t * self.schedule_decay))

    def _note_step(self, index: Any, count: int) -> None:
        """The product of the momenta so far."""
        self.m_schedule[index] = self.m_schedule.get(index, 1.0) * self._momentum_at(count)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators."""
        t, lr, wd = self._begin(index)
        m, v = state
        g = self._decayed(weight, grad, wd)
        now, then = self._momentum_at(t), self._momentum_at(t + 1)
        self._note_step(index, t)
        schedule = self.m_schedule[index]
        m[:] = self.beta1 * m + (1.0 - self.beta1) * g
        v[:] = self.beta2 * v + (1.0 - self.beta2) * g * g
        mean = (1.0 - now) / (1.0 - schedule) * g + then / (1.0 - schedule * then) * m
        weight[:] -= lr * mean / (ndarray.sqrt(v / (1.0 - self.beta2**t)) + self.epsilon)


@register
class FTML(_TwoMoments):
    """Follow the moving leader (Zheng and Kwok, 2017)."""

    _on_server = ServerKind("ftml", _AVERAGES, ("d", "v", "z"))

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, learning_rate: Optional[float] = None, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)  # type: ignore[arg-type]
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(d, v, z)."""
        return (zeros_of(weight), zeros_of(weight), zeros_of(weight))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        t, lr, wd = self._begin(index)
        rates = {"lr": lr, "wd": wd, "rescale_grad": float(self.rescale_grad), "t": t}
        self._step("ftml_update", weight, grad, *state, **rates, **self._averages(), **self._clip("clip_grad"))


@register
class LAMB(_TwoMoments):
    """Adam whose step for each weight has the weight's norm, within [lower_bound, upper_bound] (You et al., 2019)."""

    _on_server = ServerKind(
        "lamb",
        {**_AVERAGES, **{key: key for key in ("lower_bound", "upper_bound", "bias_correction")}},
        ("mean", "var"),
        is_composed=True,
    )

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: Optional[float] = None,
        upper_bound: Optional[float] = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Two operators, and the norms, which stay on the server."""
        t, lr, wd = self._begin(index)
        bounds: Dict[str, Any] = {
            name: float(bound) for name, bound in (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound)) if bound
        }
        numbers = {"wd": wd, "t": t, "rescale_grad": float(self.rescale_grad)}
        attributes: Dict[str, Any] = {**self._averages(), "bias_correction": self.bias_correction, **self._clip()}
        phase1: Any = ndarray.lamb_update_phase1
        direction = phase1(weight, grad, *state, **numbers, **attributes)
        self._step("lamb_update_phase2", weight, direction, ndarray.norm(weight), ndarray.norm(direction), lr=lr, **bounds)
