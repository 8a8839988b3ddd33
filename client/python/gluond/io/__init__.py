"""Iterators over batches of data, as MXNet's mx.io: `for batch in mx.io.NDArrayIter(x, y, 64): batch.data[0]`."""

from . import io, utils
from .io import *  # noqa: F401, F403
from .utils import _getdata_by_idx, _has_instance, _init_data  # noqa: F401  # Libraries' own iterators take these from here.

__all__ = ["io", "utils", *io.__all__]
