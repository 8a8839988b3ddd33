"""Transform: the base of the transforms."""
from __future__ import annotations

from typing import Any

import numpy as np

from .... import ndarray
from ...._array.array import NDArray
from ....base import WrongType
from ....symbol.symbol import Symbol
from ..._hybrid_block import HybridBlock


class Transform(HybridBlock):
    """A Block without parameters, whose `apply_to` transforms a numpy array.

    It may be in a HybridSequential, which then stays without a graph.
    """

    host_ready = True
    in_client = True

    def forward(self, x: Any, *args: Any) -> Any:
        """The transformed array, of the kind of `x`."""
        if isinstance(x, Symbol):
            raise WrongType(f"{type(self).__name__} computes in the client; there is no graph of it")
        if isinstance(x, NDArray):
            out = self.apply_to(x.asnumpy())
            return ndarray.array(out, dtype=out.dtype, ctx=x.context)
        return self.apply_to(np.asarray(x))

    def apply_to(self, x: np.ndarray) -> np.ndarray:
        """The transform of a numpy array."""
        raise NotImplementedError
