"""The base of all initializers: names decide, `create` finds one by its name."""
from __future__ import annotations

import json
import logging
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Type, Union

import numpy as np

from ._array.array import NDArray
from ._registry import Registry


class InitDesc(str):
    """A parameter's name, with its attributes: `__init__` names the initializer it asks for."""

    attrs: Dict[str, Any]
    global_init: Optional["Initializer"]

    def __new__(cls, name: str, attrs: Optional[Dict[str, Any]] = None, global_init: Optional["Initializer"] = None) -> "InitDesc":
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer:
    """Sets arrays by their names: `..._bias` and `..._beta` to zero, `..._gamma` to one, weights as it likes.

    An own one overrides `_init_weight(name, array)`. It is called as `init(InitDesc(name), array)`.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], Any] = _mean_absolute

    def set_verbosity(self, verbose: bool = False, print_func: Optional[Callable[[NDArray], Any]] = None) -> "Initializer":
        """Logs each initialization, with what `print_func` says of the array (default: |x| / sqrt(size))."""
        self._verbose = verbose
        self._print_func = print_func or _mean_absolute
        return self

    def dumps(self) -> str:
        """JSON that `create` reads: `["xavier", {"magnitude": 2}]`."""
        return json.dumps([type(self).__name__.lower(), self._kwargs], default=_plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Initializer) and type(self) is type(other) and self.dumps() == other.dumps()

    def __hash__(self) -> int:
        return hash(type(self))

    def __call__(self, desc: str, array: NDArray) -> None:
        if not isinstance(desc, InitDesc):
            desc = InitDesc(desc)
        if desc.global_init is None:
            desc.global_init = self
        asked = desc.attrs.get("__init__")
        if asked:
            chosen = create(asked)
            chosen._init_weight(desc, array)
            self._report(desc, chosen, array)
            return
        for method, suffixes in _BY_SUFFIX:
            if desc.endswith(suffixes):
                getattr(self, method)(desc, array)
                self._report(desc, self, array)
                return
        self._init_default(desc, array)

    def _report(self, desc: str, init: "Initializer", array: NDArray) -> None:
        if self._verbose:
            logging.info("Initialized %s as %s: %s", desc, type(init).__name__, self._print_func(array))

    def _init_weight(self, name: str, array: NDArray) -> None:
        raise NotImplementedError("Must override it")

    def _init_bias(self, name: str, array: NDArray) -> None:
        array[:] = 0

    def _init_zero(self, name: str, array: NDArray) -> None:
        array[:] = 0

    def _init_one(self, name: str, array: NDArray) -> None:
        array[:] = 1

    def _init_gamma(self, name: str, array: NDArray) -> None:
        array[:] = 1

    def _init_beta(self, name: str, array: NDArray) -> None:
        array[:] = 0

    def _init_default(self, name: str, array: NDArray) -> None:
        raise ValueError(
            f'Unknown initialization pattern for {name}. Default initialization is now limited to "weight", '
            '"bias", "gamma" (1.0), and "beta" (0.0). Please use mx.sym.Variable(init=mx.init.*) to set '
            "initialization pattern"
        )


_BY_SUFFIX: Sequence[Tuple[str, Tuple[str, ...]]] = (
    ("_init_weight", ("weight",)),
    ("_init_bias", ("bias",)),
    ("_init_gamma", ("gamma",)),
    ("_init_beta", ("beta",)),
    ("_init_zero", ("min", "moving_mean", "running_mean", "moving_avg", "moving_inv_var")),
    ("_init_one", ("max", "moving_var", "running_var")),
)

_registry: Registry[Initializer] = Registry(Initializer, "initializer")


def register(klass: Type[Initializer]) -> Type[Initializer]:
    """Class decorator: `create` finds the class by its lower-case name."""
    return _registry.register(klass)


def alias(*names: str) -> Callable[[Type[Initializer]], Type[Initializer]]:
    """Class decorator: the class is found by these names, too."""
    return _registry.alias(*names)


def create(initializer: Union[Initializer, str], *args: Any, **kwargs: Any) -> Initializer:
    """The initializer of that name, of that JSON, or itself."""
    return _registry.create(initializer, *args, **kwargs)


def _mean_absolute(array: NDArray) -> str:
    return str(float(np.linalg.norm(array.asnumpy()) / np.sqrt(np.prod(array.shape))))


def _plain(value: Any) -> Any:
    """An NDArray, a numpy array or a numpy number as JSON can hold it."""
    return (value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)).tolist()
