"""Files of a symbol with its parameters: `prefix-symbol.json` and `prefix-0000.params`, as HybridBlock.export writes them."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import ndarray as nd, symbol as sym
from ._array.save import load_named

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]

Arrays = Dict[str, "nd.NDArray"]


class BatchEndParam(NamedTuple):
    """What a callback is given after a batch: the epoch, the batch's number in it, the metric, the loop's variables."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def save_checkpoint(prefix: str, epoch: int, symbol: Optional["sym.Symbol"], arg_params: Arrays, aux_params: Arrays,
                    remove_amp_cast: bool = True) -> None:
    """Writes the symbol, unless it is None, and the arrays."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    nd.save(f"{prefix}-{epoch:04d}.params", {**{f"arg:{name}": array for name, array in arg_params.items()},
                                             **{f"aux:{name}": array for name, array in aux_params.items()}})


def load_params(prefix: str, epoch: int) -> Tuple[Arrays, Arrays]:
    """(arguments, auxiliary states) by name."""
    found: Dict[str, Arrays] = {"arg": {}, "aux": {}}
    for key, array in load_named(f"{prefix}-{epoch:04d}.params").items():
        kind, _, name = key.partition(":")
        if kind in found:
            found[kind][name] = array
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> Tuple["sym.Symbol", Arrays, Arrays]:
    """(symbol, arguments, auxiliary states) of a saved, or exported, network.

        symbol, arg_params, aux_params = mx.model.load_checkpoint('net', 0)
    """
    return (sym.load(f"{prefix}-symbol.json"),) + load_params(prefix, epoch)
