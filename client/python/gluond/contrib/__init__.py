"""What MXNet kept in mx.contrib: text, the older autograd, and the contributed operators."""

from ..ndarray import contrib as ndarray
from ..ndarray import contrib as nd
from ..symbol import contrib as sym
from ..symbol import contrib as symbol
from . import amp, autograd, io, text

__all__ = ["amp", "autograd", "io", "nd", "ndarray", "sym", "symbol", "text"]
