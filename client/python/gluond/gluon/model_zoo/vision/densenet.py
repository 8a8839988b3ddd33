"""DenseNet, of "Densely connected convolutional networks"."""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from ....context import Context, cpu
from ...contrib.nn.basic_layers import HybridConcurrent, Identity
from ...nn.activations import Activation
from ...nn.basic_layers import Dense, Dropout, Flatten
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.norm_layers import BatchNorm
from ...nn.pool_layers import AvgPool2D, MaxPool2D
from .. import model_store
from ._network import Network

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


class DenseNet(Network):
    """Blocks of layers, each of which adds `growth_rate` channels to those of all layers before it.

    `block_config`: the layers of each block. Each has a first convolution of `bn_size * growth_rate` channels.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(
                Conv2D(num_init_features, 7, 2, 3, use_bias=False), BatchNorm(), Activation("relu"), MaxPool2D(3, 2, 1)
            )
            channels = num_init_features
            for i, count in enumerate(block_config):
                block = HybridSequential(prefix=f"stage{i + 1}_")
                with block.name_scope():
                    block.add(*[_layer(growth_rate, bn_size, dropout) for _ in range(count)])
                self.features.add(block)
                channels += count * growth_rate
                if i < len(block_config) - 1:
                    channels //= 2
                    self.features.add(_transition(channels))
            self.features.add(BatchNorm(), Activation("relu"), AvgPool2D(7), Flatten())
            self.output = Dense(classes)


def _layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """Its input, and `growth_rate` more channels."""
    new = HybridSequential(prefix="")
    new.add(
        BatchNorm(),
        Activation("relu"),
        Conv2D(bn_size * growth_rate, 1, use_bias=False),
        BatchNorm(),
        Activation("relu"),
        Conv2D(growth_rate, 3, padding=1, use_bias=False),
    )
    if dropout:
        new.add(Dropout(dropout))
    both = HybridConcurrent(axis=1, prefix="")
    both.add(Identity(), new)
    return both


def _transition(channels: int) -> HybridSequential:
    """Between two blocks: fewer channels, of half the height and width."""
    row = HybridSequential(prefix="")
    row.add(BatchNorm(), Activation("relu"), Conv2D(channels, 1, use_bias=False), AvgPool2D(2, 2))
    return row


# By the number of layers: the channels before the first block, the growth rate, and the layers of each block.
densenet_spec: Dict[int, Tuple[int, int, Sequence[int]]] = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 121, 161, 169 or 201 layers. `pretrained`, `ctx`, `root`: as for alexnet."""
    return model_store.load(DenseNet(*densenet_spec[num_layers], **kwargs), pretrained, f"densenet{num_layers}", ctx, root)


def densenet121(**kwargs: Any) -> DenseNet:
    """DenseNet of 121 layers; see get_densenet."""
    return get_densenet(121, **kwargs)


def densenet161(**kwargs: Any) -> DenseNet:
    """DenseNet of 161 layers; see get_densenet."""
    return get_densenet(161, **kwargs)


def densenet169(**kwargs: Any) -> DenseNet:
    """DenseNet of 169 layers; see get_densenet."""
    return get_densenet(169, **kwargs)


def densenet201(**kwargs: Any) -> DenseNet:
    """DenseNet of 201 layers; see get_densenet."""
    return get_densenet(201, **kwargs)
