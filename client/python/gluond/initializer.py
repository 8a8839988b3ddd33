"""`mx.init`: how parameters get their first values. Random ones are drawn on the server, in the order of the calls.

    net.initialize(mx.init.Xavier(magnitude=2.24))
    self.weight = self.params.get('weight', shape=(2, 3), init='normal')
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import ndarray, random
from ._array.array import NDArray
from ._initializer import InitDesc, Initializer, alias, create, register
from ._initializer_sets import FusedRNN, Load, Mixed

__all__ = [
    "InitDesc",
    "Initializer",
    "register",
    "alias",
    "create",
    "Zero",
    "One",
    "Constant",
    "Uniform",
    "Normal",
    "Orthogonal",
    "Xavier",
    "MSRAPrelu",
    "Bilinear",
    "LSTMBias",
    "FusedRNN",
    "Load",
    "Mixed",
]


def _uniform(scale: float, array: NDArray) -> None:
    random.uniform(-scale, scale, shape=array.shape, dtype=np.dtype(array.dtype).name, ctx=array.context, out=array)


def _normal(scale: float, array: NDArray) -> None:
    random.normal(0, scale, shape=array.shape, dtype=np.dtype(array.dtype).name, ctx=array.context, out=array)


@alias("zeros")
class Zero(Initializer):
    """0."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, array: NDArray) -> None:
        array[:] = 0


@alias("ones")
class One(Initializer):
    """1."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, array: NDArray) -> None:
        array[:] = 1


@register
class Constant(Initializer):
    """A number, or an array (NDArray, numpy, list) of the parameter's shape."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value.asnumpy().tolist() if isinstance(value, NDArray) else np.asarray(value).tolist())
        self.value = value

    def _init_weight(self, name: str, array: NDArray) -> None:
        array[:] = self.value if isinstance(self.value, (NDArray, int, float)) else np.asarray(self.value)


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, array: NDArray) -> None:
        _uniform(self.scale, array)


@register
class Normal(Initializer):
    """Normal with mean 0 and standard deviation sigma."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, array: NDArray) -> None:
        _normal(self.sigma, array)


@register
class Orthogonal(Initializer):
    """`scale` times a matrix of orthonormal rows (or columns), of the parameter as (shape[0], the rest)."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, array: NDArray) -> None:
        rows, columns = array.shape[0], int(np.prod(array.shape[1:]))
        start = ndarray.zeros((rows, columns), ctx=array.context)
        (_uniform if self.rand_type == "uniform" else _normal)(1.0, start)
        left, _, right = np.linalg.svd(start.asnumpy(), full_matrices=False)
        best = left if left.shape == (rows, columns) else right
        array[:] = (self.scale * best).reshape(array.shape).astype(array.dtype)


@register
class Xavier(Initializer):
    """Scale sqrt(magnitude / factor), with factor the mean of fan_in and fan_out ('avg'), or one of them ('in', 'out').

    fan_in = shape[1] prod(shape[2:]), fan_out = shape[0] prod(shape[2:]). `rnd_type`: 'uniform' or 'gaussian'.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, array: NDArray) -> None:
        shape = array.shape
        if len(shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        area = float(np.prod(shape[2:]))
        fan_in, fan_out = shape[1] * area, shape[0] * area
        factors = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError(f"Incorrect factor type '{self.factor_type}'; it is one of 'avg', 'in', 'out'.")
        scale = float(np.sqrt(self.magnitude / factors[self.factor_type]))
        if self.rnd_type not in ("uniform", "gaussian"):
            raise ValueError(f"Unknown random type '{self.rnd_type}'; it is 'uniform' or 'gaussian'.")
        (_uniform if self.rnd_type == "uniform" else _normal)(scale, array)


@register
class MSRAPrelu(Xavier):
    """Xavier for networks of PReLU with this slope: gaussian, of magnitude 2 / (1 + slope^2)."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The weight of a Deconvolution that enlarges by bilinear interpolation; shape (..., height, width)."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, array: NDArray) -> None:
        height, width = array.shape[-2:]
        half = np.ceil(width / 2.0)
        center = (2 * half - 1 - half % 2) / (2.0 * half)
        y = 1 - np.abs(np.arange(height) / half - center)
        x = 1 - np.abs(np.arange(width) / half - center)
        array[:] = np.broadcast_to(np.outer(y, x), array.shape).astype(array.dtype)


@register
class LSTMBias(Initializer):
    """The bias of an LSTM: 0, but `forget_bias` for the forget gates, the second quarter."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, array: NDArray) -> None:
        bias = np.zeros(array.shape, np.dtype(array.dtype))
        quarter = array.shape[0] // 4
        bias[quarter : 2 * quarter] = self.forget_bias
        array[:] = bias
