"""Layers of neural networks."""

from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish
from .basic_layers import Dense, Dropout, Embedding, Flatten, HybridLambda, Lambda
from .containers import HybridSequential, Sequential
from .conv_layers import Conv1D, Conv1DTranspose, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose
from .norm_layers import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
from .pool_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from .._block import Block
from .._hybrid_block import HybridBlock
from .._symbol_block import SymbolBlock

__all__ = [
    "Sequential",
    "HybridSequential",
    "Dense",
    "Dropout",
    "BatchNorm",
    "BatchNormReLU",
    "Embedding",
    "Flatten",
    "InstanceNorm",
    "LayerNorm",
    "GroupNorm",
    "Lambda",
    "HybridLambda",
    "Activation",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "SELU",
    "GELU",
    "Swish",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "ReflectionPad2D",
    "Block",
    "HybridBlock",
    "SymbolBlock",
]
