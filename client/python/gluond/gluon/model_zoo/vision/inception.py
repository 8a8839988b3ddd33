"""Inception V3, of "Rethinking the Inception architecture for computer vision"."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from ....context import Context, cpu
from ...contrib.nn.basic_layers import HybridConcurrent
from ...nn.activations import Activation
from ...nn.basic_layers import Dense, Dropout
from ...nn.containers import HybridSequential
from ...nn.conv_layers import Conv2D, Ints
from ...nn.norm_layers import BatchNorm
from ...nn.pool_layers import AvgPool2D, MaxPool2D
from .. import model_store
from ._network import Network

__all__ = ["Inception3", "inception_v3"]

# A convolution's channels, kernel, strides and padding.
_Conv = Tuple[Any, ...]


def _conv(channels: int, kernel: Ints, strides: Ints = 1, padding: Ints = 0) -> HybridSequential:
    row = HybridSequential(prefix="")
    row.add(Conv2D(channels, kernel, strides, padding, use_bias=False), BatchNorm(epsilon=0.001), Activation("relu"))
    return row


def _across(channels: int, size: int) -> _Conv:
    """A kernel of `size` numbers in a row."""
    return channels, (1, size), 1, (0, size // 2)


def _down(channels: int, size: int) -> _Conv:
    """A kernel of `size` numbers in a column."""
    return channels, (size, 1), 1, (size // 2, 0)


def _row(*convs: _Conv, pool: str = "", split: bool = False) -> HybridSequential:
    """A pooling 'avg' or 'max', then convolutions, and with `split` two beside each other behind them."""
    row = HybridSequential(prefix="")
    if pool:
        row.add(AvgPool2D(3, 1, 1) if pool == "avg" else MaxPool2D(3, 2))
    row.add(*[_conv(*each) for each in convs])
    if not split:
        return row
    beside = HybridConcurrent(axis=1, prefix="")
    beside.add(_row(_across(384, 3)), _row(_down(384, 3)))
    both = HybridSequential(prefix="")
    both.add(row, beside)
    return both


def _mixed(letter: str, number: str = "", channels: int = 0) -> HybridConcurrent:
    """The paper's mixture of rows beside each other, of figures 5 to 7 and between them. `channels` of A and C vary."""
    mixed = HybridConcurrent(axis=1, prefix=f"{letter}{number}_")
    with mixed.name_scope():
        if letter == "A":
            mixed.add(
                _row((64, 1)),
                _row((48, 1), (64, 5, 1, 2)),
                _row((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
                _row((channels, 1), pool="avg"),
            )
        elif letter == "B":
            mixed.add(_row((384, 3, 2)), _row((64, 1), (96, 3, 1, 1), (96, 3, 2)), _row(pool="max"))
        elif letter == "C":
            mixed.add(
                _row((192, 1)),
                _row((channels, 1), _across(channels, 7), _down(192, 7)),
                _row((channels, 1), _down(channels, 7), _across(channels, 7), _down(channels, 7), _across(192, 7)),
                _row((192, 1), pool="avg"),
            )
        elif letter == "D":
            mixed.add(_row((192, 1), (320, 3, 2)), _row((192, 1), _across(192, 7), _down(192, 7), (192, 3, 2)), _row(pool="max"))
        else:
            mixed.add(
                _row((320, 1)), _row((384, 1), split=True), _row((448, 1), (384, 3, 1, 1), split=True), _row((192, 1), pool="avg")
            )
    return mixed


class Inception3(Network):
    """Eleven mixtures of convolutions of several sizes, for images of 299 by 299."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(
                _conv(32, 3, 2),
                _conv(32, 3),
                _conv(64, 3, 1, 1),
                MaxPool2D(3, 2),
                _conv(80, 1),
                _conv(192, 3),
                MaxPool2D(3, 2),
                _mixed("A", "1", 32),
                _mixed("A", "2", 64),
                _mixed("A", "3", 64),
                _mixed("B"),
                _mixed("C", "1", 128),
                _mixed("C", "2", 160),
                _mixed("C", "3", 160),
                _mixed("C", "4", 192),
                _mixed("D"),
                _mixed("E", "1"),
                _mixed("E", "2"),
                AvgPool2D(8),
                Dropout(0.5),
            )
            self.output = Dense(classes)


def inception_v3(pretrained: bool = False, ctx: Context = cpu(), root: Optional[str] = None, **kwargs: Any) -> Inception3:
    """Inception V3. `pretrained`, `ctx`, `root`: as for alexnet."""
    return model_store.load(Inception3(**kwargs), pretrained, "inceptionv3", ctx, root)
