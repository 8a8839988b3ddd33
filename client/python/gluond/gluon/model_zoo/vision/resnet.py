"""ResNet V1, of "Deep residual learning for image recognition", and V2, of "Identity mappings in deep residual networks"."""
from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from ....context import Context, cpu
from ..._hybrid_block import HybridBlock
from ...nn.activations import Activation
from ...nn.basic_layers import Dense, Flatten
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.norm_layers import BatchNorm
from ...nn.pool_layers import GlobalAvgPool2D, MaxPool2D
from .. import model_store
from ._network import Network

__all__ = [
    "ResNetV1",
    "ResNetV2",
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "resnet18_v1",
    "resnet34_v1",
    "resnet50_v1",
    "resnet101_v1",
    "resnet152_v1",
    "resnet18_v2",
    "resnet34_v2",
    "resnet50_v2",
    "resnet101_v2",
    "resnet152_v2",
    "get_resnet",
]


def _conv3x3(channels: int, stride: int, in_channels: int) -> Conv2D:
    return Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int = 1, in_channels: int = 0) -> Conv2D:
    return Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + x), with x as `channels` channels of 1 / `stride` of the size if `downsample`.

    (N, in_channels, H, W) -> (N, channels, H / stride, W / stride).
    """

    _around_first = False  # The order of the sum, and so of the arguments of the network's graph.

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.body = HybridSequential(prefix="")
        self._add_body(channels, stride, in_channels)
        self.downsample: Any = None
        if downsample:
            self.downsample = HybridSequential(prefix="")
            self.downsample.add(_conv1x1(channels, stride, in_channels), BatchNorm())

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, in_channels, H, W) -> (N, channels, H / stride, W / stride)."""
        out = self.body(x)
        around = self.downsample(x) if self.downsample else x
        return F.Activation(around + out if self._around_first else out + around, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions and a way around them, for ResNet V1 of 18 and 34 layers."""

    _around_first = True

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        self.body.add(
            _conv3x3(channels, stride, in_channels), BatchNorm(), Activation("relu"), _conv3x3(channels, 1, channels), BatchNorm()
        )


class BottleneckV1(_BlockV1):
    """Three convolutions, the middle one of a quarter of the channels, and a way around them, for ResNet V1 from 50 layers."""

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        self.body.add(
            Conv2D(channels // 4, 1, stride),
            BatchNorm(),
            Activation("relu"),
            _conv3x3(channels // 4, 1, channels // 4),
            BatchNorm(),
            Activation("relu"),
            Conv2D(channels, 1),
            BatchNorm(),
        )


class _BlockV2(HybridBlock):
    """Convolutions with normalization and relu before each, and a way around them behind the first relu if `downsample`."""

    downsample: Any

    def _add_downsample(self, channels: int, stride: int, downsample: bool, in_channels: int) -> None:
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def _steps(self) -> Sequence[Tuple[Any, Any]]:
        """Pairs of a normalization and a convolution."""
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, in_channels, H, W) -> (N, channels, H / stride, W / stride)."""
        around = x
        for i, (normalize, convolve) in enumerate(self._steps()):
            x = F.Activation(normalize(x), act_type="relu")
            if i == 0 and self.downsample:
                around = self.downsample(x)
            x = convolve(x)
        return x + around


class BasicBlockV2(_BlockV2):
    """Two convolutions and a way around them, for ResNet V2 of 18 and 34 layers."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bn1 = BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self._add_downsample(channels, stride, downsample, in_channels)

    def _steps(self) -> Sequence[Tuple[Any, Any]]:
        return (self.bn1, self.conv1), (self.bn2, self.conv2)


class BottleneckV2(_BlockV2):
    """Three convolutions, the middle one of a quarter of the channels, and a way around them, for ResNet V2 from 50 layers."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bn1 = BatchNorm()
        self.conv1 = _conv1x1(channels // 4)
        self.bn2 = BatchNorm()
        self.conv2 = _conv3x3(channels // 4, stride, channels // 4)
        self.bn3 = BatchNorm()
        self.conv3 = _conv1x1(channels)
        self._add_downsample(channels, stride, downsample, in_channels)

    def _steps(self) -> Sequence[Tuple[Any, Any]]:
        return (self.bn1, self.conv1), (self.bn2, self.conv2), (self.bn3, self.conv3)


class _ResNet(Network):
    """Stages of `layers` blocks of `channels`, of which the first number is that of the convolution before them.

    `thumbnail`: for small images; they are not made smaller before the stages. `block` is a class of blocks.
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(layers) != len(channels) - 1:
            raise AssertionError(
                f"{type(self).__name__}: {len(layers)} stages need {len(layers) + 1} numbers of channels, " f"not {len(channels)}."
            )
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self._begin()
            if thumbnail:
                self.features.add(_conv3x3(channels[0], 1, 0))
            else:
                self.features.add(Conv2D(channels[0], 7, 2, 3, use_bias=False), BatchNorm(), Activation("relu"), MaxPool2D(3, 2, 1))
            for i, count in enumerate(layers):
                self.features.add(_stage(block, count, channels[i + 1], 1 if i == 0 else 2, i + 1, channels[i]))
            self._end()
            self.output = Dense(classes, in_units=channels[-1])

    def _begin(self) -> None:
        """Adds what is before the first convolution."""

    def _end(self) -> None:
        """Adds what is behind the stages."""
        raise NotImplementedError


def _stage(
    block: Callable[..., HybridBlock], count: int, channels: int, stride: int, number: int, in_channels: int
) -> HybridSequential:
    stage = HybridSequential(prefix=f"stage{number}_")
    with stage.name_scope():
        stage.add(block(channels, stride, channels != in_channels, in_channels=in_channels, prefix=""))
        for _ in range(count - 1):
            stage.add(block(channels, 1, False, in_channels=channels, prefix=""))
    return stage


class ResNetV1(_ResNet):
    """ResNet with the relu behind each block."""

    def _end(self) -> None:
        self.features.add(GlobalAvgPool2D())


class ResNetV2(_ResNet):
    """ResNet with normalization and relu before the convolutions of each block."""

    def _begin(self) -> None:
        self.features.add(BatchNorm(scale=False, center=False))

    def _end(self) -> None:
        self.features.add(BatchNorm(), Activation("relu"), GlobalAvgPool2D(), Flatten())


_NARROW, _WIDE = (64, 64, 128, 256, 512), (64, 256, 512, 1024, 2048)
# By the number of layers: the kind of blocks, their number in each stage, and the channels.
resnet_spec: Dict[int, Tuple[str, Sequence[int], Sequence[int]]] = {
    18: ("basic_block", (2, 2, 2, 2), _NARROW),
    34: ("basic_block", (3, 4, 6, 3), _NARROW),
    50: ("bottle_neck", (3, 4, 6, 3), _WIDE),
    101: ("bottle_neck", (3, 4, 23, 3), _WIDE),
    152: ("bottle_neck", (3, 8, 36, 3), _WIDE),
}
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions: Sequence[Mapping[str, Any]] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(
    version: int, num_layers: int, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any
) -> Any:
    """ResNet V1 or V2 of 18, 34, 50, 101 or 152 layers. `pretrained`, `ctx`, `root`: as for alexnet."""
    if num_layers not in resnet_spec:
        raise AssertionError(f"Invalid number of layers: {num_layers}. Options are {', '.join(map(str, resnet_spec))}")
    if version not in (1, 2):
        raise AssertionError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return model_store.load(net, pretrained, f"resnet{num_layers}_v{version}", ctx, root)


def resnet18_v1(**kwargs: Any) -> ResNetV1:
    """ResNet V1 of 18 layers; see get_resnet."""
    return get_resnet(1, 18, **kwargs)


def resnet34_v1(**kwargs: Any) -> ResNetV1:
    """ResNet V1 of 34 layers; see get_resnet."""
    return get_resnet(1, 34, **kwargs)


def resnet50_v1(**kwargs: Any) -> ResNetV1:
    """ResNet V1 of 50 layers; see get_resnet."""
    return get_resnet(1, 50, **kwargs)


def resnet101_v1(**kwargs: Any) -> ResNetV1:
    """ResNet V1 of 101 layers; see get_resnet."""
    return get_resnet(1, 101, **kwargs)


def resnet152_v1(**kwargs: Any) -> ResNetV1:
    """ResNet V1 of 152 layers; see get_resnet."""
    return get_resnet(1, 152, **kwargs)


def resnet18_v2(**kwargs: Any) -> ResNetV2:
    """ResNet V2 of 18 layers; see get_resnet."""
    return get_resnet(2, 18, **kwargs)


def resnet34_v2(**kwargs: Any) -> ResNetV2:
    """ResNet V2 of 34 layers; see get_resnet."""
    return get_resnet(2, 34, **kwargs)


def resnet50_v2(**kwargs: Any) -> ResNetV2:
    """ResNet V2 of 50 layers; see get_resnet."""
    return get_resnet(2, 50, **kwargs)


def resnet101_v2(**kwargs: Any) -> ResNetV2:
    """ResNet V2 of 101 layers; see get_resnet."""
    return get_resnet(2, 101, **kwargs)


def resnet152_v2(**kwargs: Any) -> ResNetV2:
    """ResNet V2 of 152 layers; see get_resnet."""
    return get_resnet(2, 152, **kwargs)
