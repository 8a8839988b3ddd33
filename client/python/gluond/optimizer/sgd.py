"""Stochastic gradient descent and its relatives."""
from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

from .. import ndarray, random
from .._array.array import NDArray
from ._on_server import ServerKind
from ._optimizer import Optimizer, State, register, zeros_of


@register
class SGD(Optimizer):
    """w = (1 - lr wd) w - lr clip(rescale_grad grad); with momentum m = momentum m - that step, w += m.

    `lazy_update`: rows without a gradient stay as they are, where gradients are `row_sparse` (gluon.nn.Embedding(sparse_grad=True)).
    """

    _on_server = ServerKind("sgd", {"momentum": "momentum"}, ("mom",))
    _keeps_weight_last = True

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_of(weight) if self.momentum != 0.0 else None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> State:
        """(momentum, float32 weight) for float16."""
        if self.multi_precision and self._is_half(weight):
            master = weight.astype("float32")
            return (self.create_state(index, master), master)
        return super().create_state_multi_precision(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        self._call("sgd_", index, (weight, grad), state, ())

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator. Lists, of an optimizer that is made of this one, are updated weight by weight in float16."""
        if not self.multi_precision or not self._is_half(weight):
            self.update(index, weight, grad, state)
        elif isinstance(weight, (list, tuple)):
            for arguments in zip(index, weight, grad, state):  # type: ignore[arg-type]
                self.update_multi_precision(*arguments)
        else:
            momentum, master = state
            self._call("mp_sgd_", index, (weight, grad), momentum, (master,))

    def _call(
        self, prefix: str, index: Any, arrays: Tuple[NDArray, ...], momentum: Optional[NDArray], master: Tuple[NDArray, ...]
    ) -> None:
        rates = self._begin_rates(index)
        if momentum is None:
            self._step(prefix + "update", *arrays, *master, **rates, **self._clip())
        else:
            self._step(prefix + "mom_update", *arrays, momentum, *master, **rates, momentum=self.momentum, **self._clip())


@register
class ccSGD(SGD):  # noqa: N801
    """SGD, by an old name."""


@register
class NAG(SGD):
    """SGD with Nesterov's momentum: u = clip(g) + wd w, m' = momentum m, m = m' - lr u, w += (momentum + 1) m - m'."""

    _on_server = ServerKind("nag", {"momentum": "momentum"}, ("mom",))

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(momentum=momentum, lazy_update=False, **kwargs)

    def _call(
        self, prefix: str, index: Any, arrays: Tuple[NDArray, ...], momentum: Optional[NDArray], master: Tuple[NDArray, ...]
    ) -> None:
        super()._call(prefix if momentum is None else prefix.replace("sgd", "nag"), index, arrays, momentum, master)


@register
class Signum(Optimizer):
    """m = momentum m - (1 - momentum)(wd w + clip(g)), w = (1 - lr wd_lh) w + lr sign(m); sign of g without momentum."""

    _on_server = ServerKind("signum", {"momentum": "momentum", "wd_lh": "wd_lh"}, ("mom",))

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_of(weight) if self.momentum != 0.0 else None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        rates = self._begin_rates(index)
        if state is None:
            self._step("signsgd_update", weight, grad, **rates, **self._clip())
        else:
            own = {"momentum": self.momentum, "wd_lh": self.wd_lh}
            self._step("signum_update", weight, grad, state, **rates, **own, **self._clip())


@register
class LARS(Optimizer):
    """SGD with momentum, whose rate for each weight is scaled by eta |w| / (|g| + wd |w| + epsilon).

    Biases, gammas and betas keep the plain rate. `momentum_correction` scales the momentum when the rate changes. The
    norms stay on the server.
    """

    _on_server = ServerKind(
        "lars", {key: key for key in ("momentum", "eta", "eps", "momentum_correction")}, ("mom",), "last_lr", is_composed=True
    )

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.eta = eta
        self.eps = eps
        self.momentum_correction = momentum_correction
        self.last_lr: Dict[Any, float] = {}  # By index.

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_of(weight) if self.momentum != 0.0 else None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """The step is made of elementwise operators, as the rate is an array."""
        t, lr, wd = self._begin(index)
        last = self.last_lr.get(index, 0.0)
        self._note_step(index, t)
        current = self.last_lr[index]
        step = (self._scaled(grad) + wd * weight) * lr
        if not self._name(index).endswith(("gamma", "beta", "bias")):
            step = ndarray.broadcast_mul(step.reshape((-1,)), self._ratio(weight, grad, wd)).reshape(weight.shape)
        if state is None:
            weight[:] -= step
            return
        corrected = self.momentum_correction and last != 0
        state[:] = state * (self.momentum * (current / last) if corrected else self.momentum) - step
        weight[:] += state

    def _note_step(self, index: Any, count: int) -> None:
        """The rate, by which the next step scales the momentum."""
        self.last_lr[index] = float(self.learning_rate)

    def _ratio(self, weight: NDArray, grad: NDArray, wd: float) -> NDArray:
        """Shape (1,); 1 where a norm is 0."""
        w = ndarray.norm(weight.astype("float32")).reshape((1,))
        g = ndarray.norm(grad.astype("float32")).reshape((1,)) * float(self.rescale_grad)
        ratio = self.eta * w / (g + wd * w + self.eps + 1e-30)
        return ndarray.where((w * g) > 0, ratio, ndarray.ones_like(ratio)).astype(weight.dtype)


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: w += -lr/2 (clip(g) + wd w) + normal(0, sqrt(lr))."""

    _on_server = ServerKind("sgld", steps=False)  # Its noise is another one there.

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Draws the noise on the server."""
        _, lr, wd = self._begin(index)
        noise = random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context)
        weight[:] += noise - lr / 2 * (self._scaled(grad) + wd * weight)


@register
class DCASGD(Optimizer):
    """Delay-compensated SGD: the step is lr (g + wd w + lamda g^2 (w - w of the last step))."""

    _on_server = ServerKind("dcasgd", {"momentum": "momentum", "lamda": "lamda"}, ("mom", "previous"), is_composed=True)

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> State:
        """(momentum or None, the weight before)."""
        return (zeros_of(weight) if self.momentum != 0.0 else None, weight.copy())

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Elementwise operators."""
        _, lr, wd = self._begin(index)
        momentum, previous = state
        g = self._scaled(grad)
        step = -lr * (g + wd * weight + self.lamda * g * g * (weight - previous))
        if momentum is not None:
            momentum[:] = self.momentum * momentum + step
            step = momentum
        previous[:] = weight
        weight[:] += step


@register
class Test(Optimizer):
    """w += rescale_grad grad; the state is the new weight. For tests."""

    def create_state(self, index: Any, weight: NDArray) -> State:
        """Zeros."""
        return zeros_of(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Adds the gradient."""
        weight[:] += grad * float(self.rescale_grad)
        state[:] = weight
