"""Functions of `sym` that are no operators of the server: made of operators, or refused where no graph can compute them."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from .. import _composed
from ..base import MXNetError
from ._control_flow import NoGraph
from ._functions import call
from .symbol import Symbol


class _Functions:
    """Operators on symbols, by the names that the server has for them."""

    def __getattr__(self, op: str) -> Callable[..., Symbol]:
        def function(*symbols: Any, name: Any = None, **attributes: Any) -> Symbol:
            named = {key: attributes.pop(key) for key, value in list(attributes.items()) if isinstance(value, Symbol)}
            return call(op, symbols, named, attributes, name=name)

        return function


_F = _Functions()


def allclose(a: Symbol, b: Symbol, **how: Any) -> Symbol:
    """See _composed.allclose."""
    return _composed.allclose(_F, a, b, **how)


def cast_storage(data: Symbol, stype: str, name: Any = None) -> Symbol:
    """See _composed.cast_storage."""
    return _composed.cast_storage(_F, data, stype)


def interleaved_matmul_encdec_qk(queries: Symbol, keys_values: Symbol, heads: int) -> Symbol:
    """See _composed.interleaved_matmul_encdec_qk."""
    return _composed.interleaved_matmul_encdec_qk(_F, queries, keys_values, heads)


def interleaved_matmul_encdec_valatt(keys_values: Symbol, attention: Symbol, heads: int) -> Symbol:
    """See _composed.interleaved_matmul_encdec_valatt."""
    return _composed.interleaved_matmul_encdec_valatt(_F, keys_values, attention, heads)


def SyncBatchNorm(*tensors: Symbol, **attributes: Any) -> Symbol:  # noqa: N802
    """See _composed.sync_batch_norm."""
    return _composed.sync_batch_norm(_F, *tensors, **attributes)


def boolean_mask(data: Symbol, index: Symbol, axis: int = 0) -> NoReturn:
    """NoGraph: the number of rows is known only once values are."""
    _refuse("contrib.boolean_mask", "the shape of its result depends on values")


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> NoReturn:
    """NoGraph: it is made of arrays."""
    _refuse("contrib.rand_zipfian", "it draws arrays of float64 numbers")


def adamw_update(*tensors: Symbol, **attributes: Any) -> NoReturn:
    """NoGraph: it writes arrays."""
    _refuse("contrib.adamw_update", "it writes its inputs")


def mp_adamw_update(*tensors: Symbol, **attributes: Any) -> NoReturn:
    """NoGraph: it writes arrays."""
    _refuse("contrib.mp_adamw_update", "it writes its inputs")


def random_flip_left_right(data: Symbol, p: float = 0.5) -> NoReturn:
    """NoGraph: this process draws whether to flip."""
    _refuse("image.random_flip_left_right", "this process draws whether to flip")


def random_flip_top_bottom(data: Symbol, p: float = 0.5) -> NoReturn:
    """NoGraph: this process draws whether to flip."""
    _refuse("image.random_flip_top_bottom", "this process draws whether to flip")


def _refuse(function: str, why: str) -> NoReturn:
    raise NoGraph(f"sym.{function} is no graph: {why}. nd.{function} runs on arrays, and so does a HybridBlock that uses F")


def to_tensor(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), 0 to 255 -> (C, H, W) or (N, C, H, W), float32, 0 to 1."""
    channels_last_but_one = _F.swapaxes(_F.Cast(data, dtype="float32"), dim1=-1, dim2=-2)
    return _F.swapaxes(channels_last_but_one, dim1=-2, dim2=-3) / 255


def crop(data: Any, x: int, y: int, width: int, height: int) -> Any:
    """The part of (H, W, C) or (N, H, W, C) from column x and row y on."""
    if x < 0 or y < 0:
        raise MXNetError(f"crop: x={x}, y={y} is outside of the image")
    rows = _F.slice_axis(data, axis=-3, begin=y, end=y + height)
    return _F.slice_axis(rows, axis=-2, begin=x, end=x + width)


def flip_left_right(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), mirrored."""
    return _F.reverse(data, axis=-2)


def flip_top_bottom(data: Any) -> Any:
    """(H, W, C) or (N, H, W, C), upside down."""
    return _F.reverse(data, axis=-3)


def normalize(data: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
    """(data - mean) / std of (C, H, W) or (N, C, H, W); a number, or one for each channel."""
    return _F.broadcast_div(_F.broadcast_sub(data, _of_channels(mean)), _of_channels(std))


def _of_channels(values: Any) -> Any:
    """A number for each channel, or for all, in shape (C, 1, 1)."""
    values = values if isinstance(values, (tuple, list)) else [values]
    return _F.concat(*[_F._full(shape=(1, 1, 1), value=float(each)) for each in values], dim=0)
