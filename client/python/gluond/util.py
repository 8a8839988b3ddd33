"""What programs ask of `mx.util`: numpy's shapes and arrays are MXNet 2's, and off here."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, TypeVar

from .context import num_gpus

__all__ = ["get_gpu_count", "getenv", "is_np_array", "is_np_shape", "makedirs", "set_module", "setenv", "use_np"]

T = TypeVar("T")


def makedirs(d: str) -> None:
    """Makes a folder and those that it lies in, unless they are there."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def get_gpu_count() -> int:
    """How many GPUs the server offers."""
    return num_gpus()


def is_np_shape() -> bool:
    """Always false: 0 in a shape means unknown, as in MXNet 1.x."""
    return False


def is_np_array() -> bool:
    """Always false: arrays are NDArrays."""
    return False


def use_np(func: T) -> T:
    """Raises: there is no mx.np here."""
    raise NotImplementedError("gluond has MXNet 1.x's NDArray and Symbol, not mx.np; write with mx.nd")


def set_module(module: str) -> Callable[[T], T]:
    """A decorator that sets what module a function says it is from."""
    def decorate(func: T) -> T:
        func.__module__ = module
        return func

    return decorate


def getenv(name: str) -> Optional[str]:
    """A variable of this process's environment."""
    return os.environ.get(name)


def setenv(name: str, value: Any) -> None:
    """Sets a variable of this process's environment; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = str(value)
