"""The functions of `mx.util`. MXNet 2's numpy shapes and arrays are always off here."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, NoReturn, Optional, TypeVar

from .context import num_gpus

__all__ = ["get_gpu_count", "getenv", "is_np_array", "is_np_shape", "makedirs", "np_array", "np_shape", "reset_np",
           "set_module", "set_np", "set_np_shape", "setenv", "use_np", "use_np_array", "use_np_shape"]

T = TypeVar("T")


def makedirs(d: str) -> None:
    """Makes a folder and its parents, unless they exist."""
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


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: gluond has MXNet 1.x's NDArray and Symbol, not mx.np and its shapes; write with mx.nd")


class _Scope:
    """A `with` block in which numpy's shapes or arrays are off; turning them on raises."""

    def __init__(self, name: str, active: bool) -> None:
        self._name = name
        self._active = active

    def __enter__(self) -> None:
        if self._active:
            _refuse(f"{self._name}(True)")

    def __exit__(self, *exc: object) -> None:
        pass


def np_shape(active: bool = True) -> _Scope:
    """For `with`. Within np_shape(False), everything is as it is; np_shape(True) raises."""
    return _Scope("np_shape", active)


def np_array(active: bool = True) -> _Scope:
    """For `with`. Within np_array(False), everything is as it is; np_array(True) raises."""
    return _Scope("np_array", active)


def set_np_shape(active: bool) -> bool:
    """Returns False, the mode before. Raises if `active`."""
    if active:
        _refuse("set_np_shape(True)")
    return False


def set_np(shape: bool = True, array: bool = True) -> None:
    """Raises, unless both are false."""
    if shape or array:
        _refuse("set_np()")


def reset_np() -> None:
    """Does nothing: numpy's shapes and arrays are always off."""


def _refusing(decorator: str, func: T) -> T:
    """A function, or a class, that raises when it is called, so that a library that has some can be imported."""
    if not callable(func):
        raise TypeError(f"{decorator} can only decorate classes and callable objects, not a {type(func).__name__}")

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{getattr(func, '__qualname__', func)} is decorated with {decorator}")

    if inspect.isclass(func):
        func.__init__ = refused  # type: ignore[misc]
        return func  # type: ignore[return-value]
    return functools.wraps(func)(refused)  # type: ignore[return-value]


def use_np(func: T) -> T:
    """The decorated function raises when it is called: there is no mx.np here."""
    return _refusing("use_np", func)


def use_np_shape(func: T) -> T:
    """As use_np."""
    return _refusing("use_np_shape", func)


def use_np_array(func: T) -> T:
    """As use_np."""
    return _refusing("use_np_array", func)


def set_module(module: str) -> Callable[[T], T]:
    """A decorator that sets a function's `__module__`."""
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
