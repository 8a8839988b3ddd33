"""How arrays are printed: as numpy prints them, which shows of a large one the edges only; and only these are fetched."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import calls, tape, transfer


def printed(x: Any) -> str:
    """The text for the values of an NDArray."""
    options = np.get_printoptions()
    if x.size <= options["threshold"] or x._where.ready(x) is not None:
        return str(x.asnumpy())
    edge = options["edgeitems"]
    return np.array2string(_edges(x, edge), threshold=0, edgeitems=edge)


def _edges(x: Any, edge: int) -> np.ndarray:
    """The values with one element in the place of those that a long dimension's edges leave out."""
    with tape.pause():
        for axis, size in sorted(enumerate(x.shape), key=lambda dimension: -dimension[1]):
            if size > 2 * edge + 1:
                places = np.r_[: edge + 1, size - edge : size]
                rows = transfer.put(type(x), places, x._context, np.dtype(np.int64))
                x = calls.invoke(calls.intern("take", {"axis": str(axis)}, 2, 1), (x, rows))
    return x.asnumpy()
