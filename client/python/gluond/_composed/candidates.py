"""Classes drawn as words of a text are, the first ones most often: candidates for a sampled softmax."""

from __future__ import annotations

import math
from typing import Any, Tuple


def rand_zipfian(F: Any, true_classes: Any, num_sampled: int, range_max: int) -> Tuple[Any, Any, Any]:  # noqa: N803
    """(sampled classes (num_sampled,) int64, expected counts of `true_classes`, expected counts of the sampled, float64).

    Class k of 0 to `range_max` - 1 is drawn with the probability log((k + 2) / (k + 1)) / log(range_max + 1).
    """
    log_range = math.log(range_max + 1)
    drawn = F._random_uniform(low=0, high=log_range, shape=(num_sampled,), dtype="float64")
    sampled = F.Cast(F.exp(drawn) - 1, dtype="int64") % range_max

    def expected(classes: Any) -> Any:
        classes = F.Cast(classes, dtype="float64")
        return F.log((classes + 2) / (classes + 1)) * (num_sampled / log_range)

    return sampled, expected(true_classes), expected(sampled)
