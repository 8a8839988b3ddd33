"""Layers and data that MXNet kept in `gluon.contrib`."""
from typing import TYPE_CHECKING

from ... import _elsewhere
from . import data, nn, rnn

__all__ = ["data", "nn", "rnn"]


if not TYPE_CHECKING:  # A type checker finds by itself what is not here.
    __getattr__ = _elsewhere.getter(__name__)
