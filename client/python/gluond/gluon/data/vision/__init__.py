"""Images: datasets from local files, and transforms."""
from typing import TYPE_CHECKING

from .... import _elsewhere
from . import transforms
from .datasets import (CIFAR10, CIFAR100, MNIST, FashionMNIST, ImageFolderDataset, ImageListDataset,
                       ImageRecordDataset)

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageFolderDataset", "ImageListDataset",
           "ImageRecordDataset", "transforms"]


if not TYPE_CHECKING:  # A type checker finds by itself what is not here.
    __getattr__ = _elsewhere.getter(__name__)
