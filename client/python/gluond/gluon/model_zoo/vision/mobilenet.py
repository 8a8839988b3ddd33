"""MobileNet, and V2, of "MobileNetV2: Inverted residuals and linear bottlenecks"."""
from __future__ import annotations

from typing import Any, Optional

from ....context import Context, cpu
from ..._hybrid_block import HybridBlock
from ...nn.activations import Activation
from ...nn.basic_layers import Dense, Flatten
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.norm_layers import BatchNorm
from ...nn.pool_layers import GlobalAvgPool2D
from .. import model_store
from ._network import Network

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "mobilenet1_0",
    "mobilenet_v2_1_0",
    "mobilenet0_75",
    "mobilenet_v2_0_75",
    "mobilenet0_5",
    "mobilenet_v2_0_5",
    "mobilenet0_25",
    "mobilenet_v2_0_25",
    "get_mobilenet",
    "get_mobilenet_v2",
]


class RELU6(HybridBlock):
    """Numbers limited to 0..6."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        return F.clip(x, 0, 6, name="relu6")


def _add_conv(
    row: HybridSequential, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1, active: Optional[str] = "relu"
) -> None:
    """Adds a convolution, normalization, and 'relu', 'relu6' or nothing."""
    row.add(Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False), BatchNorm())
    if active is not None:
        row.add(RELU6() if active == "relu6" else Activation(active))


class LinearBottleneck(HybridBlock):
    """`t` times as many channels, a convolution in each alone, and `channels` of them; plus x where the shapes agree."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        with self.name_scope():
            self.out = HybridSequential()
            _add_conv(self.out, in_channels * t, active="relu6")
            _add_conv(self.out, in_channels * t, 3, stride, in_channels * t, "relu6")
            _add_conv(self.out, channels, active=None)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, in_channels, H, W) -> (N, channels, H / stride, W / stride)."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Network):
    """Convolutions in each channel alone, each with one over the channels behind it. `multiplier`: of all channels."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        channels = [int(each * multiplier) for each in (32, 64, 128, 128, 256, 256) + (512,) * 6 + (1024, 1024)]
        strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            _add_conv(self.features, channels[0], 3, 2)
            for before, after, stride in zip(channels, channels[1:], strides):
                _add_conv(self.features, before, 3, stride, before)
                _add_conv(self.features, after)
            self.features.add(GlobalAvgPool2D(), Flatten())
            self.output = Dense(classes)


class MobileNetV2(Network):
    """Seventeen LinearBottlenecks. `multiplier`: of all channels."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        channels = [
            int(each * multiplier) for each in (32, 16) + (24,) * 2 + (32,) * 3 + (64,) * 4 + (96,) * 3 + (160,) * 3 + (320,)
        ]
        strides = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
        with self.name_scope():
            self.features = HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add_conv(self.features, channels[0], 3, 2, active="relu6")
                for i, stride in enumerate(strides):
                    self.features.add(LinearBottleneck(channels[i], channels[i + 1], 6 if i else 1, stride))
                _add_conv(self.features, int(1280 * max(multiplier, 1)), active="relu6")
                self.features.add(GlobalAvgPool2D())
            self.output = HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(Conv2D(classes, 1, use_bias=False, prefix="pred_"), Flatten())


def _version(multiplier: float) -> str:
    """1.0, 0.75, 0.5 or 0.25, as in the names of files."""
    return f"{multiplier:.2f}" if f"{multiplier:.2f}"[-1] != "0" else f"{multiplier:.1f}"


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any
) -> MobileNet:
    """MobileNet of 1.0, 0.75, 0.5 or 0.25 times the channels. `pretrained`, `ctx`, `root`: as for alexnet."""
    return model_store.load(MobileNet(multiplier, **kwargs), pretrained, f"mobilenet{_version(multiplier)}", ctx, root)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any
) -> MobileNetV2:
    """MobileNet V2 of 1.0, 0.75, 0.5 or 0.25 times the channels. `pretrained`, `ctx`, `root`: as for alexnet."""
    return model_store.load(MobileNetV2(multiplier, **kwargs), pretrained, f"mobilenetv2_{_version(multiplier)}", ctx, root)


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """MobileNet of 1.0 times the channels; see get_mobilenet."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """MobileNet of 0.75 times the channels; see get_mobilenet."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """MobileNet of 0.5 times the channels; see get_mobilenet."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """MobileNet of 0.25 times the channels; see get_mobilenet."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """MobileNet V2 of 1.0 times the channels; see get_mobilenet_v2."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """MobileNet V2 of 0.75 times the channels; see get_mobilenet_v2."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """MobileNet V2 of 0.5 times the channels; see get_mobilenet_v2."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """MobileNet V2 of 0.25 times the channels; see get_mobilenet_v2."""
    return get_mobilenet_v2(0.25, **kwargs)
