"""Operators of MXNet that are made of others, on NDArrays and on Symbols: `F` is `nd.op` or `sym.op`."""

from __future__ import annotations

from typing import Any, Optional

from .base import MXNetError


def allclose(F: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = True) -> Any:  # noqa: N803
    """1, in shape (1,), where |a - b| <= atol + rtol |b| holds for all elements, else 0."""
    is_close = F.broadcast_lesser_equal(F.abs(a - b), atol + rtol * F.abs(b)) + F.broadcast_equal(a, b)
    if equal_nan:
        is_close = is_close + F.broadcast_not_equal(a, a) * F.broadcast_not_equal(b, b)
    return F.min(is_close > 0)


def cast_storage(F: Any, data: Any, stype: str) -> Any:  # noqa: N803
    """The data: all storage is dense. MXNetError: another kind than `default` is asked for."""
    if stype != "default":
        raise MXNetError(f"cast_storage: storage type '{stype}' is not supported; gluond has dense arrays (`default`) only")
    return F.identity(data)


def interleaved_matmul_encdec_qk(F: Any, queries: Any, keys_values: Any, heads: int) -> Any:  # noqa: N803
    """The scores of attention, (batch heads, query length, key length), of queries (length, batch, heads dim) and of keys and
    values (length, batch, heads 2 dim) side by side. They are divided by the root of dim."""
    queries = F._contrib_div_sqrt_dim(_by_head(F, F.reshape(queries, shape=(0, 0, heads, -1))))
    return F.batch_dot(queries, _by_head(F, _part(F, keys_values, heads, 0)), transpose_b=True)


def interleaved_matmul_encdec_valatt(F: Any, keys_values: Any, attention: Any, heads: int) -> Any:  # noqa: N803
    """The values, weighted by attention: (query length, batch, heads dim). See interleaved_matmul_encdec_qk."""
    out = F.batch_dot(attention, _by_head(F, _part(F, keys_values, heads, 1)))
    out = F.transpose(F.reshape(out, shape=(-1, heads, 0, 0), reverse=True), axes=(2, 0, 1, 3))
    return F.reshape(out, shape=(0, 0, -1))


def _part(F: Any, keys_values: Any, heads: int, place: int) -> Any:  # noqa: N803
    """The keys, or the values: (length, batch, heads, dim)."""
    both = F.reshape(keys_values, shape=(0, 0, heads, 2, -1))
    return F.squeeze(F.slice_axis(both, axis=3, begin=place, end=place + 1), axis=3)


def _by_head(F: Any, x: Any) -> Any:  # noqa: N803
    """(length, batch, heads, dim) -> (batch heads, length, dim)."""
    return F.reshape(F.transpose(x, axes=(1, 2, 0, 3)), shape=(-1, 0, 0), reverse=True)


def sync_batch_norm(F: Any, *tensors: Any, key: Optional[str] = None, ndev: int = 1, **attributes: Any) -> Any:  # noqa: N803
    """BatchNorm. A batch that is split over devices is normalized on each by itself; `ndev` must be 1."""
    if ndev != 1:
        raise MXNetError(f"SyncBatchNorm: statistics are not shared between devices; ndev is {ndev}")
    return F.BatchNorm(*tensors, **attributes)
