"""Modules that MXNet kept in mx.contrib: text, the older autograd, and the contributed operators."""

from ..ndarray import contrib as nd
from ..symbol import contrib as sym
from . import amp, autograd, io, ndarray, symbol, text

__all__ = ["amp", "autograd", "io", "nd", "ndarray", "sym", "symbol", "text"]
