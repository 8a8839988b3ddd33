"""Block: a network or a layer, made of Parameters and other Blocks."""
from __future__ import annotations

import inspect
import re
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import numpy as np

from .. import initializer
from .._attributes import did_you_mean
from .._wire.source_lines import LayerCall
from ..context import Context
from ._parameter import Parameter
from ._parameter_dict import ParameterDict
from ._saved import load_parameters, load_tree, save_parameters, save_tree
from ._scope import BlockScope
from ._structure import count_change
from ._summary import print_summary
from .utils import HookHandle, _indent


# The members that a copy has for itself.
_OWN = ("_children", "_reg_params", "_forward_hooks", "_forward_pre_hooks", "_graphs")


def _unexpected(kind: type, name: str) -> TypeError:
    """The error for a keyword that no __init__ of a class takes."""
    known = [
        each
        for base in kind.__mro__
        if "__init__" in base.__dict__ and base is not object
        for each, parameter in inspect.signature(base.__init__).parameters.items()  # type: ignore[misc]
        if parameter.kind is not parameter.VAR_KEYWORD and each != "self"
    ]
    return TypeError(f"{kind.__name__}() got an unexpected keyword argument '{name}'{did_you_mean(name, known)}")


class Block:
    """Base class of all networks and layers.

    Blocks and Parameters that are assigned to attributes belong to it. A subclass makes them in `__init__`, within
    `self.name_scope()`, and overrides `forward`:

        class Model(gluon.Block):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                with self.name_scope():
                    self.dense0 = nn.Dense(20)
                    self.dense1 = nn.Dense(20)

            def forward(self, x):
                return self.dense1(nd.relu(self.dense0(x)))

    `prefix` goes before the names of its parameters and children; by default it is the class's name in lower case with a
    number. `params` shares the parameters of another Block: `nn.Dense(20, params=other.params)`.
    """

    _is_container = False  # Whether the Block only runs its children in a row; a summary then leaves it out.

    def __init__(self, prefix: Optional[str] = None, params: Optional[ParameterDict] = None, **unknown: Any) -> None:
        if unknown:
            raise _unexpected(type(self), next(iter(unknown)))
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope = BlockScope(self)
        self._children: Dict[str, Block] = {}
        self._reg_params: Dict[str, Parameter] = {}
        self._casts = 0
        self._forward_hooks: Dict[int, Callable[..., Any]] = {}
        self._forward_pre_hooks: Dict[int, Callable[..., Any]] = {}

    def _alias(self) -> str:
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        lines = "\n".join(
            f"  ({key}): {_indent(repr(block), 2)}" for key, block in self.__dict__.items() if isinstance(block, Block)
        )
        return f"{type(self).__name__}(\n{lines}\n)"

    def __copy__(self) -> "Block":
        """A Block of the same children and parameters, which can be given others."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update({name: dict(value) if name in _OWN else value for name, value in self.__dict__.items()})
        return copied

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.__dict__.get(name)
        if isinstance(known, (Parameter, Block)) and not isinstance(value, type(known)):
            raise TypeError(f"Changing attribute type for {name} from {type(known)} to {type(value)} is not allowed.")
        if isinstance(value, (Block, Parameter)) and "_children" not in self.__dict__:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '_children': call super().__init__() in its "
                f"__init__ before `{name}` is set"
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if self._reg_params.get(name, value) is not value:
                raise AssertionError(
                    f"Overriding Parameter attribute {name} is not allowed. If you want to share "
                    "parameters between blocks, please set 'params' at Block construction instead."
                )
            self._reg_params[name] = value
            count_change()
        super().__setattr__(name, value)

    # Names and parts.

    @property
    def prefix(self) -> str:
        """The prefix of the names of parameters and children."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the underscore at its end."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without its children's; see `collect_params`."""
        return self._params

    def name_scope(self) -> BlockScope:
        """`with self.name_scope():` Blocks and Parameters made inside get this Block's prefix."""
        return self._scope

    def register_child(self, block: "Block", name: Optional[str] = None) -> None:
        """Adds a child, as assigning it to an attribute does. Its structural name is `name`, or its number."""
        self._children[str(len(self._children)) if name is None else name] = block
        count_change()

    def collect_params(self, select: Optional[str] = None) -> ParameterDict:
        """The parameters of this Block and all inside it, by prefixed name.

        `select` is a regular expression that the names must match from their beginning: `'.*weight|.*bias'`.
        """
        self._check_containers()
        found = ParameterDict(self._params.prefix)
        if select is None:
            found.update(self._params)
        else:
            pattern = re.compile(select)
            found._params.update({name: p for name, p in self._params.items() if pattern.match(name)})
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def _collect_params_with_prefix(self, prefix: str = "") -> Dict[str, Parameter]:
        """The parameters by structural name, as `0.weight`."""
        if prefix:
            prefix += "."
        found = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    def _check_containers(self) -> None:
        """Warns of Blocks in a list or dict, whose parameters nobody would find."""
        children = set(map(id, self._children.values()))
        for name, value in self.__dict__.items():
            if isinstance(value, (list, tuple, dict)) and name not in ("_children", "_reg_params"):
                if any(isinstance(item, Block) and id(item) not in children for item in _items(value)):
                    warnings.warn(
                        f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. Note that '
                        "Blocks inside the list, tuple or dict will not be registered automatically. Make sure "
                        "to register them using register_child() or switching to nn.Sequential/"
                        "nn.HybridSequential instead. ",
                        stacklevel=3,
                    )

    # Values of parameters.

    def initialize(
        self,
        init: Any = None,
        ctx: Union[Context, Sequence[Context], None] = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initializes all parameters on `ctx`: with their own initializer, else with `init` (Uniform(0.07))."""
        self.collect_params().initialize(initializer.Uniform() if init is None else init, ctx, verbose, force_reinit)

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Writes the parameters in MXNet's `.params` format, by structural names such as `0.weight`.

        With `deduplicate`, a parameter that several Blocks share is written once.
        """
        save_parameters(self, filename, deduplicate)

    def load_parameters(
        self,
        filename: str,
        ctx: Union[Context, Sequence[Context], None] = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Reads a file of `save_parameters`, `export`, or an old version's `collect_params().save`.

        `allow_missing`: parameters that the file lacks keep their values. `ignore_extra`: others in the file are
        ignored. With `cast_dtype`, a dtype that differs becomes the parameter's ('current'), or the file's ('saved').
        """
        load_parameters(self, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    def save_params(self, filename: str) -> None:
        """As `save_parameters`, but with the parameters' own names, without the Block's prefix, as MXNet 1.2 and older wrote it."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self,
        filename: str,
        ctx: Union[Context, Sequence[Context], None] = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """The old name of `load_parameters`."""
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Writes `<prefix>-model.json`, the tree of Blocks, and `<prefix>-model.params`."""
        save_tree(self, prefix)

    def load(self, prefix: str) -> None:
        """Reads files that `save` wrote, here or in MXNet, for a Block of the same classes. Names become what they were; what was
        hybridized is it again.
        """
        load_tree(self, prefix)

    def cast(self, dtype: Union[str, np.dtype, type]) -> None:
        """Changes the dtype of all parameters."""
        self._casts += 1
        count_change()
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    # Walks and hooks.

    def apply(self, fn: Callable[["Block"], Any]) -> "Block":
        """Calls `fn` on every Block inside, children first, and on this one; returns this one."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridizes the HybridBlocks inside; see `HybridBlock.hybridize`."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def register_forward_pre_hook(self, hook: Callable[["Block", Any], Any]) -> HookHandle:
        """Calls `hook(block, inputs)` before every forward; its result is ignored."""
        return HookHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[["Block", Any, Any], Any]) -> HookHandle:
        """Calls `hook(block, inputs, outputs)` after every forward; its result is ignored."""
        return HookHandle(self._forward_hooks, hook)

    def register_op_hook(self, callback: Callable[[str, str, Any], Any], monitor_all: bool = False) -> None:
        """Calls `callback(output name, operator name, array)` for every operator of the hybridized Blocks inside."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Runs `inputs` through the network, and prints every layer's output shape and number of parameters."""
        print_summary(self, *inputs)

    @LayerCall.decorate
    def __call__(self, *args: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            hook(self, args)
        out = self.forward(*args)
        for hook in list(self._forward_hooks.values()):
            hook(self, args, out)
        return out

    def forward(self, *args: Any) -> Any:
        """The Block's computation; subclasses override it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, x, ...).")


def _items(container: Any) -> List[Any]:
    """The items of a list, tuple or dict, at any depth."""
    found: List[Any] = []
    for item in container.values() if isinstance(container, dict) else container:
        found.extend(_items(item) if isinstance(item, (list, tuple, dict)) else [item])
    return found
