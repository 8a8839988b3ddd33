"""Signatures and docstrings of the functions that operators become, and the modules that hold them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Iterable, Optional, Sequence, Tuple

from . import _elsewhere, _operators
from ._attributes import Attribute
from ._composed.table import ALIASES, COMPOSED
from ._operators import OperatorInfo
from .base import MXNetError

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


def signature(info: OperatorInfo, out: bool = True) -> inspect.Signature:
    """The function's signature: tensors, parameters, `out` (for nd), `name`."""
    parameters = []
    kind: Any = _EITHER
    for argument in info.inputs:
        if argument.several:
            parameters.append(inspect.Parameter(argument.name, inspect.Parameter.VAR_POSITIONAL))
            kind = _KEYWORD
        else:
            parameters.append(inspect.Parameter(argument.name, kind, default=None))
    names = {each.name for each in info.inputs} | {info.variable_inputs}
    for parameter in info.parameters.values():
        if parameter.name not in names:
            shown = "..." if parameter.required else _default(parameter)
            parameters.append(inspect.Parameter(parameter.name, kind, default=_Text(shown)))
    for name in (("out",) if out else ()) + ("name",):
        if name not in info.parameters:
            parameters.append(inspect.Parameter(name, _KEYWORD, default=None))
    return inspect.Signature(parameters)


class _Text(str):
    """A default value that is printed as it stands."""

    __repr__ = str.__str__


def _default(parameter: Attribute) -> str:
    written = parameter.default
    is_text = parameter.values or parameter.type.startswith(("string", "dtype"))
    return repr(written) if is_text and written != "None" else written or "''"


def document(info: OperatorInfo, tensor: str) -> str:
    """The function's docstring. `tensor`: the type of its tensors, NDArray or Symbol."""
    lines = [info.description, "", "Parameters", "----------"]
    for argument in info.inputs:
        lines += [f"{argument.name} : {tensor}{'[]' if argument.several else ''}", f"    {argument.description}"]
    for parameter in info.parameters.values():
        if parameter.name != info.variable_inputs:
            lines += [f"{parameter.name} : {_kind(parameter)}", f"    {parameter.description}"]
    if tensor == "NDArray":
        lines += ["out : NDArray, optional", "    Gets the result."]
    else:
        lines += ["name : string, optional", "    Name of the resulting symbol."]
    lines += ["", "Returns", "-------", f"out : {tensor} or list of {tensor}s"]
    if len(info.outputs) > 1:
        lines += [f"    {', '.join(info.outputs)}"]
    if info.aliases:
        lines += ["", f"Also known as {', '.join(info.aliases)}."]
    if not info.differentiable:
        lines += ["", "Has no gradient."]
    return "\n".join(lines)


def _kind(parameter: Attribute) -> str:
    kind = parameter.type + (f" in {parameter.range}" if parameter.range else "")
    return f"{kind}, required" if parameter.required else f"{kind}, optional, default={_default(parameter)}"


Make = Callable[[OperatorInfo, str], Any]


def _function(make: Make, name: str, called: str, module: str) -> Optional[Callable[..., Any]]:
    """The function of an operator, the server's or one that is made of the server's; None where there is neither."""
    info = _operators.operators().get(ALIASES.get(name, name))
    if info is not None:
        return make(info, called)
    composed = COMPOSED.get(name)
    return _on_operators(composed, make, called, module) if composed else None


class _All:
    """All operators, by their own names: what functions of `_composed` know as `F`."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _function(self._make, name, name, "")
        if function is None:
            raise AttributeError(name)
        vars(self)[name] = function
        _operators.forget_with_them(vars(self), name)
        return function


def _on_operators(composed: Callable[..., Any], make: Make, called: str, module: str) -> Callable[..., Any]:
    """A function of `_composed` on NDArrays, or on Symbols. It takes `out` and `name` as operators do."""
    F = _All(make)  # noqa: N806
    parameters = list(inspect.signature(composed).parameters.values())[1:]
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:  # It hands on what an operator takes, its name, too.
        return functools.partial(composed, F)

    @functools.wraps(composed)
    def function(*args: Any, name: Optional[str] = None, out: Any = None, **kwargs: Any) -> Any:
        with next((each.context for each in (*args, *kwargs.values()) if hasattr(each, "context")), contextlib.nullcontext()):
            result = composed(F, *args, **kwargs)
        if out is not None:
            return F.identity(result, out=out)
        return result if name is None or not hasattr(result, "list_arguments") else F.identity(result, name=name)

    function.__name__ = function.__qualname__ = called
    function.__module__ = module
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def fill_module(
    module: dict[str, Any], make: Make, prefixes: Sequence[str] = ("",), internal: bool = False
) -> Tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """`__getattr__` and `__dir__` for a module whose functions are made of operators when they are first asked for.

    prefixes: an operator `<prefix><name>` is the function `<name>`. internal: names that begin with `_`.
    """

    def get(name: str) -> Any:
        if _elsewhere.hint(name):
            raise _elsewhere.no_attribute(module["__name__"], name)
        is_private = name.startswith("_")
        if not is_private or internal and not name.startswith(("__", "_ipython", "_repr_")):
            for prefix in prefixes:
                function = _function(make, prefix + name, name, module["__name__"])
                if function is not None:
                    module[name] = function
                    _operators.forget_with_them(module, name)
                    return function
        if is_private:
            return _elsewhere.find(module["__name__"], name)
        raise _elsewhere.lacking(module["__name__"], name, _elsewhere.replacement(module["__name__"], name, names()))

    def names() -> Iterable[str]:
        found = {
            name
            for name, value in module.items()
            if not name.startswith("_") and value is not make and value is not fill_module and name != "annotations"
        }
        try:
            operators: Iterable[str] = _operators.operators()
        except MXNetError:  # No server: completion shows what is here.
            operators = ()
        for name in (*operators, *ALIASES, *COMPOSED):
            for prefix in prefixes:
                rest = name[len(prefix) :] if name.startswith(prefix) else ""
                if rest and (internal or not rest.startswith("_")):
                    found.add(rest)
        return sorted(found)

    return get, names
