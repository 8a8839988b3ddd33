"""Names of MXNet's that stand in another file here, and the errors for those that gluond lacks."""

from __future__ import annotations

import dis
import importlib.abc
import sys
import types
from typing import Any, Callable, Iterable, Iterator, Set, Tuple

from . import _side_effects
from ._replacements import hint, operator_hint
from .base import did_you_mean

_PRIVATE = ": it is not part of gluond; of MXNet's private names it has those that many libraries import, and dir({}) lists the public ones"
# MXNet's files import from these, and libraries take the names from where they find them.
_COMMON = (".base", ".util", ".ndarray.ndarray", ".symbol.symbol", ".gluon.parameter", ".gluon.utils")


def no_attribute(module: str, name: str) -> Exception:
    """The error for a name that a module lacks, with the replacement or the closest names."""
    return lacking(module, name, replacement(module, name, vars(sys.modules[module]) if module in sys.modules else ()))


def replacement(module: str, name: str, known: Iterable[str]) -> str:
    """The replacement of a name that a module lacks, the module that has it, or the closest of the known names."""
    if name.startswith("__"):
        return ""
    if hint(name) or operator_hint(name):
        return hint(name) or operator_hint(name)
    if name.startswith("_"):
        return _PRIVATE.format(module)
    return _where(name) or did_you_mean(name, [each for each in known if not each.startswith("_")])


def _where(name: str) -> str:
    """The public module of the package that has a name, the one with the shortest path."""
    paths = sorted((path for path in list(sys.modules) if path.startswith(f"{__package__}.") and "._" not in path), key=len)
    if name in vars(sys.modules[__package__]):
        return f": use {__package__}.{name}"
    return next((f": use {path}.{name}" for path in paths if name in getattr(sys.modules[path], "__all__", ())), "")


def find(module: str, name: str) -> Any:
    """A name that MXNet's module of this name has, and that stands in another file here; else the error of no_attribute."""
    for place, its_own in () if name.startswith("__") else _places(module):
        is_asked = place in sys.modules and not (place == __package__ and name.startswith("_"))
        found = vars(sys.modules[place]).get(name) if is_asked else None
        if found is not None and (not its_own or getattr(found, "__module__", "") == place):
            return found
    raise no_attribute(module, name)


def _places(module: str) -> Iterator[Tuple[str, bool]]:
    """The modules whose names a file of MXNet's may have, and whether it has but those that they define."""
    if not hasattr(sys.modules.get(module), "__path__"):  # A file, not a package.
        package = module.rpartition(".")[0]
        yield from [(each, True) for each in list(sys.modules) if each.rpartition(".")[0] == package]
        while package:
            yield package, False
            package = package.rpartition(".")[0]
    yield from [(__package__ + each, False) for each in _COMMON]


def lacking(module: str, name: str, instead: str) -> Exception:
    """An AttributeError; an ImportError for `from module import name`, where Python would keep what to do instead to itself."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__ and frame.f_code.co_name in _ASKED:
        frame = frame.f_back
    if instead and frame is not None and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name '{name}' from '{module}'{instead}", name=module)
    return AttributeError(f"module '{module}' has no attribute '{name}'{instead}")


_ASKED = ("lacking", "no_attribute", "find", "get", "__getattr__")  # The functions on the way from the module that is asked.


class _Module(types.ModuleType):
    """A module that has the names of MXNet's file of this name, and says of one that it lacks what to use."""

    def __getattr__(self, name: str) -> Any:
        return find(self.__name__, name)


def getter(package: str) -> Callable[[str], Any]:
    """`__getattr__` of a package, whose public modules, which are all imported, get one as well."""
    for name, module in list(sys.modules.items()):
        inner = name[len(package) + 1 :]
        if name.startswith(package + ".") and not inner.startswith("_") and "._" not in inner and "__getattr__" not in vars(module):
            module.__class__ = _Module

    def get(name: str) -> Any:
        raise no_attribute(package, name)

    return get


class _Finder(importlib.abc.MetaPathFinder):
    """Asked for missing modules: `from gluond import image` does not ask no_attribute, or hides its answer."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """None; an error as Python's, with the hint, for who imports it rather than asks whether it is there."""
        package, _, name = fullname.rpartition(".")
        if package.partition(".")[0] != __package__ or not hint(name):
            return
        callers = _callers_in_importlib()
        if "_handle_fromlist" in callers:
            raise ImportError(f"cannot import name '{name}' from '{package}'{hint(name)}", name=package)
        if "_find_and_load" in callers:
            raise ModuleNotFoundError(f"No module named '{fullname}'{hint(name)}", name=fullname)


def _callers_in_importlib() -> Set[str]:
    found = set()
    frame: Any = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        found.add(frame.f_code.co_name)
        frame = frame.f_back
    return found


_side_effects.find_missing_modules(_Finder())
