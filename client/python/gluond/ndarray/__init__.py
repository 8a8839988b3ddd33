"""NDArray and its functions: `mx.nd`. Those that are operators of the server are made when they are first asked for."""

from __future__ import annotations

from .._array.arithmetic import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from .._array.array import NDArray
from .._array.create import arange, array, empty, eye, from_numpy, full, linspace, ones, zeros
from .._array.functions import concatenate, histogram, moveaxis, onehot_encode, reset_arrays, split_v2, waitall
from .._array.functions_of_operators import make_function
from .._array.save import load, load_frombuffer, save
from .._custom.eager import Custom
from .._documentation import fill_module
from . import _internal, contrib, image, linalg, ndarray, op, random, utils
from ._preloaded import (
    preloaded_multi_mp_sgd_mom_update,
    preloaded_multi_mp_sgd_update,
    preloaded_multi_sgd_mom_update,
    preloaded_multi_sgd_update,
)
from .cached_op import CachedOp
from .linalg import extracttrian as linalg_extracttrian, maketrian as linalg_maketrian
from .random import exponential, generalized_negative_binomial, negative_binomial, normal, poisson, randint, randn, shuffle, uniform

__getattr__, __dir__ = fill_module(globals(), make_function)
