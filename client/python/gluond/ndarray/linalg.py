"""Linear algebra: `nd.linalg.gemm2(a, b)`."""

from __future__ import annotations

from .._array.array import NDArray
from .._array.functions_of_operators import make_function
from .._documentation import fill_module


def gemm(A: NDArray, B: NDArray, C: NDArray, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0,  # noqa: N803
         beta: float = 1.0, axis: int = -2) -> NDArray:
    """alpha A B + beta C, of the matrices in the last two axes (or the last, and `axis`)."""
    return __getattr__("gemm2")(A, B, transpose_a=transpose_a, transpose_b=transpose_b, alpha=alpha, axis=axis) + beta * C


def syrk(A: NDArray, transpose: bool = False, alpha: float = 1.0) -> NDArray:  # noqa: N803
    """alpha A A^T, or with `transpose` alpha A^T A."""
    return __getattr__("gemm2")(A, A, transpose_a=transpose, transpose_b=not transpose, alpha=alpha)


__getattr__, __dir__ = fill_module(globals(), make_function, ("_linalg_", "linalg_"))
