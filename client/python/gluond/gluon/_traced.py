"""TracedGraph: a HybridBlock's computation for one nesting of its inputs, as a graph of Symbols."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import symbol
from .._array.array import NDArray
from .._wire.frame import Within
from ..base import WrongValue
from ..context import Context
from ..symbol._cached_op import CachedOp
from ..symbol._monitored import MonitoredSymbol
from ..symbol._outputs import Outputs
from ._kinds import AnyHybridBlock
from ._nested import flatten, regroup, size
from ._parameter import Parameter
from .utils import shape_is_known


class TracedGraph:
    """The graph of `block`, with inputs named `data`, or `data0`, `data1`, ..., and parameters by their full names."""

    def __init__(self, inputs: List[symbol.Symbol], outputs: symbol.Symbol, out_form: Any) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.out_form = out_form
        self._op: Optional[CachedOp] = None
        self._sources: List[Tuple[Optional[int], Optional[Parameter]]] = []
        self._names: List[str] = []
        self._monitored: Optional[MonitoredSymbol] = None
        # The shapes and dtypes of the first inputs, as far as they are known here.
        self.seen: List[Tuple[Optional[Tuple[int, ...]], Any]] = []

    @staticmethod
    def of(block: AnyHybridBlock, form: Any) -> "TracedGraph":
        """Runs the Block's `hybrid_forward` with Symbols in the place of arrays nested as `form` says."""
        count = size(form)
        names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
        inputs = [symbol.var(name) for name in names]
        params = {name: param.var() for name, param in block._reg_params.items()}
        with block.name_scope(), Within(traced=True):
            out = block.hybrid_forward(symbol, *regroup(iter(inputs), form), **params)
        flat, out_form = flatten(out, "output")
        return TracedGraph(inputs, symbol.Group(flat), out_form)

    # Shapes.

    def infer(self, block: AnyHybridBlock, arrays: Sequence[NDArray], attribute: str) -> None:
        """Fills `shape` or `dtype` of the Block's parameters from those of the inputs."""
        infer = getattr(self.outputs, "infer_shape_partial" if attribute == "shape" else "infer_type")
        known = {str(var.name): getattr(array, attribute) for var, array in zip(self.inputs, arrays)}
        arguments, _, auxiliary = infer(**known)
        found = dict(zip(self.outputs.list_arguments(), arguments or []))
        found.update(zip(self.outputs.list_auxiliary_states(), auxiliary or []))
        unknown = []
        for name, param in block.collect_params().items():
            value = found.get(name)
            if attribute == "dtype":
                if value is not None and param._data is None:
                    param.cast(value)
            elif value is not None and shape_is_known(value):
                param.shape = value
            elif not shape_is_known(param.shape):
                why = "the graph leaves it unknown" if name in found else "no output of the network uses it"
                unknown.append(f"\n\t{name}: {param.shape} ({why})")
        if unknown:
            raise ValueError(
                "Cannot decide shape for the following parameters (0s in shape means unknown dimensions). "
                "Give them their shapes, or use operators that infer them, such as FullyConnected instead "
                "of dot:" + "".join(unknown)
            )

    # Running.

    def run(self, block: AnyHybridBlock, arrays: Sequence[NDArray], ctx: Context) -> Any:
        """The outputs, nested as `hybrid_forward` returned them."""
        if self._op is None:
            self._build(block)
        inputs = [param.data(ctx) if param is not None else arrays[i] for i, param in self._sources]  # type: ignore[index]
        out = self._op(*inputs)  # type: ignore[misc]
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        if self._monitored is not None:
            for name, operator, array in self._monitored.told(outs, dict(zip(self._names, inputs))):
                if operator:  # Variables are told as inputs only.
                    block._op_hook(name, operator, array)  # type: ignore[misc]
        return regroup(iter(outs), self.out_form)

    def _build(self, block: AnyHybridBlock) -> None:
        params = block.collect_params()
        positions = {str(var.name): i for i, var in enumerate(self.inputs)}
        outputs: Outputs = self.outputs
        if block._op_hook is not None:
            self._monitored = MonitoredSymbol(outputs, block._monitor_all)
            outputs = self._monitored.symbol
        self._names = names = outputs.list_inputs()
        self._sources = []
        for name in names:
            if name in positions:
                self._sources.append((positions[name], None))
            elif name in params:
                self._sources.append((None, params[name]))
            else:
                raise WrongValue(
                    f"Unknown input to HybridBlock: {name}. It is neither an input nor a parameter of "
                    f"{block.name}. A parameter of another Block is shared by making this one with "
                    "params=other.params."
                )
        _warn_unused(block, [name for name in list(positions) + list(params) if name not in set(names)], positions)
        places = [place for place, (_, param) in enumerate(self._sources) if param is not None]
        self._op = CachedOp(outputs, [("param_indices", places), *block._flags.items()])


def _warn_unused(block: AnyHybridBlock, unused: List[str], positions: Dict[str, int]) -> None:
    for name in unused:
        if name in positions:
            warnings.warn(
                f"The {positions[name]}-th input to HybridBlock is not used by any computation. Is this " "intended?", stacklevel=6
            )
        else:
            warnings.warn(f"Parameter {name} is not used by any computation. Is this intended?", stacklevel=6)
