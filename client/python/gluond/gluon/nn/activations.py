"""Elementwise nonlinearities."""
from __future__ import annotations

from typing import Any

from ... import initializer
from .._hybrid_block import HybridBlock


class Activation(HybridBlock):
    """'relu', 'sigmoid', 'tanh', 'softrelu' or 'softsign', of any shape."""

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.Activation(x, act_type=self._act_type, name="fwd")


class LeakyReLU(HybridBlock):
    """x where x > 0, else alpha x."""

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        if alpha < 0:
            raise AssertionError("Slope coefficient for LeakyReLU must be no less than 0.")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """LeakyReLU whose slope is learned: one, or one for each of `in_channels` on axis 1."""

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        init = initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=init)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where x > 0, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The self-normalizing ELU (Klambauer et al., 2017)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution's share below x."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x sigmoid(beta x)."""

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return x * F.sigmoid(self._beta * x, name="fwd")
