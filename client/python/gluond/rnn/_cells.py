"""The cells with parameters: RNNCell, LSTMCell, GRUCell. Names within a step are MXNet's, as `lstm_t0_out`."""
from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import symbol
from .._packed_rnn import GATES
from ..gluon.rnn import steps
from ..initializer import LSTMBias
from ..symbol.symbol import Symbol
from ._recurrent_cell import BaseRNNCell, RNNParams

# The parts of a step whose names are automatic.
_UNNAMED = ("activation0", "mul0", "mul1", "mul20", "plus0", "plus1", "plus2")


class GatedSymbolCell(BaseRNNCell):
    """Has i2h_weight (gates num_hidden, C), h2h_weight (gates num_hidden, num_hidden), and a bias of each."""

    _gates: Sequence[str] = ()
    _states = 1
    _of_part = "{}"  # The name of a part within the step's.

    def __init__(self, num_hidden: int, prefix: str, params: Optional[RNNParams], **inits: Any) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        # The order in which variables are made makes no difference: each has its own name.
        self._weights = {
            name: self.params.get(name, init=inits.get(name)) for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
        }

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """Each (N, num_hidden)."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(self._states)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return self._gates

    def _name(self, part: str) -> Optional[str]:
        if part in _UNNAMED:
            return None
        return f"{self._prefix}t{self._counter}_" + (part if part == "out" else self._of_part.format(part))

    def _project(self, inputs: Symbol, state: Symbol) -> List[Symbol]:
        """Both projections, (N, gates num_hidden)."""
        self._counter += 1
        return [
            self._projection(source, data=data, weight=self._weights[f"{source}_weight"], bias=self._weights[f"{source}_bias"])
            for source, data in (("i2h", inputs), ("h2h", state))
        ]

    def _projection(self, source: str, **inputs: Any) -> Symbol:
        return symbol.FullyConnected(num_hidden=self._num_hidden * len(self._gates), name=self._name(source), **inputs)

    def _activate(self, activation: Any) -> steps.Activate:
        return functools.partial(self._get_activation, activation=activation)


class RNNCell(GatedSymbolCell):
    """h' = activation(i2h(x) + h2h(h)). `activation`: a name that `Activation` takes, or a function."""

    _gates = GATES["rnn_tanh"]

    def __init__(self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: Optional[RNNParams] = None) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        output = steps.rnn(symbol, i2h, h2h, self._activate(self._activation), self._name)
        return output, [output]


class LSTMCell(GatedSymbolCell):
    """c' = f c + i g, h' = o tanh(c'); the biases of the forget gates begin at `forget_bias`."""

    _gates = GATES["lstm"]
    _states = 2

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: Optional[RNNParams] = None, forget_bias: float = 1.0
    ) -> None:
        super().__init__(num_hidden, prefix, params, i2h_bias=LSTMBias(forget_bias=forget_bias))

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        h, c = steps.lstm(symbol, i2h, h2h, states[1], self._activate("sigmoid"), self._activate("tanh"), self._name)
        return h, [h, c]


class GRUCell(GatedSymbolCell):
    """h' = (1 - z) n + z h with n = tanh(i2h_n + r h2h_n), as in cuDNN."""

    _gates = GATES["gru"]
    _of_part = "_{}"

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: Optional[RNNParams] = None) -> None:
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        h = steps.gru(
            symbol, i2h, h2h, states[0], self._activate("sigmoid"), self._activate("tanh"), self._name, lambda update: 1.0 - update
        )
        return h, [h]
