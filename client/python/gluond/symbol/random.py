"""Random symbols: drawn anew at each run. Parameters are numbers, or symbols (one draw, or `shape` draws, for each)."""

from __future__ import annotations

from typing import Any, Mapping, Union

from .._documentation import fill_module
from ..base import _Null
from . import _functions
from .symbol import Symbol

__all__ = [
    "uniform",
    "normal",
    "randn",
    "gamma",
    "exponential",
    "poisson",
    "negative_binomial",
    "generalized_negative_binomial",
    "multinomial",
    "shuffle",
    "randint",
]

Number = Union[float, Symbol]


def _draw(distribution: str, parameters: Mapping[str, Any], shape: Any, dtype: Any, kwargs: Any) -> Symbol:
    """One distribution: `_random_` of numbers, `_sample_` of symbols."""
    kwargs.pop("ctx", None)  # A graph draws where it runs.
    attributes = {key: value for key, value in (("shape", shape), ("dtype", dtype)) if value is not _Null}
    symbols = [isinstance(value, Symbol) for value in parameters.values()]
    if all(symbols):
        return _functions.call(f"_sample_{distribution}", list(parameters.values()), {}, attributes, **kwargs)
    if any(symbols):
        raise ValueError(
            f"{', '.join(parameters)} of a random distribution: all symbols or all numbers, got "
            f"{', '.join(type(value).__name__ for value in parameters.values())}"
        )
    return _functions.call(f"_random_{distribution}", [], {}, {**parameters, **attributes}, **kwargs)


def uniform(low: Number = 0, high: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Uniform in [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Number = 0, scale: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Normal, with mean `loc` and standard deviation `scale`."""
    parameters = {"mu": loc, "sigma": scale} if isinstance(loc, Symbol) else {"loc": loc, "scale": scale}
    return _draw("normal", parameters, shape, dtype, kwargs)


def randn(*shape: int, loc: Number = 0, scale: Number = 1, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """As normal, with the shape first."""
    return normal(loc, scale, shape or _Null, dtype, **kwargs)


def gamma(alpha: Number = 1, beta: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Gamma, with shape `alpha` and scale `beta`."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def exponential(scale: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Exponential, with mean `scale`."""
    rate = 1.0 / scale
    return _draw("exponential", {"lam": rate}, shape, dtype, kwargs)


def poisson(lam: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Poisson, with mean `lam`."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def negative_binomial(k: Number = 1, p: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Failures before the `k`-th success, each of probability `p`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Number = 1, alpha: Number = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
) -> Symbol:
    """Negative binomial by its mean `mu` and dispersion `alpha`."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def multinomial(data: Symbol, shape: Any = _Null, get_prob: bool = False, dtype: Any = "int32", **kwargs: Any) -> Symbol:
    """Indices drawn with the probabilities in the last axis of `data`; with `get_prob` their log-probabilities too.

    (`get_prob` is off by default, as in `nd`; in MXNet's `sym` it is on.)
    """
    attributes = {"get_prob": get_prob, "dtype": dtype, **({} if shape is _Null else {"shape": shape})}
    return _functions.call("_sample_multinomial", [data], {}, attributes, **kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """The rows of `data` in a random order."""
    return _functions.call("_shuffle", [data], {}, {}, **kwargs)


def randint(low: int, high: int, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Integers from `low` to below `high`."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


__getattr__, __dir__ = fill_module(globals(), _functions.make, ("_random_", "_sample_"))
