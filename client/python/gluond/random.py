"""Random numbers: `mx.random.seed(42)`, `mx.random.uniform(0, 1, shape=(2, 3))`. The same functions are in `mx.nd.random`."""

from __future__ import annotations

from typing import Any

from ._attributes import warn_once
from ._proto import command_pb2
from ._wire import connect, encoding
from .base import integer_types
from .ndarray.random import (
    exponential,
    gamma,
    generalized_negative_binomial,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    shuffle,
    uniform,
)

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
    "seed",
    "shuffle",
    "uniform",
]


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Begins the server's random streams of this session anew: the same seed gives the same numbers, on every device.

    ctx: there is one random state per session, so that of all devices begins anew; a warning says so where one is named.
    """
    if ctx != "all":
        warn_once(f"mx.random.seed(ctx={ctx}): the random numbers of all devices begin anew")
    if not isinstance(seed_state, integer_types):
        raise ValueError(f"seed_state must be int, not {seed_state!r}")
    command = command_pb2.Command.Seed(seed=int(seed_state) & (1 << 64) - 1)
    connect.current().submit(encoding.message(encoding.SEED, command))
