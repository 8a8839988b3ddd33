"""FusedRNNCell: all layers and all steps by one operator, whose parameters are one array."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import _packed_rnn, ndarray, symbol
from .._array.array import NDArray
from ..initializer import FusedRNN
from ..symbol.symbol import Symbol
from ._recurrent_cell import Arrays, BaseRNNCell, RNNParams, Steps, arranged
from ._cells import GRUCell, LSTMCell, RNNCell
from ._combined import BidirectionalCell, DropoutCell, SequentialRNNCell

_UNFUSED: Dict[str, Callable[..., BaseRNNCell]] = {
    "rnn_relu": lambda hidden, prefix: RNNCell(hidden, activation="relu", prefix=prefix),
    "rnn_tanh": lambda hidden, prefix: RNNCell(hidden, activation="tanh", prefix=prefix),
    "lstm": lambda hidden, prefix: LSTMCell(hidden, prefix=prefix),
    "gru": lambda hidden, prefix: GRUCell(hidden, prefix=prefix),
}


class FusedRNNCell(BaseRNNCell):
    """Layers of cells of one kind, `mode` 'rnn_relu', 'rnn_tanh', 'lstm' or 'gru', in one or both directions.

    Outputs are (N, num_hidden) for each step, twice as many numbers if `bidirectional`. `dropout` is between layers, in
    training. `unroll` gives the last states only with `get_next_state`. The one parameter is `lstm_parameters`, which
    `unpack_weights` takes apart into those of `unfuse`.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: Optional[str] = None,
        params: Optional[RNNParams] = None,
    ) -> None:
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = "lr" if bidirectional else "l"
        self._parameter = self.params.get(
            "parameters", init=FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        )

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """Each (layers times directions, N, num_hidden)."""
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return _packed_rnn.GATES[self._mode]

    def _pieces(self, inputs: int) -> List[Tuple[str, Tuple[int, ...]]]:
        return [
            (self._prefix + name, shape)
            for name, shape in _packed_rnn.pieces(self._mode, self._num_hidden, self._num_layers, self._directions, inputs)
        ]

    def unpack_weights(self, args: Arrays) -> Arrays:
        """`args` with a weight and a bias for each gate, `lstm_l0_i2h_f_weight`, instead of the one array."""
        args = dict(args)
        array = args.pop(self._parameter.name)
        inputs = _packed_rnn.inputs_of(array.size, self._mode, self._num_hidden, self._num_layers, self._directions)
        pieces = self._pieces(inputs)
        sizes = [_size(shape) for _, shape in pieces]
        if sum(sizes) != array.size:
            raise AssertionError("Invalid parameters size for FusedRNNCell")
        begin = 0
        for (name, shape), size in zip(pieces, sizes):
            args[name] = array[begin : begin + size].reshape(shape).copy()
            begin += size
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """The reverse of `unpack_weights`."""
        args = dict(args)
        inputs = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        values: List[NDArray] = [args.pop(name).reshape((-1,)) for name, _ in self._pieces(inputs)]
        args[self._parameter.name] = ndarray.concatenate(values)
        return args

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Optional[List[Symbol]] = None,
        layout: str = "NTC",
        merge_outputs: Optional[bool] = None,
    ) -> Tuple[Steps, List[Any]]:
        """As BaseRNNCell.unroll; the operator wants the layout 'TNC', and 'NTC' is swapped to it, with a warning."""
        self.reset()
        whole, axis = arranged(length, inputs, layout, True)
        if axis == 1:
            warnings.warn("NTC layout detected. Consider using TNC for FusedRNNCell for faster speed", stacklevel=2)
            whole = symbol.swapaxes(whole, dim1=0, dim2=1)
        elif axis != 0:
            raise AssertionError(f"Unsupported layout {layout}")
        states = self.begin_state() if begin_state is None else begin_state
        given: Dict[str, Any] = dict(zip(("state", "state_cell"), states))
        out = symbol.RNN(
            data=whole,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **given,
        )
        outputs, after = out, []
        if self._get_next_state:
            outputs, after = out[0], [out[1 + place] for place in range(len(self.state_info))]
            for state in after:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return arranged(length, outputs, layout, merge_outputs)[0], after

    def unfuse(self) -> SequentialRNNCell:
        """The same layers as cells in a row, which can be stepped."""
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [_UNFUSED[self._mode](self._num_hidden, f"{self._prefix}{direction}{layer}_") for direction in self._directions]
            stack.add(
                BidirectionalCell(cells[0], cells[1], output_prefix=f"{self._prefix}bi_l{layer}_")
                if self._bidirectional
                else cells[0]
            )
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack


def _size(shape: Sequence[int]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)
