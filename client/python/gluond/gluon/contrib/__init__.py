"""Layers and data that MXNet kept in `gluon.contrib`."""

from . import data, nn, rnn

__all__ = ["data", "nn", "rnn"]
