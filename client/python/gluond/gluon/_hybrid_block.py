"""HybridBlock: a Block that runs operator by operator, or as one graph once it is hybridized."""
from __future__ import annotations

import difflib
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import ndarray, symbol
from .._array.array import NDArray
from .._composed.shapes import NoGraph
from ..base import MXNetError, WrongValue
from ..context import Context, current_context
from ..symbol.symbol import Symbol
from ._block import Block
from ._nested import ARRAY, flatten, mxnet_format
from ._parameter import DeferredInitializationError
from ._parameter_dict import ParameterDict
from ._structure import Structure, changes
from ._traced import TracedGraph

_FLAGS = ("static_alloc", "static_shape", "inline_limit", "forward_bulk_size", "backward_bulk_size")


class HybridBlock(Block):
    """A Block that overrides `hybrid_forward(self, F, x, *args, **params)` instead of `forward`.

    `F` is `nd` while it runs operator by operator, and `sym` while its graph is made, which is once, at the first call
    after `hybridize()`; from then on one message runs the whole graph on the server. Its own parameters arrive as keyword
    arguments, by the names of the attributes.

        class Scale(gluon.HybridBlock):
            def __init__(self, units, **kwargs):
                super().__init__(**kwargs)
                with self.name_scope():
                    self.scale = self.params.get('scale', shape=(units,))

            def hybrid_forward(self, F, x, scale):
                return F.broadcast_mul(x, scale)
    """

    def __init__(self, prefix: Optional[str] = None, params: Optional[ParameterDict] = None, **unknown: Any) -> None:
        super().__init__(prefix, params, **unknown)
        self._graphs: Dict[Any, TracedGraph] = {}
        self._latest: Optional[TracedGraph] = None
        self._structure: Optional[Structure] = None  # The structure that the graphs were made of.
        self._compared = -1  # The number of changes when the structure was compared last.
        self._active = False
        self._flags: Dict[str, Any] = {}
        self._op_hook: Optional[Callable[[str, str, NDArray], Any]] = None
        self._monitor_all = False

    def register_child(self, block: Block, name: Optional[str] = None) -> None:
        """Adds a child, which must be a HybridBlock, too."""
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. If "
                "you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)

    def _clear_graphs(self) -> None:
        self._graphs = {}
        self._latest = None

    def _check_structure(self) -> None:
        """Drops graphs of Blocks, children or parameters that are others now."""
        if self._compared != changes():
            self._compared = changes()
            before, self._structure = self._structure, Structure(self)
            if before != self._structure:
                self._clear_graphs()

    @property
    def _last_graph(self) -> Optional[TracedGraph]:
        """The graph of the last run, unless the Block has changed since."""
        self._check_structure()
        return self._latest

    def hybridize(
        self,
        active: bool = True,
        backend: Optional[str] = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: Optional[int] = None,
        backward_bulk_size: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        """From now on this Block and those inside run as graphs; with `active=False` operator by operator again.

        `static_alloc` and `static_shape` are as in MXNet; the server plans memory once per shape either way. An unknown
        keyword is an error.
        """
        for name in kwargs:
            close = difflib.get_close_matches(name, _FLAGS + ("active", "backend", "clear"), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" There are: {', '.join(_FLAGS)}."
            raise TypeError(f"hybridize() got an unexpected keyword argument '{name}'.{hint}")
        if backend is not None:
            raise ValueError(f"hybridize: there is no backend '{backend}'; the server optimizes every graph by itself.")
        if static_shape and not static_alloc:
            raise MXNetError("static_alloc must be True when static_shape is True")
        self._active = active and not _in_client(self)
        self._flags = {"static_alloc": static_alloc, "static_shape": static_shape, "inline_limit": inline_limit}
        if forward_bulk_size is not None:
            self._flags["forward_bulk_size"] = forward_bulk_size
        if backward_bulk_size is not None:
            self._flags["backward_bulk_size"] = backward_bulk_size
        if clear:
            self._clear_graphs()
        super().hybridize(
            active,
            clear=clear,
            static_alloc=static_alloc,
            static_shape=static_shape,
            inline_limit=inline_limit,
            forward_bulk_size=forward_bulk_size,
            backward_bulk_size=backward_bulk_size,
        )

    def optimize_for(self, x: Any, *args: Any, backend: Optional[str] = None, clear: bool = False, **kwargs: Any) -> None:
        """Hybridizes and runs once, so that the graph is made; there are no backends to choose from."""
        self.hybridize(True, backend, clear, **kwargs)
        self(x, *args)

    def register_op_hook(self, callback: Callable[[str, str, NDArray], Any], monitor_all: bool = False) -> None:
        """Once hybridized, calls `callback(name, operator, array)` for every output of an operator after each run: `fc_output`.

        With `monitor_all` before it for the operator's inputs as well, by its own names for them: `fc_weight`.
        """
        self._op_hook = callback
        self._monitor_all = monitor_all
        self._clear_graphs()
        super().register_op_hook(callback, monitor_all)

    # Graphs.

    def _graph(self, args: Tuple[Any, ...]) -> Tuple[TracedGraph, List[NDArray]]:
        """The graph for inputs nested as `args`, made if there is none yet, and the inputs as one list."""
        if all(isinstance(arg, NDArray) for arg in args):
            arrays, form = list(args), (ARRAY,) * len(args)
        else:
            arrays, form = flatten(args, "input")
            form = form[1:]
            if any(isinstance(array, NDArray) for array in arrays) and not all(isinstance(array, NDArray) for array in arrays):
                raise WrongValue(f"{self.name}: its inputs are NDArrays or Symbols, not both")
        self._check_structure()
        graph = self._graphs.get(form)
        if graph is None:
            graph = self._graphs[form] = TracedGraph.of(self, ("tuple",) + form)
            graph.seen = [(array._shape, array._dtype) for array in arrays]
        self._latest = graph
        return graph, arrays

    def infer_shape(self, *args: Any) -> None:
        """Sets the shapes of parameters from those of the inputs."""
        graph, arrays = self._graph(args)
        graph.infer(self, arrays, "shape")

    def infer_type(self, *args: Any) -> None:
        """Sets the dtypes of parameters from those of the inputs."""
        graph, arrays = self._graph(args)
        graph.infer(self, arrays, "dtype")

    def _finish_deferred(self, args: Tuple[Any, ...]) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            raise ValueError(
                "Deferred initialization failed because shape cannot be inferred. " f"{type(self).__name__} '{self.name}': {error}"
            ) from error
        for param in self.collect_params().values():
            param._finish_deferred_init()

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> Tuple[str, str]:
        """Writes `path-symbol.json` and `path-%04d.params`, which `SymbolBlock.imports` and MXNet itself read."""
        last = self._last_graph
        if last is None:
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least once " "before calling export."
            )
        outputs = last.outputs
        symbol_file, params_file = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
        outputs.save(symbol_file, remove_amp_cast=remove_amp_cast)
        arguments, auxiliary = set(outputs.list_arguments()), set(outputs.list_auxiliary_states())
        arrays = {}
        for name, param in self.collect_params().items():
            if name in arguments:
                arrays["arg:" + name] = param._reduce()
            elif name in auxiliary:
                arrays["aux:" + name] = param._reduce()
        ndarray.save(params_file, arrays)
        return symbol_file, params_file

    def _saved_graph(self) -> Dict[str, Any]:
        """The graph as `save` writes it, in MXNet's words: how inputs and outputs are nested, and their Symbols."""
        graph = self._last_graph
        form = next((form for form, each in self._graphs.items() if each is graph), None)
        if graph is None or form is None:
            return {"hybridized": False}
        return {
            "in_format": mxnet_format(("tuple",) + form),
            "out_format": mxnet_format(graph.out_form),
            "hybridized": True,
            "inputs": [each.tojson() for each in graph.inputs],
            "symbol": graph.outputs.tojson(),
        }

    # Running.

    def forward(self, x: Any, *args: Any) -> Any:
        """Runs `hybrid_forward` on arrays, as a graph if hybridized, or on Symbols."""
        first = x if isinstance(x, (NDArray, Symbol)) else _first((x,) + args)
        if isinstance(first, NDArray):
            ctx = first.context
            if ctx == current_context():
                return self._run(ctx, x, *args)
            with ctx:
                return self._run(ctx, x, *args)
        if not isinstance(first, Symbol):
            raise ValueError(
                "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the "
                f"type of the args: {', '.join(type(arg).__name__ for arg in (x,) + args)}."
            )
        params = {name: param.var() for name, param in self._reg_params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbol, x, *args, **params)

    def _run(self, ctx: Context, *args: Any) -> Any:
        if self._active:
            try:
                graph, arrays = self._graph(args)
            except NoGraph:  # A loop whose length only values tell.
                self._active = False
        if not self._active:
            return self.hybrid_forward(ndarray, *args, **self._local_params(ctx, args))
        if len(arrays) > 1 and any(array.context != ctx for array in arrays):
            raise ValueError(
                "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one "
                f"input context. The inputs are on {', '.join(str(array.context) for array in arrays)}."
            )
        try:
            return graph.run(self, arrays, ctx)
        except DeferredInitializationError:
            self._finish_deferred(args)
            return graph.run(self, arrays, ctx)

    def _local_params(self, ctx: Context, args: Tuple[Any, ...]) -> Dict[str, NDArray]:
        try:
            return {name: param.data(ctx) for name, param in self._reg_params.items()}
        except DeferredInitializationError:
            self._finish_deferred(args)
            return {name: param.data(ctx) for name, param in self._reg_params.items()}

    def hybrid_forward(self, F: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """The Block's computation, by operators of `F`; subclasses override it: `hybrid_forward(self, F, x, ...)`."""
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward(self, F, x, ...).")


def _in_client(block: Block) -> bool:
    """Whether the Block, or one inside, computes in this process, as transforms of images do, and so has no graph."""
    return getattr(block, "in_client", False) or any(map(_in_client, block._children.values()))


def _first(args: Any) -> Any:
    """The first array or Symbol in nested lists and tuples."""
    for arg in args:
        found = _first(arg) if isinstance(arg, (list, tuple)) else arg
        if isinstance(found, (NDArray, Symbol)):
            return found
    return None
