"""Datasets and how batches are made of them."""

from . import vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "Dataset",
    "SimpleDataset",
    "ArrayDataset",
    "RecordFileDataset",
    "DataLoader",
    "Sampler",
    "SequentialSampler",
    "RandomSampler",
    "FilterSampler",
    "BatchSampler",
    "vision",
]
