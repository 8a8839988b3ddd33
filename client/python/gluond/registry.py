"""Registries of a program's own classes, as mx.registry: `register`, `alias` and `create` functions for a base class."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict

from ._registry import Registry
from .base import WrongType, WrongValue

_registries: Dict[type, Registry] = {}


def _registry_of(base_class: type, nickname: str = "") -> Registry:
    return _registries.setdefault(base_class, Registry(base_class, nickname or base_class.__name__))


def get_registry(base_class: type) -> Dict[str, type]:
    """The classes by their lower-case names: a copy."""
    return dict(_registry_of(base_class).classes)


def get_register_func(base_class: type, nickname: str) -> Callable[..., type]:
    """`register(klass, name=None)`, which `create` then finds by its name in any case; by default the class's."""
    registry = _registry_of(base_class, nickname)

    def register(klass: type, name: Any = None) -> type:
        if not issubclass(klass, base_class):
            raise WrongType(f"Can only register subclass of {base_class.__name__}, not {klass.__name__}")
        return registry.add(klass, klass.__name__ if name is None else name)

    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[type], type]]:
    """`alias(name, ...)`, a decorator that registers a class under these names."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[type], type]:
        def decorate(klass: type) -> type:
            for name in names:
                register(klass, name)
            return klass

        return decorate

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """`create(name, ...)`: an instance of the class of that name. In the place of a name there may be an instance, a dict
    {nickname: name, ...}, or JSON of such a dict or of [name, {...}]."""
    registry = _registry_of(base_class, nickname)

    def create(*args: Any, **kwargs: Any) -> Any:
        name, *rest = args if args else (kwargs.pop(nickname),)
        if isinstance(name, str) and name.startswith("{"):
            name = json.loads(name)
        if isinstance(name, dict):
            return create(**name)
        if not isinstance(name, (str, base_class)):
            raise WrongType(f"{nickname} must be a name or a {base_class.__name__}, not {name!r}")
        try:
            return registry.create(name, *rest, **kwargs)
        except WrongValue as error:
            raise WrongValue(f"{error} A class is registered by {nickname}.register.") from None

    return create
