"""Random numbers: `mx.random.seed(42)`, `mx.random.uniform(0, 1, shape=(2, 3))`. The same functions are in `mx.nd.random`."""

from __future__ import annotations

from typing import Any

from ._proto import command_pb2
from ._wire import connect, encoding
from .base import integer_types
from .ndarray.random import (exponential, gamma, generalized_negative_binomial, multinomial, negative_binomial, normal,
                             poisson, randint, randn, shuffle, uniform)

__all__ = ["exponential", "gamma", "generalized_negative_binomial", "multinomial", "negative_binomial", "normal", "poisson",
           "randint", "randn", "seed", "shuffle", "uniform"]


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Begins the server's random streams of this session anew: the same seed gives the same numbers, on every device.

    ctx: for MXNet's sake; there is one random state per session.
    """
    if not isinstance(seed_state, integer_types):
        raise ValueError(f"seed_state must be int, not {seed_state!r}")
    command = command_pb2.Command.Seed(seed=int(seed_state) & (1 << 64) - 1)
    connect.current().submit(encoding.message(encoding.SEED, command))
