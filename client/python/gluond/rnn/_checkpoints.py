"""Files of a network with cells: weights are saved for each gate, so that fused and other cells read each other's."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from ..model import load_checkpoint, save_checkpoint
from ..symbol.symbol import Symbol
from ._recurrent_cell import Arrays, BaseRNNCell

Cells = Union[BaseRNNCell, Sequence[BaseRNNCell]]


def _listed(cells: Cells) -> Sequence[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells


def rnn_unroll(
    cell: BaseRNNCell, length: int, inputs: Any = None, begin_state: Any = None, input_prefix: str = "", layout: str = "NTC"
) -> Any:
    """An old name of `cell.unroll`."""
    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.", stacklevel=2)
    return cell.unroll(length=length, inputs=inputs, begin_state=begin_state, layout=layout)


def save_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int, symbol: Optional[Symbol], arg_params: Arrays, aux_params: Arrays
) -> None:
    """mx.model.save_checkpoint, of the cells' unpacked weights."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int) -> Tuple[Symbol, Arrays, Arrays]:
    """mx.model.load_checkpoint, with the weights packed as the cells have them."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback (epoch, symbol, arg_params, aux_params): save_rnn_checkpoint after every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no: int, sym: Optional[Symbol] = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return save
