"""Random matrices for tests of factorizations, and other random numbers."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

Shape = Tuple[int, ...]


def random_sample(population: List[Any], k: int) -> List[Any]:
    """k different elements of a list."""
    return [population[place] for place in np.random.permutation(len(population))[:k]]


def random_uniform_arrays(*shapes: Shape, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> List[np.ndarray]:
    """One numpy array for each shape."""
    return [np.random.uniform(low, high, shape).astype(dtype) for shape in shapes]


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> Tuple[int, int]:
    """A random place."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """Its rows are orthonormal."""
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A well-conditioned one."""
    while True:
        v = np.random.uniform(-1, 1, (n, 1))
        q = (np.eye(n) - 2 * v @ v.T / (v.T @ v)) @ np.diag(np.random.uniform(0.5, 1, n))
        if np.linalg.cond(q) < 3:
            return np.linalg.inv(q) @ np.diag(np.random.uniform(-10, 10, n)) @ q


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A symmetric one."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10, 10, n)) @ q


def new_matrix_with_real_eigvals_nd(shape: Shape) -> np.ndarray:
    """Well-conditioned ones, in the last two axes."""
    return _stacked(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape: Shape) -> np.ndarray:
    """Symmetric ones, in the last two axes."""
    return _stacked(new_sym_matrix_with_real_eigvals_2d, shape)


def _stacked(make: Callable[[int], np.ndarray], shape: Sequence[int]) -> np.ndarray:
    return np.array([make(shape[-1]) for _ in range(int(np.prod(shape[:-2])))]).reshape(shape)
