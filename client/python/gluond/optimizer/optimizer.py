"""Optimizers, as `mx.optimizer.optimizer` names them."""

from ._optimizer import Optimizer, create, register
from .adam import FTML, LAMB, Adam, Adamax, Nadam
from .adaptive import AdaDelta, AdaGrad, Ftrl, RMSProp
from .sgd import DCASGD, LARS, NAG, SGD, SGLD, Signum, Test, ccSGD
from .updater import Updater, get_updater

__all__ = [
    "Optimizer",
    "Updater",
    "get_updater",
    "create",
    "register",
    "SGD",
    "NAG",
    "Adam",
    "AdaGrad",
    "RMSProp",
    "AdaDelta",
    "Ftrl",
    "Adamax",
    "Nadam",
    "Signum",
    "FTML",
    "LAMB",
    "LARS",
    "SGLD",
    "DCASGD",
    "ccSGD",
    "Test",
]
