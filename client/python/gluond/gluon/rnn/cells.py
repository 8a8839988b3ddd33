"""The cells with parameters: RNNCell, LSTMCell, GRUCell. Names within a step are MXNet's, `t0_out` and the like."""
from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional

from . import steps
from .recurrent_cell import HybridRecurrentCell


class _GatedCell(HybridRecurrentCell):
    """Has i2h_weight (gates hidden_size, input_size), h2h_weight (gates hidden_size, hidden_size), and a bias of each."""

    _gates = 1
    _states = 1
    i2h_weight: Any

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        input_size: int,
        prefix: Optional[str],
        params: Any,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        size = self._gates * hidden_size
        for name, shape, init in (
            ("i2h_weight", (size, input_size), i2h_weight_initializer),
            ("h2h_weight", (size, hidden_size), h2h_weight_initializer),
            ("i2h_bias", (size,), i2h_bias_initializer),
            ("h2h_bias", (size,), h2h_bias_initializer),
        ):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _alias(self) -> str:
        return type(self).__name__.lower().replace("cell", "")

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """Each (N, hidden_size)."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"} for _ in range(self._states)]

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape
        return f"{type(self).__name__}({columns or None} -> {rows}{self._shown()})"

    def _shown(self) -> str:
        return ""

    def _project(self, F: Any, x: Any, state: Any, weights: Dict[str, Any]) -> Any:  # noqa: N803
        """Both projections, (N, gates hidden_size)."""
        size = self._gates * self._hidden_size
        return [
            F.FullyConnected(
                data, weights[f"{source}_weight"], weights[f"{source}_bias"], num_hidden=size, name=self._named(source)
            )
            for source, data in (("i2h", x), ("h2h", state))
        ]

    def _named(self, part: str) -> str:
        return f"t{self._counter}_{part}"

    def _activate(self, F: Any, activation: Any) -> steps.Activate:  # noqa: N803
        return functools.partial(self._get_activation, F, activation=activation)


class RNNCell(_GatedCell):
    """h' = activation(i2h(x) + h2h(h)). `activation`: a name that `Activation` takes, or a Block."""

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation

    def _shown(self) -> str:
        return f", {self._activation}"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **weights: Any) -> Any:  # noqa: N803
        """(N, C), [h] -> (h', [h'])."""
        i2h, h2h = self._project(F, inputs, states[0], weights)
        output = steps.rnn(F, i2h, h2h, self._activate(F, self._activation), self._named)
        return output, [output]


class LSTMCell(_GatedCell):
    """c' = f c + i g, h' = o activation(c'), with the gates i, f, g, o in this order in the parameters."""

    _gates = 4
    _states = 2

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **weights: Any) -> Any:  # noqa: N803
        """(N, C), [h, c] -> (h', [h', c'])."""
        i2h, h2h = self._project(F, inputs, states[0], weights)
        h, c = steps.lstm(
            F, i2h, h2h, states[1], self._activate(F, self._recurrent_activation), self._activate(F, self._activation), self._named
        )
        return h, [h, c]


class GRUCell(_GatedCell):
    """n = activation(i2h_n + r h2h_n), h' = (1 - z) n + z h, with the gates r, z, n in this order."""

    _gates = 3

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: Optional[str] = None,
        params: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **weights: Any) -> Any:  # noqa: N803
        """(N, C), [h] -> (h', [h'])."""

        def one_minus(update: Any) -> Any:
            ones = F.ones_like(update, name=self._named("ones_like0"))
            return F.elemwise_sub(ones, update, name=self._named("minus0"))

        i2h, h2h = self._project(F, inputs, states[0], weights)
        h = steps.gru(
            F,
            i2h,
            h2h,
            states[0],
            self._activate(F, self._recurrent_activation),
            self._activate(F, self._activation),
            self._named,
            one_minus,
        )
        return h, [h]
