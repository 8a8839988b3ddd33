"""Random arrays. Parameters of a distribution are numbers, with a `shape` of the result, or NDArrays: then each of their
elements gives `shape` samples (default one)."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .._array import calls as _calls, transfer as _transfer
from .._array.array import NDArray
from .._array.functions_of_operators import make_function
from .._attributes import text
from .._documentation import fill_module
from ..context import Context

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

Number = Any  # A number, or an NDArray.


def _random(
    name: str, parameters: Sequence[Tuple[str, Number]], shape: Any, dtype: Any, ctx: Optional[Context], out: Optional[NDArray]
) -> NDArray:
    """By `_random_<name>` for numbers, by `_sample_<name>` for NDArrays."""
    named = None if dtype in (None, "None") else np.dtype(dtype)
    several = [value for _, value in parameters if isinstance(value, NDArray)]
    if several:
        if len(several) != len(parameters):
            raise ValueError("Distribution parameters must all have the same type, numbers or NDArrays")
        attributes = {} if shape is None else {"shape": text((shape,) if isinstance(shape, int) else shape)}
        if named is not None:
            attributes["dtype"] = named.name
        return _calls.invoke(_calls.intern(f"_sample_{name}", attributes, len(several), 1), several, out)
    attributes = {key: text(value) for key, value in parameters}
    if out is not None:
        attributes["shape"] = text(out.shape)
        return _transfer.made(NDArray, f"_random_{name}", attributes, None, None, np.dtype(out.dtype), out)
    shape = (1,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return _transfer.made(NDArray, f"_random_{name}", attributes, ctx, shape, named or np.dtype(np.float32))


def uniform(
    low: Number = 0,
    high: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Uniform in [low, high). shape: default (1,)."""
    return _random("uniform", (("low", low), ("high", high)), shape, dtype, ctx, out)


def normal(
    loc: Number = 0,
    scale: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Normal with mean `loc` and standard deviation `scale`."""
    names = ("mu", "sigma") if isinstance(loc, NDArray) else ("loc", "scale")
    return _random("normal", tuple(zip(names, (loc, scale))), shape, dtype, ctx, out)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Normal, of this shape. loc, scale, dtype, ctx, out: as in normal()."""
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape or (1,), **kwargs)


def poisson(
    lam: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Poisson with mean `lam`."""
    return _random("poisson", (("lam", lam),), shape, dtype, ctx, out)


def exponential(
    scale: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Exponential with mean `scale`."""
    return _random("exponential", (("lam", 1.0 / scale),), shape, dtype, ctx, out)


def gamma(
    alpha: Number = 1,
    beta: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Gamma with shape `alpha` and scale `beta`: mean alpha beta."""
    return _random("gamma", (("alpha", alpha), ("beta", beta)), shape, dtype, ctx, out)


def negative_binomial(
    k: Number = 1,
    p: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Failures before the k-th success, of probability p each."""
    return _random("negative_binomial", (("k", k), ("p", p)), shape, dtype, ctx, out)


def generalized_negative_binomial(
    mu: Number = 1,
    alpha: Number = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Negative binomial with mean `mu` and variance mu + alpha mu^2."""
    return _random("generalized_negative_binomial", (("mu", mu), ("alpha", alpha)), shape, dtype, ctx, out)


def randint(
    low: int,
    high: int,
    shape: Any = None,
    dtype: Any = None,
    ctx: Optional[Context] = None,
    out: Optional[NDArray] = None,
    name: Optional[str] = None,
) -> NDArray:
    """Integers in [low, high). dtype: int32 (default) or int64."""
    return _random("randint", (("low", int(low)), ("high", int(high))), shape, dtype or np.int32, ctx, out)


def multinomial(
    data: NDArray,
    shape: Any = None,
    get_prob: bool = False,
    out: Optional[NDArray] = None,
    dtype: Any = "int32",
    name: Optional[str] = None,
) -> Any:
    """Indices drawn with the probabilities in the last dimension of `data`, `shape` of them for each row.

    get_prob: also the logarithm of each drawn index's probability.
    """
    attributes = {"get_prob": str(get_prob), "dtype": np.dtype(dtype).name}
    if shape is not None:
        attributes["shape"] = text((shape,) if isinstance(shape, int) else shape)
    return _calls.invoke(_calls.intern("_sample_multinomial", attributes, 1, 2 if get_prob else 1), (data,), out)


def shuffle(data: NDArray, out: Optional[NDArray] = None, name: Optional[str] = None) -> NDArray:
    """The rows (along the first dimension) in random order."""
    return _calls.invoke(_calls.intern("_shuffle", {}, 1, 1), (data,), out)


__getattr__, __dir__ = fill_module(globals(), make_function, ("_random_", "_sample_"))
