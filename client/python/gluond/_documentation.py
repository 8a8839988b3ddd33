"""Signatures and docstrings of the functions that operators become, and the modules that hold them."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterable, Sequence, Tuple

from . import _elsewhere, _operators
from ._attributes import Parameter, did_you_mean
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
    for each in info.parameters.values():
        if each.name not in names:
            parameters.append(inspect.Parameter(each.name, kind, default=_Text("..." if each.required else _default(each))))
    for name in (("out",) if out else ()) + ("name",):
        if name not in info.parameters:
            parameters.append(inspect.Parameter(name, _KEYWORD, default=None))
    return inspect.Signature(parameters)


class _Text(str):
    """A default value that is printed as it stands."""

    __repr__ = str.__str__


def _default(parameter: Parameter) -> str:
    written = parameter.default
    is_text = parameter.values or parameter.type.startswith(("string", "dtype"))
    return repr(written) if is_text and written != "None" else written or "''"


def document(info: OperatorInfo, tensor: str) -> str:
    """The function's docstring. `tensor`: the type of its tensors, NDArray or Symbol."""
    lines = [info.description, "", "Parameters", "----------"]
    for argument in info.inputs:
        lines += [f"{argument.name} : {tensor}{'[]' if argument.several else ''}", f"    {argument.description}"]
    for each in info.parameters.values():
        if each.name != info.variable_inputs:
            lines += [f"{each.name} : {_kind(each)}", f"    {each.description}"]
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


def _kind(parameter: Parameter) -> str:
    kind = parameter.type + (f" in {parameter.range}" if parameter.range else "")
    return f"{kind}, required" if parameter.required else f"{kind}, optional, default={_default(parameter)}"


def fill_module(module: dict[str, Any], make: Callable[[OperatorInfo, str], Any], prefixes: Sequence[str] = ("",),
                internal: bool = False) -> Tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """`__getattr__` and `__dir__` for a module whose functions are made of operators when they are first asked for.

    prefixes: an operator `<prefix><name>` is the function `<name>`. internal: names that begin with `_`.
    """

    def get(name: str) -> Any:
        if _elsewhere.hint(name):
            raise _elsewhere.no_attribute(module["__name__"], name)
        if not name.startswith(("__", "_ipython", "_repr_")) and (internal or not name.startswith("_")):
            for prefix in prefixes:
                info = _operators.operators().get(prefix + name)
                if info is not None:
                    function = module[name] = make(info, name)
                    _operators.forget_with_them(module, name)
                    return function
            hint = _elsewhere.operator_hint(name) or did_you_mean(name, [each for each in names() if not each.startswith("__")])
            raise AttributeError(f"module '{module['__name__']}' has no attribute '{name}'{hint}")
        raise AttributeError(f"module '{module['__name__']}' has no attribute '{name}'")

    def names() -> Iterable[str]:
        found = {name for name, value in module.items() if not name.startswith("_") and value is not make
                 and value is not fill_module and name != "annotations"}
        try:
            operators: Iterable[str] = _operators.operators()
        except MXNetError:  # No server: completion shows what is here.
            operators = ()
        for name in operators:
            for prefix in prefixes:
                rest = name[len(prefix):] if name.startswith(prefix) else ""
                if rest and (internal or not rest.startswith("_")):
                    found.add(rest)
        return sorted(found)

    return get, names
