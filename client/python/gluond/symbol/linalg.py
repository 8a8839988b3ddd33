"""The server's operators named `_linalg_...`, without that."""

from __future__ import annotations

from .._documentation import fill_module
from ._functions import make
from .symbol import Symbol


def gemm(A: Symbol, B: Symbol, C: Symbol, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0,  # noqa: N803
         beta: float = 1.0, axis: int = -2) -> Symbol:
    """alpha A B + beta C, of the matrices in the last two axes (or the last, and `axis`)."""
    return __getattr__("gemm2")(A, B, transpose_a=transpose_a, transpose_b=transpose_b, alpha=alpha, axis=axis) + beta * C


def syrk(A: Symbol, transpose: bool = False, alpha: float = 1.0) -> Symbol:  # noqa: N803
    """alpha A A^T, or with `transpose` alpha A^T A."""
    return __getattr__("gemm2")(A, A, transpose_a=transpose, transpose_b=not transpose, alpha=alpha)


__getattr__, __dir__ = fill_module(globals(), make, ("_linalg_", "linalg_"))
