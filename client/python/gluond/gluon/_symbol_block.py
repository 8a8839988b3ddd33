"""SymbolBlock: a Block made of a Symbol, such as one that `export` wrote."""
from __future__ import annotations

from os.path import commonprefix
from typing import Any, Optional, Sequence, Union

from .. import symbol
from ..context import Context
from ..symbol.symbol import Symbol
from ._hybrid_block import HybridBlock
from ._nested import ARRAY, flatten, regroup
from ._parameter_dict import ParameterDict
from ._traced import TracedGraph


class SymbolBlock(HybridBlock):
    """Runs a Symbol's graph; its variables but for `inputs` are the parameters.

    alexnet = ...                                         # A HybridBlock.
    out = alexnet(mx.sym.var('data')).get_internals()['flatten0_output']
    features = gluon.SymbolBlock(out, mx.sym.var('data'), params=alexnet.collect_params())
    """

    def __init__(
        self,
        outputs: Union[Symbol, Sequence[Symbol]],
        inputs: Union[Symbol, Sequence[Symbol]],
        params: Optional[ParameterDict] = None,
    ) -> None:
        super().__init__(prefix="", params=None)
        self._params = ParameterDict("", params)
        variables, form = flatten([inputs] if isinstance(inputs, Symbol) else inputs, "input")
        flat, out_form = flatten(outputs[0] if isinstance(outputs, (list, tuple)) and len(outputs) == 1 else outputs, "output")
        out = symbol.Group(flat)
        names = [variable.name for variable in variables]
        for variable in variables:
            if len(variable.get_internals().list_outputs()) != 1:
                raise AssertionError(f"Input symbols must be variable, but {variable.name} is an output of operators")
        attributes = out.attr_dict()
        for name in out.list_arguments():
            if name not in names:
                self._params.get(name, allow_deferred_init=True, **_declared(attributes.get(name, {})))
        for name in out.list_auxiliary_states():
            if name not in names:
                self._params.get(name, grad_req="null", allow_deferred_init=True, **_declared(attributes.get(name, {})))
        self._fixed = TracedGraph(variables, out, out_form)
        self._latest = self._fixed
        self._active = True
        common = len(commonprefix(list(self._params.keys())))
        self._reg_params = {name[common:]: param for name, param in self._params.items()}

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: Union[str, Sequence[str]],
        param_file: Optional[str] = None,
        ctx: Union[Context, Sequence[Context], None] = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> "SymbolBlock":
        """The Block of a file that `export`, or MXNet, wrote.

        net = gluon.SymbolBlock.imports('net-symbol.json', ['data'], 'net-0000.params')
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        block = SymbolBlock(symbol.load(symbol_file), [symbol.var(name) for name in names])
        if param_file is not None:
            block.collect_params().load(param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved")
        return block

    def __repr__(self) -> str:
        outputs = self._fixed.outputs
        return f"SymbolBlock(\n{outputs!r} : {len(self._fixed.inputs)} -> {len(outputs.list_outputs())}\n)"

    def _graph(self, args: Any) -> Any:
        arrays, _ = flatten(args, "input")
        if len(arrays) != len(self._fixed.inputs):
            raise ValueError(
                f"SymbolBlock has {len(self._fixed.inputs)} inputs, "
                f"{[v.name for v in self._fixed.inputs]}, but got {len(arrays)}."
            )
        return self._fixed, arrays

    def _clear_graphs(self) -> None:
        fixed: Optional[TracedGraph] = getattr(self, "_fixed", None)
        if fixed is not None:
            self._fixed = TracedGraph(fixed.inputs, fixed.outputs, fixed.out_form)
            self._latest = self._fixed
        else:
            super()._clear_graphs()

    def forward(self, x: Any, *args: Any) -> Any:
        """Runs the graph, or puts Symbols in the place of its inputs."""
        if not isinstance(x, Symbol):
            return super().forward(x, *args)
        values, _ = flatten((x,) + args, "input")
        out = self._fixed.outputs(**{str(var.name): value for var, value in zip(self._fixed.inputs, values)})
        form = self._fixed.out_form
        return out if form == ARRAY else regroup(iter([out[i] for i in range(len(out.list_outputs()))]), form)

    def reset_ctx(self, ctx: Union[Context, Sequence[Context]]) -> None:
        """Moves the parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:  # type: ignore[override]
        """A SymbolBlock runs as a graph always; the flags are taken as in `HybridBlock.hybridize`."""
        super().hybridize(True, **kwargs)


def _declared(attributes: dict) -> dict:
    """The attributes of a parameter that its variable has."""
    found: dict = {}
    if "__lr_mult__" in attributes:
        found["lr_mult"] = float(attributes["__lr_mult__"])
    if "__wd_mult__" in attributes:
        found["wd_mult"] = float(attributes["__wd_mult__"])
    return found
