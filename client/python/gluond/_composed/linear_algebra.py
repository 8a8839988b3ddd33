"""Products and factors of matrices."""

from __future__ import annotations

from typing import Any, Tuple


def gemm(
    F: Any,
    A: Any,
    B: Any,
    C: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,  # noqa: N803
    beta: float = 1.0,
    axis: int = -2,
) -> Any:
    """alpha A B + beta C, of the matrices in the last two axes (or the last, and `axis`)."""
    return F._linalg_gemm2(A, B, transpose_a=transpose_a, transpose_b=transpose_b, alpha=alpha, axis=axis) + beta * C


def syrk(F: Any, A: Any, transpose: bool = False, alpha: float = 1.0) -> Any:  # noqa: N803
    """alpha A A^T, or with `transpose` alpha A^T A."""
    return F._linalg_gemm2(A, A, transpose_a=transpose, transpose_b=not transpose, alpha=alpha)


def khatri_rao(F: Any, *args: Any) -> Any:  # noqa: N803
    """The Kronecker products of the columns of matrices that have as many of them: (rows of all multiplied, columns)."""
    product = args[0]
    for matrix in args[1:]:
        product = F.reshape(F.broadcast_mul(F.expand_dims(product, axis=1), F.expand_dims(matrix, axis=0)), shape=(-3, 0))
    return product


def gelqf(F: Any, A: Any) -> Tuple[Any, Any]:  # noqa: N803
    """(Q, L) of A = L Q, of matrices that have no more rows than columns: Q has orthonormal rows, L is a lower triangle.

    L is the Cholesky factor of A A^T. That squares A's condition number, which a second round takes back.
    """
    first, rows = _factored(F, A)
    second, rows = _factored(F, rows)
    return rows, F._linalg_gemm2(first, second)


def _factored(F: Any, matrix: Any) -> Tuple[Any, Any]:  # noqa: N803
    """(L, L^-1 A), of A A^T = L L^T."""
    triangle = F._linalg_potrf(F._linalg_gemm2(matrix, matrix, transpose_b=True))
    return triangle, F._linalg_trsm(triangle, matrix)


def count_sketch(F: Any, data: Any, h: Any, s: Any, out_dim: int, processing_batch_size: int = 32) -> Any:  # noqa: N803
    """(..., d) -> (..., out_dim): element i of the data, times s[i], is added to element h[i]. `processing_batch_size` makes no
    difference."""
    places = F.one_hot(F.reshape(h, shape=(-1,)), depth=out_dim)
    signed = F.broadcast_mul(F._cast_like(places, s), F.reshape(s, shape=(-1, 1)))
    rows = F.reshape(data, shape=(-1, 0), reverse=True)
    return F.reshape_like(F.dot(rows, F._cast_like(signed, data)), data, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=-1)
