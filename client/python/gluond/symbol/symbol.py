"""Symbol: a computation that has not been run. See `Symbol`."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import attribute
from .._attributes import dense_only, did_you_mean
from .._files import write_whole
from ..base import MXNetError, cannot_open
from . import _compose, _graph, _infer, _json
from ._arithmetic import SymbolArithmetic
from ._attributes import DTYPE_FLAGS, dtype_of, long_form, normalized, shown
from ._binding import Binding
from ._fluent import SymbolFluent
from ._graph import Entry, Node

__all__ = ["Symbol", "Variable", "var", "Group", "load", "load_json", "fromjson"]


class Symbol(SymbolArithmetic, SymbolFluent, Binding):
    """The outputs of a graph of operators. Made by `Variable` and by the functions of `mx.sym`.

    >>> data = mx.sym.Variable("data")
    >>> net = mx.sym.FullyConnected(data, num_hidden=10, name="fc")
    >>> net.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    >>> net.infer_shape(data=(32, 784))
    ([(32, 784), (10, 784), (10,)], [(32, 10)], [])
    """

    __slots__ = ()

    # Outputs.

    def __iter__(self) -> Iterator["Symbol"]:
        return (Symbol([entry]) for entry in self._entries)

    def __getitem__(self, index: Union[int, str, slice]) -> "Symbol":
        """The output of that position or name; a slice gives a group."""
        if isinstance(index, slice):
            return Symbol(self._entries[index])
        if isinstance(index, str):
            names = self.list_outputs()
            matches = [entry for entry, name in zip(self._entries, names) if name == index]
            if not matches:
                raise ValueError(f'Cannot find output that matches name "{index}"{did_you_mean(index, names, 3)}')
            if len(set(matches)) > 1:
                raise ValueError(f'There are multiple outputs with name "{index}"')
            return Symbol([matches[0]])
        if not isinstance(index, int):
            raise TypeError("Symbol only support integer index to fetch i-th output")
        if not 0 <= index < len(self._entries):
            raise IndexError(f"output {index} of {len(self._entries)}: want an index from 0")
        return Symbol([self._entries[index]])

    def __repr__(self) -> str:
        if self.name is None:
            return f"<{type(self).__name__} group [{', '.join(str(symbol.name) for symbol in self)}]>"
        return f"<{type(self).__name__} {self.name}>"

    def get_internals(self) -> "Symbol":
        """A group of the outputs of every node: `net.get_internals()["fc_output"]`."""
        entries: List[Entry] = []
        for node in _graph.walk(self._entries):
            count = 1 if node.is_variable else len(node.call.outputs)
            entries.extend(Entry(node, index) for index in range(count))
        return Symbol(entries)

    def get_children(self) -> Optional["Symbol"]:
        """A group of the direct inputs; None of a variable."""
        nodes = dict.fromkeys(entry.node for entry in self._entries)
        inputs = [entry for node in nodes for entry in node.inputs]
        return Symbol(inputs) if inputs else None

    # Attributes.

    def attr(self, key: str) -> Optional[str]:
        """The attribute's text; None where it is not set."""
        if self.name is None:
            return None
        return self._entries[0].node.attrs.get(long_form(key))

    def list_attr(self, recursive: bool = False) -> Dict[str, str]:
        """The attributes of the symbol itself."""
        if recursive:
            raise DeprecationWarning("Symbol.list_attr with recursive=True has been deprecated. " "Please use attr_dict instead.")
        return shown(self._entries[0].node.attrs) if self._entries else {}

    def attr_dict(self) -> Dict[str, Dict[str, str]]:
        """The attributes of all nodes that have some, by name."""
        return {node.name: shown(node.attrs) for node in _graph.walk(self._entries) if node.attrs}

    def _set_attr(self, **kwargs: str) -> None:
        """Sets attributes of the symbol; hidden ones, if an operator made it."""
        if self.name is None:
            raise MXNetError("Attributes can be set of one symbol, not of a group")
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ValueError("Set Attr only accepts string values")
        self._entries[0].node.set_attributes(normalized(kwargs))

    # Composition.

    def _gen_atomic_symbol(self) -> "Symbol":
        """The operator of the symbol, with new variables for its inputs. MXNetError: it is a group, or a variable."""
        node = self._entries[0].node if self.name is not None else None
        if node is None or node.is_variable:
            raise MXNetError("_gen_atomic_symbol needs the symbol of one operator")
        made = node.copy([Entry(Node(None, f"{node.name}_{argument}", {}), 0) for argument in node.call.inputs])
        return Symbol([Entry(made, place) for place in range(len(node.call.outputs))])

    def __call__(self, *args: "Symbol", name: Optional[str] = None, **kwargs: "Symbol") -> "Symbol":
        """A copy with other symbols in the place of its variables: `net(data=other)`."""
        composed = self.__copy__()
        composed._compose(*args, name=name, **kwargs)
        return composed

    def _compose(self, *args: "Symbol", name: Optional[str] = None, **kwargs: "Symbol") -> None:
        """Puts symbols in the place of its variables, by keyword, or in the order of `list_arguments`."""
        if args and kwargs:
            raise TypeError("compose only accept input Symbols either as positional or keyword arguments, not both")
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise TypeError(f"Compose expect `Symbol` as arguments, got {type(value).__name__}")
        arguments = self.list_arguments()
        if len(args) > len(arguments):
            raise TypeError(f"{len(args)} symbols for {len(arguments)} arguments: {', '.join(arguments)}")
        named = {**dict(zip(arguments, args)), **kwargs}
        self._entries = _compose.substitute(self._entries, {key: value._entry(key) for key, value in named.items()}, name)
        self._definitions = {}

    def __copy__(self) -> "Symbol":
        return Symbol(_graph.copy(self._entries))

    def __deepcopy__(self, memo: Any) -> "Symbol":
        return self.__copy__()

    def __reduce__(self) -> Tuple[Any, ...]:
        return load_json, (self.tojson(remove_amp_cast=False),)

    # Shapes and dtypes.

    def infer_shape(self, *args: Any, **kwargs: Any) -> _infer.Inferred:
        """The shapes of arguments, outputs and auxiliary states, from those of some arguments.

        Shapes are given in the order of `list_arguments` (None: unknown) or by keyword; 0 is an unknown dimension.
        Returns three lists of tuples, or (None, None, None) with a warning where something stays unknown.
        """
        return _infer.shapes(self, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> _infer.Inferred:
        """As infer_shape, but with `()` for an unknown shape and 0 for an unknown dimension."""
        return _infer.shapes(self, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> _infer.Inferred:
        """The dtypes of arguments, outputs and auxiliary states: lists of numpy types, given like shapes."""
        return _infer.types(self, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> _infer.Inferred:
        """As infer_type, but with None where a dtype stays unknown."""
        return _infer.types(self, args, kwargs, partial=True)

    # Files.

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as MXNet's JSON."""
        return _json.dumps(self._entries, remove_amp_cast)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Writes the graph as MXNet's JSON to a file, `net-symbol.json` by custom."""
        if not isinstance(fname, str):
            raise TypeError("fname need to be string")
        write_whole(fname, [self.tojson(remove_amp_cast).encode()])


def Variable(
    name: str,
    attr: Optional[Mapping[str, str]] = None,
    shape: Optional[Sequence[int]] = None,
    lr_mult: Optional[float] = None,
    wd_mult: Optional[float] = None,
    dtype: Any = None,
    init: Any = None,
    stype: Optional[str] = None,
    profiler_scope: Optional[str] = None,
    **kwargs: str,
) -> Symbol:
    """A symbol that is given its value when the graph is run.

    shape: 0 for a dimension that is not known. lr_mult, wd_mult: factors of the learning rate and the weight decay.
    init: an Initializer, or its name. Further attributes are `__hidden__` ones.
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attrs = normalized(attribute.current().get(attr))
    if attr is not None and not all(isinstance(value, str) for value in attrs.values()):
        raise ValueError("Set Attr only accepts string values")
    if shape is not None:
        sizes: Any = (shape,) if isinstance(shape, numbers.Integral) else shape
        attrs["__shape__"] = str(tuple(int(size) for size in sizes))
    if lr_mult is not None:
        attrs["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attrs["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attrs["__dtype__"] = str(DTYPE_FLAGS[dtype_of(dtype)])
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        dense_only(f"Variable '{name}'", stype)
        attrs["__storage_type__"] = "0"
    if profiler_scope is not None:
        attrs["__profiler_scope__"] = profiler_scope
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with "
                "double underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    return Symbol([Entry(Node(None, name, attrs), 0)])


var = Variable


def Group(symbols: Union[Symbol, Sequence[Symbol]]) -> Symbol:
    """One symbol with the outputs of several."""
    if isinstance(symbols, Symbol):
        symbols = [symbols]
    if not isinstance(symbols, (list, tuple)) or not symbols or not all(isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return Symbol([entry for symbol in symbols for entry in symbol._entries])


def load(fname: str) -> Symbol:
    """The symbol in a file written by `Symbol.save`, here or in MXNet."""
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    try:
        with open(fname, encoding="utf-8") as file:
            return load_json(file.read())
    except OSError as error:
        raise cannot_open(error) from None


def load_json(json_str: str) -> Symbol:
    """The symbol in text made by `Symbol.tojson`, here or in MXNet."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(_json.loads(json_str))


fromjson = load_json
