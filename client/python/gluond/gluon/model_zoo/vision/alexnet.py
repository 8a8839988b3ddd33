"""AlexNet, of "One weird trick for parallelizing convolutional neural networks"."""
from __future__ import annotations

from typing import Any, Optional

from ....context import Context, cpu
from ...nn.basic_layers import Dense, Dropout, Flatten
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.pool_layers import MaxPool2D
from .. import model_store
from ._network import Network

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Network):
    """Five convolutions and three dense layers, for images of 224 by 224."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(
                Conv2D(64, 11, 4, 2, activation="relu"),
                MaxPool2D(3, 2),
                Conv2D(192, 5, padding=2, activation="relu"),
                MaxPool2D(3, 2),
            )
            for channels in (384, 256, 256):
                self.features.add(Conv2D(channels, 3, padding=1, activation="relu"))
            self.features.add(MaxPool2D(3, 2), Flatten())
            for _ in range(2):
                self.features.add(Dense(4096, activation="relu"), Dropout(0.5))
            self.output = Dense(classes)


def alexnet(pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any) -> AlexNet:
    """AlexNet; if `pretrained`, with the parameters of a file in the folder `root`, on `ctx` (see model_store)."""
    return model_store.load(AlexNet(**kwargs), pretrained, "alexnet", ctx, root)
