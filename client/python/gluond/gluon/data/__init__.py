"""Datasets and how batches are made of them."""
from typing import TYPE_CHECKING

from ... import _elsewhere
from . import vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset", "DataLoader", "Sampler",
           "SequentialSampler", "RandomSampler", "FilterSampler", "BatchSampler", "vision"]


if not TYPE_CHECKING:  # A type checker finds by itself what is not here.
    __getattr__ = _elsewhere.getter(__name__)
