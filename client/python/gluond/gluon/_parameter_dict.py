"""ParameterDict: Parameters by their global, prefixed names."""
from __future__ import annotations

from typing import Any, Dict, ItemsView, Iterator, KeysView, List, Optional, Sequence, Union, ValuesView

import numpy as np

from .. import initializer, ndarray
from .._array.array import NDArray
from .._array.save import load_named
from ..base import WrongValue
from ..context import Context
from ._constant import Constant
from ._parameter import Parameter
from .utils import _brief_print_list, _indent

Contexts = Union[Context, Sequence[Context], None]


class ParameterDict:
    """The parameters of a Block, in the order of their making.

    `prefix` goes before every name that `get` is given. `shared` is another dict, in which `get` looks first: this is how
    Blocks share parameters.
    """

    def __init__(self, prefix: str = "", shared: Optional["ParameterDict"] = None) -> None:
        self._prefix = prefix
        self._params: Dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        name = self._prefix + " " if self._prefix else ""
        lines = "\n".join(_indent(f"  {value}", 2) for value in self.values())
        return f"{name}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def keys(self) -> KeysView[str]:
        """The full names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """The parameters."""
        return self._params.values()

    def items(self) -> ItemsView[str, Parameter]:
        """Names and parameters."""
        return self._params.items()

    @property
    def prefix(self) -> str:
        """The prefix of every name."""
        return self._prefix

    def _lookup(self, name: str) -> Optional[Parameter]:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter `prefix + name`; made as `Parameter(prefix + name, **kwargs)` if there is none.

        One that exists must agree with `kwargs`; unknown dimensions of both shapes are filled from each other.
        """
        name = self._prefix + name
        param = self._lookup(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, value in kwargs.items():
            if getattr(param, key, None) is None:
                setattr(param, key, value)
            elif not _agrees(param, key, value):
                raise AssertionError(
                    f"Cannot retrieve Parameter '{name}' because desired attribute does not match with "
                    f"stored for attribute '{key}': desired '{value}' vs stored "
                    f"'{getattr(param, key)}'."
                )
        return param

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """The Constant `prefix + name`; made with `value` if there is none."""
        name = self._prefix + name
        param = self._lookup(name)
        if param is None:
            if value is None:
                raise KeyError(f"No constant named '{name}'. Please specify value if you want to create a new constant.")
            param = self._params[name] = Constant(name, value)
            return param
        if not isinstance(param, Constant):
            raise AssertionError(f"Parameter '{name}' already exists but it is not a constant.")
        if value is not None and not param.same_value(value):
            raise AssertionError(f"Constant '{name}' already exists but its value doesn't match new value.")
        return param

    def update(self, other: "ParameterDict") -> None:
        """Takes over the parameters of `other`. The same name for two parameters is an error."""
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise AssertionError(
                    "Cannot update self with other because they have different Parameters with the " f"same name '{name}'"
                )
        self._params.update(other.items())

    def initialize(self, init: Any = None, ctx: Contexts = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initializes every parameter on `ctx`: with its own initializer, else with `init` (Uniform(0.07))."""
        init = initializer.create(init) if init is not None else initializer.Uniform()
        if verbose:
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Sets all gradients to zero."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Contexts) -> None:
        """Moves all parameters to other contexts."""
        for param in self.values():
            param.reset_ctx(ctx)  # type: ignore[arg-type]

    def list_ctx(self) -> List[Context]:
        """The contexts of all parameters together."""
        return list(dict.fromkeys(ctx for param in self.values() for ctx in param.list_ctx()))

    def setattr(self, name: str, value: Any) -> None:
        """Sets an attribute of every parameter: `net.collect_params('.*bias').setattr('lr_mult', 2)`."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Writes MXNet's `.params` format, names without `strip_prefix`."""
        arrays = {}
        for name, param in self.items():
            if not name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name "
                    f"'{name}' does not start with '{strip_prefix}'. this may be due to your Block shares "
                    "parameters from other Blocks or you forgot to use 'with name_scope()' when creating "
                    "child blocks. For more info on naming, please see docs/python.md."
                )
            arrays[name[len(strip_prefix) :]] = param._reduce()
        ndarray.save(filename, arrays)

    def load(
        self,
        filename: str,
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Reads a file of `save` or `export`; `restore_prefix` goes before the file's names."""
        loaded = load_named(filename)
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, restore_prefix, f"file: {filename}", cast_dtype, dtype_source)

    def load_dict(
        self,
        param_dict: Dict[str, NDArray],
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: Optional[str] = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Sets parameters from arrays by name; `arg:` and `aux:` before a name are taken off."""
        source = filename if filename else "param_dict"
        arrays = {}
        for name, array in param_dict.items():
            plain = name[4:] if name.startswith(("arg:", "aux:")) else name
            arrays[restore_prefix + plain] = array
        if not allow_missing:
            for name in self.keys():
                if name not in arrays:
                    raise AssertionError(
                        f"Parameter '{name[len(restore_prefix):]}' is missing in {source}, which "
                        f"contains parameters: {_brief_print_list(list(arrays))}. Please make sure source and "
                        "target networks have the same prefix."
                    )
        for name, array in arrays.items():
            if name in self._params:
                self._params[name]._load_init(array, ctx, cast_dtype, dtype_source)
            elif not ignore_extra:
                raise WrongValue(
                    f"Parameter '{name[len(restore_prefix):]}' loaded from {source} is not present in "
                    f"ParameterDict, choices are: {_brief_print_list(list(self.keys()))}. Set "
                    "ignore_extra to True to ignore."
                )


def _agrees(param: Parameter, key: str, value: Any) -> bool:
    """Whether a parameter has the attributes that `get` asks for; fills unknown dimensions of its shape."""
    stored = getattr(param, key)
    if value is None:
        return True
    if key == "shape":
        value = (value,) if isinstance(value, int) else tuple(value)
        if len(value) != len(stored):
            return False
        pairs = list(zip(value, stored))
        if any(new > 0 and old > 0 and new != old for new, old in pairs):
            return False
        param.shape = tuple(max(new, old) if min(new, old) <= 0 else old for new, old in pairs)
        return True
    if key == "dtype":
        return np.dtype(stored) == np.dtype(value)
    return bool(stored == value)
