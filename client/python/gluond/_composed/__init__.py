"""Operators of MXNet that the server lacks, made of those that it has, on NDArrays and on Symbols."""

from .table import ALIASES, COMPOSED
