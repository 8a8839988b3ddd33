"""Symbolic programming: `mx.sym`. Symbols describe a computation; an Executor, or a hybridized Block, runs it.

>>> x = mx.sym.Variable("x")
>>> y = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
>>> y.list_arguments()
['x', 'fc_weight', 'fc_bias']

Operators are the server's: `dir(mx.sym)` lists them, and each has a docstring.
"""

from __future__ import annotations

from .._documentation import fill_module
from . import _functions, _internal, contrib, image, linalg, op, random
from ._creation import Custom, arange, eye, full, histogram, hypot, linspace, maximum, minimum, ones, pow, power, split_v2, zeros
from .symbol import Group, Symbol, Variable, fromjson, load, load_json, var

__all__ = [
    "Symbol",
    "Variable",
    "var",
    "Group",
    "load",
    "load_json",
    "fromjson",
    "Custom",
    "arange",
    "eye",
    "full",
    "histogram",
    "hypot",
    "linspace",
    "maximum",
    "minimum",
    "ones",
    "pow",
    "power",
    "split_v2",
    "zeros",
    "contrib",
    "image",
    "linalg",
    "op",
    "random",
]

__getattr__, __dir__ = fill_module(globals(), _functions.make)
