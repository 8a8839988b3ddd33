"""Operators on each element, and on batches."""

from __future__ import annotations

from typing import Any, Optional

from .._attributes import dense_only
from ..base import MXNetError


def allclose(F: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = True) -> Any:  # noqa: N803
    """1, in shape (1,), where |a - b| <= atol + rtol |b| holds for all elements, else 0."""
    is_close = F.broadcast_lesser_equal(F.abs(a - b), atol + rtol * F.abs(b)) + F.broadcast_equal(a, b)
    if equal_nan:
        is_close = is_close + F.broadcast_not_equal(a, a) * F.broadcast_not_equal(b, b)
    return F.min(is_close > 0)


def cast_storage(F: Any, data: Any, stype: str) -> Any:  # noqa: N803
    """The data: all storage is dense. Another kind than `default` gets a warning."""
    dense_only("cast_storage", stype, 5)
    return F.identity(data)


def sync_batch_norm(F: Any, *tensors: Any, key: Optional[str] = None, ndev: int = 1, **attributes: Any) -> Any:  # noqa: N803
    """BatchNorm, whose third result is the variance. A batch that is split over devices is normalized on each by itself; `ndev`
    must be 1."""
    if ndev != 1:
        raise MXNetError(f"SyncBatchNorm: statistics are not shared between devices; ndev is {ndev}")
    if not attributes.get("output_mean_var"):
        return F.BatchNorm(*tensors, **attributes)
    normalized, mean, inverse = F.BatchNorm(*tensors, **attributes)
    return normalized, mean, 1 / F.square(inverse) - attributes.get("eps", 1e-3)


def batch_norm_with_relu(F: Any, *tensors: Any, **attributes: Any) -> Any:  # noqa: N803
    """relu(BatchNorm(...))."""
    return F.relu(F.BatchNorm(*tensors, **attributes))


def quadratic(F: Any, data: Any, a: float = 0.0, b: float = 0.0, c: float = 0.0) -> Any:  # noqa: N803
    """a x^2 + b x + c."""
    return a * F.square(data) + b * data + c


def gradientmultiplier(F: Any, data: Any, scalar: float = 1.0, is_int: bool = True) -> Any:  # noqa: N803
    """The data; its gradient is multiplied by `scalar`."""
    return _with_gradient_of(F, data, data * scalar)


def round_ste(F: Any, data: Any) -> Any:  # noqa: N803
    """Rounded; the gradient passes as if it were not ("straight through")."""
    return _with_gradient_of(F, F.round(data), data)


def sign_ste(F: Any, data: Any) -> Any:  # noqa: N803
    """The sign; the gradient passes as if it were the data itself."""
    return _with_gradient_of(F, F.sign(data), data)


def _with_gradient_of(F: Any, values: Any, differentiated: Any) -> Any:  # noqa: N803
    """The values to the last bit, with another computation's gradient: what is added is exactly 0."""
    return F.BlockGrad(values) + (differentiated - F.BlockGrad(differentiated))
