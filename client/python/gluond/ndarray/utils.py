"""Another name: MXNet keeps the functions here that make, write and read arrays of any storage."""

from .._array.create import array, empty, zeros
from .._array.save import load, load_frombuffer, save

__all__ = ["array", "empty", "load", "load_frombuffer", "save", "zeros"]
