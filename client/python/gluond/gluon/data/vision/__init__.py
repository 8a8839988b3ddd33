"""Images: datasets from local files, and transforms."""
from . import transforms
from .datasets import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST", "transforms"]
