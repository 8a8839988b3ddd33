"""Gluon: networks as Blocks, their Parameters, losses, data, and the Trainer."""

from . import block, contrib, data, loss, model_zoo, nn, parameter, rnn, trainer, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .trainer import Trainer

__all__ = [
    "Block",
    "HybridBlock",
    "SymbolBlock",
    "Parameter",
    "Constant",
    "ParameterDict",
    "DeferredInitializationError",
    "Trainer",
    "block",
    "contrib",
    "data",
    "loss",
    "model_zoo",
    "nn",
    "parameter",
    "rnn",
    "trainer",
    "utils",
]
