"""Layers that MXNet kept in `gluon.contrib.nn`."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from .... import ndarray
from ..._hybrid_block import HybridBlock
from ...nn.basic_layers import Embedding
from ...nn.containers import HybridSequential, Sequential
from ...nn.norm_layers import BatchNorm

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "SparseEmbedding",
    "SyncBatchNorm",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
]


class Concurrent(Sequential):
    """Gives its input to every child, and concatenates their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: Optional[str] = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """The concatenation."""
        return ndarray.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """Gives its input to every child, and concatenates their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: Optional[str] = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """The concatenation."""
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """Its input: a branch of HybridConcurrent that skips."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """x."""
        return x


class SparseEmbedding(Embedding):
    """Embedding; gradients here are dense."""

    def __init__(
        self, input_dim: int, output_dim: int, dtype: str = "float32", weight_initializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(input_dim, output_dim, dtype, weight_initializer, **kwargs)


class SyncBatchNorm(BatchNorm):
    """BatchNorm. A batch that is split over devices is normalized on each by itself; `num_devices` must be 1 or None."""

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: Optional[int] = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        **kwargs: Any,
    ) -> None:
        if num_devices not in (None, 1):
            raise ValueError(f"SyncBatchNorm: statistics are not shared between devices; num_devices is {num_devices}.")
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, in_channels=in_channels, **kwargs)


class _PixelShuffle(HybridBlock):
    """(N, C f1 f2 ..., D1, D2, ...) -> (N, C, D1 f1, D2 f2, ...): channels become finer positions."""

    _dims = 1

    def __init__(self, factor: Union[int, Sequence[int]]) -> None:
        super().__init__()
        self._factors: Tuple[int, ...] = (factor,) * self._dims if isinstance(factor, int) else tuple(factor)
        if len(self._factors) != self._dims:
            raise AssertionError(f"wrong length {len(self._factors)} of factors, need {self._dims}")

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """See the class."""
        # One dimension after the other: (N, C f.., D..) -> (N, C .., f, D..) with f moved behind its dimension.
        for i, factor in reversed(list(enumerate(self._factors))):
            x = F.reshape(x, shape=(0, -4, -1, factor, -2))  # (N, C', f, D1, ...)
            for axis in range(2, 3 + i):
                x = F.swapaxes(x, axis, axis + 1)  # f moves right, behind D(i + 1).
            x = F.reshape(x, shape=(0,) * (3 + i - 1) + (-3, -2))
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors[0] if self._dims == 1 else self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """(N, C f, W) -> (N, C, W f)."""


class PixelShuffle2D(_PixelShuffle):
    """(N, C f1 f2, H, W) -> (N, C, H f1, W f2)."""

    _dims = 2


class PixelShuffle3D(_PixelShuffle):
    """(N, C f1 f2 f3, D, H, W) -> (N, C, D f1, H f2, W f3)."""

    _dims = 3
