"""The functions for the server's operators, for a class of symbols: `x.sum(axis=1)`, and the functions of `mx.sym`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Type, TypeVar

from .._attributes import is_hidden
from .._documentation import document, fill_module, signature
from .._operators import OperatorInfo
from . import _compose
from ._attributes import SHORT
from ._outputs import Outputs

S = TypeVar("S", bound=Outputs)


def make(kind: Type[S], info: OperatorInfo, called: str) -> Callable[..., S]:
    """The function for an operator; `called` is how automatic names begin."""

    def function(*args: Any, **kwargs: Any) -> S:
        hidden = {key: kwargs.pop(key) for key in list(kwargs) if is_hidden(key) or key in SHORT}
        parsed = info.parse(args, kwargs, Outputs, "Symbol", ("name", "attr", "out"))
        return call(
            kind,
            info.name,
            parsed.tensors,
            parsed.named,
            parsed.attributes,
            name=parsed.rest.get("name"),
            hint=called,
            attr=parsed.rest.get("attr"),
            **hidden,
        )

    function.__name__ = function.__qualname__ = called
    function.__module__ = __package__
    function.__doc__ = document(info, "Symbol")
    function.__signature__ = signature(info, out=False)  # type: ignore[attr-defined]
    return function


def call(
    kind: Type[S],
    op: str,
    tensors: Sequence[Optional[Outputs]],
    named: Mapping[str, Outputs],
    attributes: Mapping[str, Any],
    *,
    name: Optional[str] = None,
    hint: Optional[str] = None,
    attr: Optional[Mapping[str, str]] = None,
    **hidden: Any,
) -> S:
    """The operator applied to symbols. `hidden`: keywords of a hidden attribute, as `__layout__`. TypeError: any other."""
    for key in hidden:
        if not (is_hidden(key) or key in SHORT):
            raise TypeError(f"{hint or op}() got an unexpected keyword argument '{key}'")
    attr = {**(attr or {}), **{key: str(value) for key, value in hidden.items()}}
    entries = [None if symbol is None else symbol._entry(str(place)) for place, symbol in enumerate(tensors)]
    return kind(
        _compose.apply(
            op, entries, {key: symbol._entry(key) for key, symbol in named.items()}, attributes, name=name, hint=hint, attr=attr
        )
    )


class _Known(Dict[str, Any]):
    """The functions for a class that have been asked for."""

    def __init__(self, kind: type) -> None:
        super().__init__(__name__=__package__)
        self.make, _ = fill_module(self, lambda info, called: make(kind, info, called))


_known: Dict[type, _Known] = {}


def function(kind: type, name: str) -> Callable[..., Any]:
    """The function of this name, for methods."""
    known = _known.get(kind) or _known.setdefault(kind, _Known(kind))
    return known.get(name) or known.make(name)
