"""Attention of queries to keys and values whose projections lie side by side. Lengths are the first axis."""

from __future__ import annotations

from typing import Any


def interleaved_matmul_encdec_qk(F: Any, queries: Any, keys_values: Any, heads: int) -> Any:  # noqa: N803
    """The scores of attention, (batch heads, query length, key length), of queries (length, batch, heads dim) and of keys and
    values (length, batch, heads 2 dim) side by side. They are divided by the root of dim."""
    queries = F._contrib_div_sqrt_dim(_by_head(F, F.reshape(queries, shape=(0, 0, heads, -1))))
    return F.batch_dot(queries, _by_head(F, _part(F, keys_values, heads, 0)), transpose_b=True)


def interleaved_matmul_encdec_valatt(F: Any, keys_values: Any, attention: Any, heads: int) -> Any:  # noqa: N803
    """The values, weighted by attention: (query length, batch, heads dim). See interleaved_matmul_encdec_qk."""
    out = F.batch_dot(_by_head(F, _part(F, keys_values, heads, 1)), attention, transpose_a=True, transpose_b=True)
    out = F.transpose(F.reshape(out, shape=(-1, heads, 0, 0), reverse=True), axes=(3, 0, 1, 2))
    return F.reshape(out, shape=(0, 0, -1))


def _part(F: Any, keys_values: Any, heads: int, place: int) -> Any:  # noqa: N803
    """The keys, or the values: (length, batch, heads, dim)."""
    both = F.reshape(keys_values, shape=(0, 0, heads, 2, -1))
    return F.squeeze(F.slice_axis(both, axis=3, begin=place, end=place + 1), axis=3)


def _by_head(F: Any, x: Any) -> Any:  # noqa: N803
    """(length, batch, heads, dim) -> (batch heads, length, dim)."""
    return F.reshape(F.transpose(x, axes=(1, 2, 0, 3)), shape=(-1, 0, 0), reverse=True)
