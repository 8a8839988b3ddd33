"""Convolutions and transposed convolutions, of 1, 2 and 3 dimensions."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ... import symbol
from .._hybrid_block import HybridBlock
from .activations import Activation

Ints = Union[int, Sequence[int]]


def repeated(value: Ints, count: int, name: str) -> Tuple[int, ...]:
    """One number for each of `count` dimensions."""
    found = (value,) * count if isinstance(value, int) else tuple(value)
    if len(found) != count:
        raise ValueError(f"{name} must be a number or {count} numbers, got {value}")
    return found


def _infer_weight_shape(op_name: str, data_shape: Sequence[int], kwargs: Dict[str, Any]) -> List[Tuple[int, ...]]:
    """The shapes of an operator's arguments, data first. Libraries' own convolutions import it."""
    return getattr(symbol, op_name)(symbol.var("data", shape=data_shape), **kwargs).infer_shape_partial()[0]


class _Conv(HybridBlock):
    """A convolution over the last dimensions of (N, C, ...), or of (N, ..., C) by `layout`.

    Weight (channels, in_channels / groups, *kernel), transposed (in_channels, channels / groups, *kernel).
    """

    _transposed = False

    def __init__(
        self,
        dims: int,
        layouts: Sequence[str],
        channels: int,
        kernel_size: Ints,
        strides: Ints,
        padding: Ints,
        dilation: Ints,
        groups: int,
        layout: str,
        in_channels: int,
        activation: Optional[str],
        use_bias: bool,
        weight_initializer: Any,
        bias_initializer: Any,
        output_padding: Optional[Ints] = None,
        **kwargs: Any,
    ) -> None:
        if layout not in layouts:
            raise AssertionError(f"{type(self).__name__} supports the layouts {', '.join(layouts)}, not {layout}")
        super().__init__(**kwargs)
        self._channels = channels
        self._in_channels = in_channels
        self._kwargs: Dict[str, Any] = {
            "kernel": repeated(kernel_size, dims, "kernel_size"),
            "stride": repeated(strides, dims, "strides"),
            "dilate": repeated(dilation, dims, "dilation"),
            "pad": repeated(padding, dims, "padding"),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if output_padding is not None:
            self._kwargs["adj"] = repeated(output_padding, dims, "output_padding")
        with self.name_scope():
            self.weight = self.params.get("weight", shape=self._weight_shape(), init=weight_initializer, allow_deferred_init=True)
            self.bias: Any = (
                self.params.get("bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True) if use_bias else None
            )
            self.act = Activation(activation, prefix=activation + "_") if activation is not None else None

    def _weight_shape(self) -> Tuple[int, ...]:
        """In the layout's order, with O and I for N and C."""
        groups, kernel = self._kwargs["num_group"], self._kwargs["kernel"]
        out, inner = self._channels, self._in_channels
        first, second = (inner, out // groups) if self._transposed else (out, inner // groups)
        return (first,) + kernel + (second,) if self._kwargs["layout"].endswith("C") else (first, second) + kernel

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # noqa: N803
        """(N, C, ...) -> (N, channels, ...)."""
        operator = F.Deconvolution if self._transposed else F.Convolution
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = operator(*inputs, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        kwargs = self._kwargs
        parts = [
            f"{self._known_in_channels()} -> {self._channels}",
            f"kernel_size={kwargs['kernel']}",
            f"stride={kwargs['stride']}",
        ]
        dims = len(kwargs["kernel"])
        for name, shown, plain in (
            ("pad", "padding", (0,) * dims),
            ("dilate", "dilation", (1,) * dims),
            ("adj", "output_padding", (0,) * dims),
            ("num_group", "groups", 1),
        ):
            if kwargs.get(name, plain) != plain:
                parts.append(f"{shown}={kwargs[name]}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"

    def _known_in_channels(self) -> Optional[int]:
        shape, last = self.weight.shape, self._kwargs["layout"].endswith("C")
        if self._transposed:
            return shape[0] or None
        return (shape[-1] if last else shape[1]) * self._kwargs["num_group"] or None


class Conv1D(_Conv):
    """(N, in_channels, W) -> (N, channels, W'), W' = (W + 2 padding - dilation (kernel_size - 1) - 1) // strides + 1."""

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = 1,
        padding: Ints = 0,
        dilation: Ints = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1,
            ("NCW", "NWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv2D(_Conv):
    """(N, in_channels, H, W) -> (N, channels, H', W'), each as for Conv1D."""

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = (1, 1),
        padding: Ints = (0, 0),
        dilation: Ints = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2,
            ("NCHW", "NHWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv3D(_Conv):
    """(N, in_channels, D, H, W) -> (N, channels, D', H', W'), each as for Conv1D."""

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = (1, 1, 1),
        padding: Ints = (0, 0, 0),
        dilation: Ints = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            3,
            ("NCDHW", "NDHWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class _ConvTranspose(_Conv):
    _transposed = True


class Conv1DTranspose(_ConvTranspose):
    """(N, in_channels, W) -> (N, channels, W'): the gradient of Conv1D, as a layer.

    W' = (W - 1) strides - 2 padding + dilation (kernel_size - 1) + output_padding + 1.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        dilation: Ints = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1,
            ("NCW", "NWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            output_padding=output_padding,
            **kwargs,
        )


class Conv2DTranspose(_ConvTranspose):
    """(N, in_channels, H, W) -> (N, channels, H', W'), each as for Conv1DTranspose."""

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = (1, 1),
        padding: Ints = (0, 0),
        output_padding: Ints = (0, 0),
        dilation: Ints = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2,
            ("NCHW", "NHWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            output_padding=output_padding,
            **kwargs,
        )


class Conv3DTranspose(_ConvTranspose):
    """(N, in_channels, D, H, W) -> (N, channels, D', H', W'), each as for Conv1DTranspose."""

    def __init__(
        self,
        channels: int,
        kernel_size: Ints,
        strides: Ints = (1, 1, 1),
        padding: Ints = (0, 0, 0),
        output_padding: Ints = (0, 0, 0),
        dilation: Ints = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: Optional[str] = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            3,
            ("NCDHW", "NDHWC"),
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            output_padding=output_padding,
            **kwargs,
        )
