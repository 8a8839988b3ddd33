"""Checks of random generators, functions that give `n` samples for `generator(n)`. See test_utils."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Sequence, Tuple, Union

import numpy as np

from ._tolerances import as_numpy

Generator = Callable[[int], Any]
Buckets = Sequence[Union[float, Tuple[float, float]]]


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int) -> Tuple[List[Tuple[float, float]], List[float]]:
    """Ranges of equal probability, and these probabilities. ppf: the inverse of the cumulative distribution function."""
    assert nbuckets > 0
    ends = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(ends, ends[1:])), [1 / nbuckets] * nbuckets


def chi_square_check(
    generator: Generator, buckets: Buckets, probs: Sequence[float], nsamples: int = 1000000
) -> Tuple[float, np.ndarray, np.ndarray]:
    """(p, counts, expected counts): the probability that counts are so far from the expected ones by chance.

    buckets: ascending ranges (from, to), or the values of a discrete distribution; together they hold everything.
    """
    assert isinstance(buckets, list) and len(buckets) == len(probs)
    samples = as_numpy(generator(nsamples)).reshape(-1)
    if isinstance(buckets[0], (list, tuple)):
        edges = np.asarray(buckets, np.float64)
        assert np.all(np.diff(edges.reshape(-1)) >= 0), "the ranges must ascend and not overlap"
        counts = np.array([np.count_nonzero((samples >= begin) & (samples < end)) for begin, end in edges])
    else:
        counts = np.array([np.count_nonzero(samples == value) for value in buckets])
    expected = nsamples * np.asarray(probs, np.float64)
    # Samples outside of all buckets miss in `counts`, and so count.
    return _tail_of_chi_square(float(((counts - expected) ** 2 / expected).sum()), len(buckets) - 1), counts, expected


def _tail_of_chi_square(value: float, freedom: int) -> float:
    """P(X > value) of a chi-square distribution: Q(freedom/2, value/2), by Q(a+1, x) = Q(a, x) + x^a exp(-x) / Gamma(a+1)."""
    x = value / 2
    if x == 0 or freedom == 0:
        return 1.0
    a, tail = (1.0, math.exp(-x)) if freedom % 2 == 0 else (0.5, math.erfc(math.sqrt(x)))
    while a < freedom / 2:
        tail += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(tail, 1.0)


def verify_generator(
    generator: Generator,
    buckets: Buckets,
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> List[float]:
    """AssertionError unless p > alpha in `success_rate` of `nrepeat` chi-square checks. Returns their p."""
    checks = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    found = [p for p, _, _ in checks]
    if sum(p > alpha for p in found) < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, Chi-square p={found}, obs_freq={[c[1].tolist() for c in checks]}, "
            f"expected_freq={checks[0][2].tolist()}.\nbuckets={buckets}, probs={probs}"
        )
    return found


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the samples' mean is within 3 standard errors of `mu`."""
    mean = as_numpy(generator(nsamples)).mean(dtype=np.float64)
    return bool(abs(mean - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the samples' variance is within 3 standard errors, those of normal samples, of sigma^2."""
    variance = as_numpy(generator(nsamples)).var(ddof=1, dtype=np.float64)
    return bool(abs(variance - sigma**2) < 3 * math.sqrt(2 * sigma**4 / (nsamples - 1)))
