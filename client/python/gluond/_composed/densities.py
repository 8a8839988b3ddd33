"""Densities of random numbers, or their logarithms. A sample has the shape of its parameters, followed by any other axes.

A symbol's arguments stand in the order in which a formula names them, which is MXNet's: the sample first, then the parameters.
"""

from __future__ import annotations

from typing import Any, Callable


def _density(log_density: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """The operator for log_density(F, sample, *parameters)."""

    def density(F: Any, sample: Any, *parameters: Any, is_log: bool = False, **named: Any) -> Any:  # noqa: N803
        parameters += tuple(named[name] for name in names if name in named)
        result = log_density(F, sample, *(_for_each(F, each, sample) for each in parameters))
        return result if is_log else F.exp(result)

    density.__doc__ = f"The density of a sample, or its logarithm (is_log); parameters: {', '.join(names)}."
    return density


def _for_each(F: Any, parameter: Any, sample: Any) -> Any:  # noqa: N803
    """The parameter of each number of a sample. How many numbers share one is known when it runs."""
    numbers, parameters = (F.reshape(each, shape=(-1,)) for each in (sample, parameter))
    ratio = F.broadcast_div(*(F.Cast(F.size_array(F.BlockGrad(each)), dtype="float64") for each in (parameters, numbers)))
    place = F.broadcast_mul(F.Cast(F._contrib_arange_like(F.BlockGrad(numbers)), dtype="float64") + 0.5, ratio)
    return F.reshape_like(F.take(parameters, F.Cast(F.floor(place), dtype="int32")), sample)


def _uniform(F: Any, sample: Any, low: Any, high: Any) -> Any:  # noqa: N803
    return F.BlockGrad(F.zeros_like(sample)) - F.log(-(low - high))


def _normal(F: Any, sample: Any, mu: Any, sigma: Any) -> Any:  # noqa: N803
    return -0.5 * F.square((sample - mu) / sigma) - F.log(sigma) - 0.9189385332046727  # log sqrt(2 pi)


def _gamma(F: Any, sample: Any, alpha: Any, beta: Any) -> Any:  # noqa: N803
    return F.log(sample) * (alpha - 1) - F.gammaln(alpha) + alpha * F.log(beta) - beta * sample


def _exponential(F: Any, sample: Any, lam: Any) -> Any:  # noqa: N803
    return -sample * lam + F.log(lam)


def _poisson(F: Any, sample: Any, lam: Any) -> Any:  # noqa: N803
    return sample * F.log(lam) - F.gammaln(sample + 1) - lam


def _negative_binomial(F: Any, sample: Any, k: Any, p: Any) -> Any:  # noqa: N803
    return _ways(F, sample, k) + k * F.log(p) + sample * F.log(1 - p)


def _ways(F: Any, sample: Any, k: Any) -> Any:  # noqa: N803
    """The logarithm of the number of ways to have so many failures before the k-th success."""
    return F.gammaln(sample + k) - F.gammaln(sample + 1) - F.gammaln(k)


def _generalized_negative_binomial(F: Any, sample: Any, mu: Any, alpha: Any) -> Any:  # noqa: N803
    k, p = 1 / alpha, 1 / (mu * alpha + 1)
    return sample * F.log(1 - p) + _ways(F, sample, k) + k * F.log(p)


def dirichlet(F: Any, sample: Any, alpha: Any, is_log: bool = False) -> Any:  # noqa: N803
    """The density of points of a simplex (..., k), whose parameters (..., k) may have fewer axes, or its logarithm (is_log)."""
    alpha = F.reshape_like(_rows_for_each(F, alpha, sample), sample)
    log_density = F.sum(F.log(sample) * (alpha - 1) - F.gammaln(alpha), axis=-1) + F.gammaln(F.sum(alpha, axis=-1))
    return log_density if is_log else F.exp(log_density)


def _rows_for_each(F: Any, parameter: Any, sample: Any) -> Any:  # noqa: N803
    rows, points = (F.reshape(each, shape=(-1, 0), reverse=True) for each in (parameter, sample))
    ratio = F.broadcast_div(*(F.Cast(F.size_array(F.BlockGrad(each)), dtype="float64") for each in (rows, points)))
    place = F.broadcast_mul(F.Cast(F._contrib_arange_like(F.BlockGrad(points), axis=0), dtype="float64") + 0.5, ratio)
    return F.take(rows, F.Cast(F.floor(place), dtype="int32"))


uniform, normal = _density(_uniform, "low", "high"), _density(_normal, "mu", "sigma")
gamma, exponential, poisson = _density(_gamma, "alpha", "beta"), _density(_exponential, "lam"), _density(_poisson, "lam")
negative_binomial = _density(_negative_binomial, "k", "p")
generalized_negative_binomial = _density(_generalized_negative_binomial, "mu", "alpha")
