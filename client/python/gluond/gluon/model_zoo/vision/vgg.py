"""VGG, of "Very deep convolutional networks for large-scale image recognition"."""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from ....context import Context, cpu
from ....initializer import Xavier
from ...nn.activations import Activation
from ...nn.basic_layers import Dense, Dropout
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D
from ...nn.norm_layers import BatchNorm
from ...nn.pool_layers import MaxPool2D
from .. import model_store
from ._network import Network

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn", "get_vgg"]

_FILTERS = (64, 128, 256, 512, 512)
# By the number of layers: the convolutions in each part, and their filters.
vgg_spec: Dict[int, Tuple[Sequence[int], Sequence[int]]] = {
    11: ((1, 1, 2, 2, 2), _FILTERS),
    13: ((2, 2, 2, 2, 2), _FILTERS),
    16: ((2, 2, 3, 3, 3), _FILTERS),
    19: ((2, 2, 4, 4, 4), _FILTERS),
}


class VGG(Network):
    """Parts of `layers` convolutions of `filters` channels with a pooling behind each part, and three dense layers."""

    def __init__(
        self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000, batch_norm: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if len(layers) != len(filters):
            raise AssertionError(f"VGG: there are {len(layers)} numbers of layers, and {len(filters)} of filters.")
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            for count, channels in zip(layers, filters):
                for _ in range(count):
                    self.features.add(Conv2D(channels, 3, padding=1, weight_initializer=Xavier("gaussian", "out", 2)))
                    if batch_norm:
                        self.features.add(BatchNorm())
                    self.features.add(Activation("relu"))
                self.features.add(MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(Dense(4096, activation="relu", weight_initializer="normal"), Dropout(0.5))
            self.output = Dense(classes, weight_initializer="normal")


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any) -> VGG:
    """VGG of 11, 13, 16 or 19 layers, with `batch_norm=True` normalized. `pretrained`, `ctx`, `root`: as for alexnet."""
    name = f"vgg{num_layers}" + ("_bn" if kwargs.get("batch_norm") else "")
    return model_store.load(VGG(*vgg_spec[num_layers], **kwargs), pretrained, name, ctx, root)


def vgg11(**kwargs: Any) -> VGG:
    """VGG of 11 layers; see get_vgg."""
    return get_vgg(11, **kwargs)


def vgg13(**kwargs: Any) -> VGG:
    """VGG of 13 layers; see get_vgg."""
    return get_vgg(13, **kwargs)


def vgg16(**kwargs: Any) -> VGG:
    """VGG of 16 layers; see get_vgg."""
    return get_vgg(16, **kwargs)


def vgg19(**kwargs: Any) -> VGG:
    """VGG of 19 layers; see get_vgg."""
    return get_vgg(19, **kwargs)


def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG of 11 layers with batch normalization; see get_vgg."""
    kwargs["batch_norm"] = True
    return get_vgg(11, **kwargs)


def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG of 13 layers with batch normalization; see get_vgg."""
    kwargs["batch_norm"] = True
    return get_vgg(13, **kwargs)


def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG of 16 layers with batch normalization; see get_vgg."""
    kwargs["batch_norm"] = True
    return get_vgg(16, **kwargs)


def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG of 19 layers with batch normalization; see get_vgg."""
    kwargs["batch_norm"] = True
    return get_vgg(19, **kwargs)
