"""Classes by name: initializers, optimizers, metrics and lr schedulers are found by lower-case names."""
from __future__ import annotations

import difflib
import json
import warnings
from typing import Any, Callable, Dict, Generic, List, Type, TypeVar

from .base import WrongValue

T = TypeVar("T")


class Registry(Generic[T]):
    """The classes of one kind. `base` is their common base class, `kind` its name in messages."""

    def __init__(self, base: Type[T], kind: str) -> None:
        self._base = base
        self._kind = kind
        self.classes: Dict[str, Type[T]] = {}

    def register(self, klass: Type[T], *names: str) -> Type[T]:
        """Adds a class under its own name and others. A second one of a name replaces the first, with a warning."""
        for name in (klass.__name__,) + names:
            self.add(klass, name, stacklevel=4)
        return klass

    def add(self, klass: Type[T], name: str, stacklevel: int = 3) -> Type[T]:
        """Adds a class under this name."""
        known = self.classes.get(name.lower())
        if known is not None and known is not klass:
            warnings.warn(
                f"New {self._kind} {klass.__module__}.{klass.__name__} registered with name "
                f"{name.lower()} is overriding existing {self._kind} {known.__module__}."
                f"{known.__name__}",
                stacklevel=stacklevel,
            )
        self.classes[name.lower()] = klass
        return klass

    def alias(self, *names: str) -> Callable[[Type[T]], Type[T]]:
        """A decorator that registers a class under further names."""
        return lambda klass: self.register(klass, *names)

    def find(self, name: str) -> Type[T]:
        """The class of that name; ValueError with the closest names, or all."""
        klass = self.classes.get(name.lower())
        if klass is None:
            close = difflib.get_close_matches(name.lower(), self.classes, n=3)
            hint = f"Did you mean {', '.join(close)}?" if close else f"There are {', '.join(self.names())}."
            raise WrongValue(f"Cannot find {self._kind} {name}. {hint}")
        return klass

    def names(self) -> List[str]:
        """All names."""
        return sorted(self.classes)

    def create(self, what: Any, *args: Any, **kwargs: Any) -> T:
        """An instance: `what` is one already, or a name, or a dict as `{"metric": "accuracy", "axis": 1}`, or such a dict in
        JSON, or JSON as `["xavier", {"magnitude": 2}]`."""
        if isinstance(what, self._base):
            if args or kwargs:
                raise ValueError(f"{self._kind} is already an instance. Additional arguments are invalid.")
            return what
        if isinstance(what, str) and what.startswith("{"):
            what = json.loads(what)
        if isinstance(what, dict) and self._kind in what:
            settings = {**what, **kwargs}
            return self.create(settings.pop(self._kind), *args, **settings)
        if not isinstance(what, str):
            raise TypeError(f"A {self._kind} is an instance of {self._base.__name__} or a name, not {what!r}.")
        if what.startswith("["):
            name, values = json.loads(what)
            return self.create(name, *args, **{**values, **kwargs})
        return self.find(what)(*args, **kwargs)
