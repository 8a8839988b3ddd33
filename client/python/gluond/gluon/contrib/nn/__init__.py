"""Layers that MXNet kept in `gluon.contrib.nn`."""

from . import basic_layers
from .basic_layers import *  # noqa: F401, F403

__all__ = ["basic_layers", *basic_layers.__all__]
