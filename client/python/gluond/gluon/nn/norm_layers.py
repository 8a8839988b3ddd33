"""Normalizations: over the batch, each sample, its channels, or groups of them."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from .._hybrid_block import HybridBlock


class _Norm(HybridBlock):
    """Has gamma, trained if `scale`, and beta, trained if `center`, of `in_channels` numbers (0: told by the data)."""

    def __init__(
        self,
        scale: bool,
        center: bool,
        in_channels: int,
        beta_initializer: Any,
        gamma_initializer: Any,
        prefix: Optional[str],
        params: Any,
    ) -> None:
        super().__init__(prefix, params)
        self._scale = scale
        self._center = center
        self.gamma = self._channels("gamma", in_channels, gamma_initializer, scale)
        self.beta = self._channels("beta", in_channels, beta_initializer, center)

    def _channels(self, name: str, channels: int, init: Any, trained: bool, **kwargs: Any) -> Any:
        return self.params.get(
            name, grad_req="write" if trained else "null", shape=(channels,), init=init, allow_deferred_init=True, **kwargs
        )

    def _settings(self) -> dict:
        """The text that `print` shows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"{type(self).__name__}({settings})"


class BatchNorm(_Norm):
    """gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and variance of the batch for each channel on `axis`.

    Outside of training, or with `use_global_stats`, of the moving averages: running = momentum running +
    (1 - momentum) batch's. These are changed in a forward pass in training.
    """

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(scale, center, in_channels, beta_initializer, gamma_initializer, prefix, params)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self.gamma._differentiable = scale
        self.beta._differentiable = center
        self.running_mean = self._channels("running_mean", in_channels, running_mean_initializer, False, differentiable=False)
        self.running_var = self._channels("running_var", in_channels, running_variance_initializer, False, differentiable=False)

    def cast(self, dtype: Any) -> None:
        """Changes the dtype; for float16 the parameters stay float32, as the statistics need it."""
        super().cast("float32" if np.dtype(dtype) == np.float16 else dtype)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:  # noqa: N803
        """Any shape, channels on `axis`."""
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def _settings(self) -> dict:
        return {**self._kwargs, "in_channels": self.gamma.shape[0] or None}


class BatchNormReLU(BatchNorm):
    """BatchNorm, then relu."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:  # noqa: N803
        """Any shape, channels on `axis`."""
        return F.relu(super().hybrid_forward(F, x, gamma, beta, running_mean, running_var))


class InstanceNorm(_Norm):
    """gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and variance of each sample and channel."""

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(scale, center, in_channels, beta_initializer, gamma_initializer, prefix, params)
        self._epsilon = epsilon
        self._axis = axis

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:  # noqa: N803
        """(N, C, ...), or channels on `axis`."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        out = F.InstanceNorm(x.swapaxes(1, self._axis), gamma, beta, name="fwd", eps=self._epsilon)
        return out.swapaxes(1, self._axis)

    def _settings(self) -> dict:
        return {
            "eps": self._epsilon,
            "axis": self._axis,
            "center": self._center,
            "scale": self._scale,
            "in_channels": self.gamma.shape[0],
        }


class LayerNorm(_Norm):
    """gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and variance over `axis`."""

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(scale, center, in_channels, beta_initializer, gamma_initializer, prefix, params)
        self._epsilon = epsilon
        self._axis = axis

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def _settings(self) -> dict:
        return {
            "eps": self._epsilon,
            "axis": self._axis,
            "center": self._center,
            "scale": self._scale,
            "in_channels": self.gamma.shape[0],
        }


class GroupNorm(_Norm):
    """gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and variance of each of `num_groups` groups of channels."""

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: Optional[str] = None,
        params: Any = None,
        in_channels: int = 0,
    ) -> None:
        super().__init__(scale, center, in_channels, beta_initializer, gamma_initializer, prefix, params)
        self._epsilon = epsilon
        self._num_groups = num_groups

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:  # noqa: N803
        """(N, C, ...)."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def _settings(self) -> dict:
        return {"eps": self._epsilon, "num_groups": self._num_groups, "center": self._center, "scale": self._scale}
