"""`mx.optimizer`: how gradients change weights. The Trainer makes them by name, as `'sgd'` or `'adam'`."""

from . import contrib, optimizer
from .optimizer import *  # noqa: F401, F403

__all__ = ["contrib", "optimizer", *optimizer.__all__]
