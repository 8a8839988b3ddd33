"""SqueezeNet, of "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size", and its 1.1."""
from __future__ import annotations

from typing import Any, Optional

from ....context import Context, cpu
from ...contrib.nn.basic_layers import HybridConcurrent
from ...nn.activations import Activation
from ...nn.basic_layers import Dropout, Flatten
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.pool_layers import AvgPool2D, MaxPool2D
from .. import model_store
from ._network import Network

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# The first convolution's channels and kernel, and the squeezed channels of the fires; 0 is a pooling.
_VERSIONS = {"1.0": (96, 7, (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)), "1.1": (64, 3, (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64))}


class SqueezeNet(Network):
    """Fires: convolutions that squeeze the channels, each with two beside each other behind it that expand them."""

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if version not in _VERSIONS:
            raise AssertionError(f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected")
        channels, kernel, fires = _VERSIONS[version]
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(Conv2D(channels, kernel, 2), Activation("relu"))
            for squeezed in fires:
                self.features.add(_fire(squeezed) if squeezed else MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(Dropout(0.5))
            self.output = HybridSequential(prefix="")
            self.output.add(Conv2D(classes, 1), Activation("relu"), AvgPool2D(13), Flatten())


def _fire(squeezed: int) -> HybridSequential:
    """`squeezed` channels, then eight times as many."""
    fire = HybridSequential(prefix="")
    fire.add(_conv(squeezed, 1))
    expanded = HybridConcurrent(axis=1, prefix="")
    expanded.add(_conv(4 * squeezed, 1), _conv(4 * squeezed, 3))
    fire.add(expanded)
    return fire


def _conv(channels: int, kernel: int) -> HybridSequential:
    row = HybridSequential(prefix="")
    row.add(Conv2D(channels, kernel, padding=kernel // 2), Activation("relu"))
    return row


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet '1.0' or '1.1'. `pretrained`, `ctx`, `root`: as for alexnet."""
    return model_store.load(SqueezeNet(version, **kwargs), pretrained, f"squeezenet{version}", ctx, root)


def squeezenet1_0(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0; see get_squeezenet."""
    return get_squeezenet("1.0", **kwargs)


def squeezenet1_1(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1, which computes less than half as much; see get_squeezenet."""
    return get_squeezenet("1.1", **kwargs)
