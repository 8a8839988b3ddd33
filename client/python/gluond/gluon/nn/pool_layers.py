"""Pooling, of 1, 2 and 3 dimensions, and reflection padding."""
from __future__ import annotations

from typing import Any, Dict, Optional

from .._hybrid_block import HybridBlock
from .conv_layers import Ints, repeated

_CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


class _Pooling(HybridBlock):
    """The maximum or mean of windows of `pool_size`, `strides` (default: pool_size) apart.

    The last window is left out where it is not whole, or cut with `ceil_mode`.
    """

    _dims = 2
    _type = "max"
    _global = False

    def __init__(
        self,
        pool_size: Ints,
        strides: Optional[Ints],
        padding: Ints,
        ceil_mode: bool,
        layout: Optional[str],
        count_include_pad: Optional[bool] = None,
        **kwargs: Any,
    ) -> None:
        dims = self._dims
        layout = layout or _CHANNELS_FIRST[dims]
        if layout not in (_CHANNELS_FIRST[dims], _CHANNELS_LAST[dims]):
            raise AssertionError(
                f"Only {_CHANNELS_FIRST[dims]} and {_CHANNELS_LAST[dims]} layouts are valid for " f"{dims}D Pooling, not {layout}"
            )
        super().__init__(**kwargs)
        kernel = repeated(pool_size, dims, "pool_size")
        self._kwargs: Dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else repeated(strides, dims, "strides"),
            "pad": repeated(padding, dims, "padding"),
            "global_pool": self._global,
            "pool_type": self._type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, C, ...) -> (N, C, ...), or with channels last both."""
        first, dims = _CHANNELS_FIRST[self._dims], range(1, self._dims + 1)
        if self._kwargs["layout"] == first:
            return F.Pooling(x, name="fwd", **self._kwargs)
        pooled = F.Pooling(F.transpose(x, axes=(0, self._dims + 1, *dims)), **{**self._kwargs, "layout": first})
        return F.transpose(pooled, axes=(0, *(axis + 1 for axis in dims), 1), name="fwd")

    def __repr__(self) -> str:
        k = self._kwargs
        return (
            f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, "
            f"ceil_mode={k['pooling_convention'] == 'full'}, global_pool={self._global}, pool_type={self._type}, "
            f"layout={k['layout']})"
        )


class _MaxPool(_Pooling):
    def __init__(
        self,
        pool_size: Ints = 2,
        strides: Optional[Ints] = None,
        padding: Ints = 0,
        layout: Optional[str] = None,
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class _AvgPool(_Pooling):
    """`count_include_pad`: whether padding counts in the mean."""

    _type = "avg"

    def __init__(
        self,
        pool_size: Ints = 2,
        strides: Optional[Ints] = None,
        padding: Ints = 0,
        layout: Optional[str] = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class _GlobalPool(_Pooling):
    _global = True

    def __init__(self, layout: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, layout, **kwargs)


class MaxPool1D(_MaxPool):
    """Maxima of (N, C, W)."""

    _dims = 1


class MaxPool2D(_MaxPool):
    """Maxima of (N, C, H, W)."""


class MaxPool3D(_MaxPool):
    """Maxima of (N, C, D, H, W)."""

    _dims = 3

    # MXNet's order here, and in AvgPool2D and 3D: `ceil_mode` before `layout`.
    def __init__(
        self,
        pool_size: Ints = 2,
        strides: Optional[Ints] = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        layout: Optional[str] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, **kwargs)


class AvgPool1D(_AvgPool):
    """Means of (N, C, W)."""

    _dims = 1


class AvgPool2D(_AvgPool):
    """Means of (N, C, H, W)."""

    def __init__(
        self,
        pool_size: Ints = 2,
        strides: Optional[Ints] = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        layout: Optional[str] = None,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, count_include_pad, **kwargs)


class AvgPool3D(AvgPool2D):
    """Means of (N, C, D, H, W)."""

    _dims = 3


class GlobalMaxPool1D(_GlobalPool):
    """The maximum over W of (N, C, W)."""

    _dims = 1


class GlobalMaxPool2D(_GlobalPool):
    """The maximum over H and W of (N, C, H, W)."""


class GlobalMaxPool3D(_GlobalPool):
    """The maximum over D, H and W of (N, C, D, H, W)."""

    _dims = 3


class GlobalAvgPool1D(_GlobalPool):
    """The mean over W of (N, C, W)."""

    _dims = 1
    _type = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """The mean over H and W of (N, C, H, W)."""

    _type = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """The mean over D, H and W of (N, C, D, H, W)."""

    _dims = 3
    _type = "avg"


class ReflectionPad2D(HybridBlock):
    """(N, C, H, W) with `padding` more rows and columns on each side, mirrored at the border.

    `padding`: a number, or eight, before and after each axis.
    """

    def __init__(self, padding: Ints = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._padding = (0, 0, 0, 0) + (padding,) * 4 if isinstance(padding, int) else tuple(padding)
        if len(self._padding) != 8:
            raise AssertionError(f"padding must be a number or eight numbers, got {padding}")

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, C, H, W) -> (N, C, H + 2 padding, W + 2 padding)."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
