"""Data that MXNet kept in `gluon.contrib.data`."""

from . import sampler
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler"]
