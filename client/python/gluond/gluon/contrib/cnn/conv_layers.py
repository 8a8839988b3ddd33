"""Convolutions that learn where to read: DeformableConvolution and ModulatedDeformableConvolution."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from ..._hybrid_block import HybridBlock
from ...nn.activations import Activation

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]

Sizes = Union[int, Sequence[int]]


class DeformableConvolution(HybridBlock):
    """A 2-D convolution whose window's places are moved as another convolution of the data says (Dai et al., 2017).

    Has offset_weight and offset_bias, and deformable_conv_weight and deformable_conv_bias, as of Conv2D. num_deformable_group:
    parts of the channels that are moved each by itself. layout: NCHW.
    """

    _maps = 2  # Numbers for each place of a window.

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes = (1, 1),
        strides: Sizes = (1, 1),
        padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: Optional[str] = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: Optional[str] = None,
        adj: Any = None,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if layout != "NCHW":
            raise AssertionError(f"{type(self).__name__}: layout is 'NCHW', got '{layout}'")
        kernel = _two(kernel_size)
        self._conv = {
            "kernel": kernel,
            "stride": _two(strides),
            "dilate": _two(dilation),
            "pad": _two(padding),
            "num_group": groups,
            "layout": layout,
            **({"adj": adj} if adj else {}),
        }
        self._moved = num_deformable_group * kernel[0] * kernel[1]
        self._groups, self._channels = num_deformable_group, channels
        with self.name_scope():
            for name, out, weight_init, bias_init, has_bias in (
                ("offset", self._maps * self._moved, offset_weight_initializer, offset_bias_initializer, offset_use_bias),
                ("deformable_conv", channels, weight_initializer, bias_initializer, use_bias),
            ):
                shapes = {"weight": ((out, in_channels // groups, *kernel), weight_init), "bias": ((out,), bias_init)}
                for part, (shape, init) in shapes.items():
                    setattr(
                        self,
                        f"{name}_{part}",
                        None
                        if part == "bias" and not has_bias
                        else self.params.get(f"{name}_{part}", shape=shape, init=init, allow_deferred_init=True),
                    )
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,  # noqa: N803
        deformable_conv_bias: Any = None,
    ) -> Any:
        """(N, C, height, width) -> (N, channels, rows, columns)."""
        bias = [] if offset_bias is None else [offset_bias]
        moves = F.Convolution(x, offset_weight, *bias, num_filter=self._maps * self._moved, no_bias=not bias, **self._conv)
        bias = [] if deformable_conv_bias is None else [deformable_conv_bias]
        out = self._convolve(
            F,
            x,
            moves,
            deformable_conv_weight,
            *bias,
            num_filter=self._channels,
            no_bias=not bias,
            num_deformable_group=self._groups,
            name="fwd",
            **self._conv,
        )
        return self.act(out) if self.act else out

    def _convolve(self, F: Any, x: Any, moves: Any, *weights: Any, **how: Any) -> Any:  # noqa: N803
        return F.contrib.DeformableConvolution(x, moves, *weights, **how)

    def _alias(self) -> str:
        return "deformable_conv"

    def __repr__(self) -> str:
        rows, columns = self.deformable_conv_weight.shape[:2]  # type: ignore[attr-defined]
        shown = [f"{columns or None} -> {rows}"]
        shown += [
            f"{label}={self._conv[name]}"
            for label, name, usual in (
                ("kernel_size", "kernel", None),
                ("stride", "stride", None),
                ("padding", "pad", (0, 0)),
                ("dilation", "dilate", (1, 1)),
                ("groups", "num_group", 1),
            )
            if self._conv[name] != usual
        ]
        shown += ["bias=False"] * (self.deformable_conv_bias is None)  # type: ignore[attr-defined]
        shown += [str(self.act)] * bool(self.act)
        return f"{type(self).__name__}({', '.join(shown)})"


class ModulatedDeformableConvolution(DeformableConvolution):
    """A DeformableConvolution that also learns how much each place counts, from 0 to 2 (Zhu et al., 2018)."""

    _maps = 3

    def _convolve(self, F: Any, x: Any, moves: Any, *weights: Any, **how: Any) -> Any:  # noqa: N803
        offset = F.slice_axis(moves, axis=1, begin=0, end=2 * self._moved)
        mask = F.sigmoid(F.slice_axis(moves, axis=1, begin=2 * self._moved, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(x, offset, mask, *weights, **how)

    def _alias(self) -> str:
        return "modulated_deformable_conv"


def _two(sizes: Sizes) -> Tuple[int, ...]:
    return (sizes, sizes) if isinstance(sizes, int) else tuple(sizes)
