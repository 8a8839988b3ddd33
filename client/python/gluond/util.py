"""The functions of `mx.util`. MXNet 2's numpy arrays are always off here; its shapes can be turned on."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, NoReturn, Optional, TypeVar

from ._wire import frame as _frame
from .context import num_gpus

__all__ = [
    "get_gpu_count",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "makedirs",
    "np_array",
    "np_shape",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

T = TypeVar("T")


def makedirs(d: str) -> None:
    """Makes a folder and its parents, unless they exist."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def get_gpu_count() -> int:
    """How many GPUs the server offers."""
    return num_gpus()


def is_np_shape() -> bool:
    """Whether numpy's shapes are on, in this thread or coroutine: see np_shape."""
    return _frame.frame().np_shape


def is_np_array() -> bool:
    """Always false: arrays are NDArrays."""
    return False


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: gluond has MXNet 1.x's NDArray and Symbol, not mx.np; write with mx.nd")


class _NumpyArrayScope:
    """A `with` block in which numpy's arrays are off; turning them on raises."""

    def __init__(self, is_np_array: bool) -> None:
        self._is_np_array = is_np_array

    def __enter__(self) -> None:
        if self._is_np_array:
            _refuse("np_array(True)")

    def __exit__(self, *exc: object) -> None:
        pass


def np_shape(active: bool = True) -> _frame.Within:
    """For `with`: numpy's shapes are on, or off.

    Where they are on, 0 is a size in a shape, -1 an unknown size, () the shape of one number, and None an unknown shape. Else 0 is
    an unknown size, and () an unknown shape. Operators give the shapes that they give in any case.

        with mx.np_shape():
            assert nd.ones(()).shape == ()
    """
    return _frame.Within(np_shape=bool(active))


def np_array(active: bool = True) -> _NumpyArrayScope:
    """For `with`. Within np_array(False), everything is as it is; np_array(True) raises."""
    return _NumpyArrayScope(active)


def set_np_shape(active: bool) -> bool:
    """Turns numpy's shapes on or off, in this thread or coroutine. Returns the mode before."""
    before = _frame.frame().np_shape
    _frame.change(np_shape=bool(active))
    return before


def set_np(shape: bool = True, array: bool = True) -> None:
    """Raises, unless both are false."""
    if shape or array:
        _refuse("set_np()")


def reset_np() -> None:
    """Turns numpy's shapes off; its arrays are always off."""
    set_np_shape(False)


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


def use_np_shape(func: Any) -> Any:
    """In the decorated function, or in all methods and properties of the class, numpy's shapes are on."""
    if not callable(func):
        raise TypeError(f"use_np_shape can only decorate classes and callable objects, not a {type(func).__name__}")
    if inspect.isclass(func):
        for name, method in inspect.getmembers(func, lambda each: inspect.isfunction(each) or inspect.ismethod(each)):
            setattr(func, name, use_np_shape(method))
        for name, each in inspect.getmembers(func, lambda each: isinstance(each, property)):
            setattr(func, name, property(each.fget and use_np_shape(each.fget), each.fset, each.fdel, each.__doc__))
        return func

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with np_shape():
            return func(*args, **kwargs)

    return within


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
