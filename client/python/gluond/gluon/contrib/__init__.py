"""Layers and data that MXNet kept in `gluon.contrib`."""

from . import cnn, data, nn, rnn

__all__ = ["cnn", "data", "nn", "rnn"]
