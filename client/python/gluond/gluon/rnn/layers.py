"""RNN, LSTM and GRU: whole sequences by one operator, several layers, one or both directions."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

from ... import ndarray, symbol
from ..._packed_rnn import GATES
from .._hybrid_block import HybridBlock
from .._parameter import Parameter
from . import steps
from .cells import GRUCell, LSTMCell, RNNCell
from .combined_cells import BidirectionalCell, DropoutCell, HybridSequentialRNNCell
from .sequences import module_of, zeros_for


class _OwnStates(list):
    """Initial states that a layer has made itself: its caller, and its hooks, get no states back."""


class _RNNLayer(HybridBlock):
    """Parameters of layer k: `l{k}_i2h_weight` (gates hidden_size, inputs), `l{k}_h2h_weight`, and a bias of each;
    those of the way back begin with `r{k}_`.
    """

    def __init__(
        self,
        mode: str,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        projection_size: Optional[int] = None,
        h2r_weight_initializer: Any = None,
        lstm_state_clip_min: Optional[float] = None,
        lstm_state_clip_max: Optional[float] = None,
        lstm_state_clip_nan: bool = False,
        dtype: str = "float32",
        use_sequence_length: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._mode = mode
        self._hidden_size = hidden_size
        self._num_layers = num_layers
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._projection_size = projection_size
        self._clips = {
            name: value
            for name, value in (("lstm_state_clip_min", lstm_state_clip_min), ("lstm_state_clip_max", lstm_state_clip_max))
            if value is not None
        }
        if lstm_state_clip_nan:
            self._clips["lstm_state_clip_nan"] = True
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        size = len(GATES[mode]) * hidden_size
        out = projection_size or hidden_size
        inputs = input_size
        for layer in range(num_layers):
            for direction in "lr"[: self._dir]:
                for name, shape, init in (
                    ("i2h_weight", (size, inputs), i2h_weight_initializer),
                    ("h2h_weight", (size, out), h2h_weight_initializer),
                    ("i2h_bias", (size,), i2h_bias_initializer),
                    ("h2h_bias", (size,), h2h_bias_initializer),
                    ("h2r_weight", (out, hidden_size), h2r_weight_initializer),
                ):
                    if name != "h2r_weight" or projection_size:
                        self._add(f"{direction}{layer}_{name}", shape, init)
            inputs = out * self._dir

    def _add(self, name: str, shape: Tuple[int, ...], init: Any) -> None:
        setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype))

    def _collect_params_with_prefix(self, prefix: str = "") -> Dict[str, Parameter]:
        """Structural names are those of a row of cells, `_unfused.0.l_cell.i2h_weight`, as MXNet's files have them."""
        start = (prefix + "." if prefix else "") + "_unfused"
        found = {}
        for name, param in self._reg_params.items():
            place, part = name.split("_", 1)
            cell = f"{place[0]}_cell." if self._dir == 2 else ""
            found[f"{start}.{place[1:]}.{cell}{part}"] = param
        return found

    def _unfuse(self) -> HybridSequentialRNNCell:
        """A row of cells that have the layer's parameters, and compute the same step by step."""
        if self._projection_size or self._clips:
            raise AssertionError("_unfuse does not support projections and clipped states")
        kind: Any = {"lstm": LSTMCell, "gru": GRUCell}.get(self._mode)
        cell = kind or functools.partial(RNNCell, activation=self._mode.split("_")[-1])
        row = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with row.name_scope():
            for layer in range(self._num_layers):
                both = [cell(self._hidden_size, prefix=f"{side}{layer}_") for side in "lr"[: self._dir]]
                row.add(both[0] if self._dir == 1 else BidirectionalCell(*both))
                if self._dropout and layer < self._num_layers - 1:
                    row.add(DropoutCell(self._dropout))
        return row

    def __repr__(self) -> str:
        rows, columns = self.l0_i2h_weight.shape  # type: ignore[attr-defined]
        parts = [f"{columns or None} -> {rows // len(GATES[self._mode])}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._dir == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """(layers times directions, N, hidden_size), for an LSTM of h and of c."""
        count = self._num_layers * self._dir
        sizes = [self._projection_size or self._hidden_size] + [self._hidden_size] * (self._mode == "lstm")
        return [{"shape": (count, batch_size, size), "__layout__": "LNC", "dtype": self._dtype} for size in sizes]

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any) -> List[Any]:
        """Initial states: `func(shape=..., dtype=..., **kwargs)` for each; zeros by default."""
        states = []
        for i, info in enumerate(self.state_info(batch_size)):
            arguments = {"shape": info["shape"], "dtype": info["dtype"], **kwargs}
            if getattr(func, "__module__", "").startswith(symbol.__name__):
                arguments["name"] = f"{self.prefix}h0_{i}"
            states.append(func(**arguments))
        return states

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None) -> Any:
        """Outputs of the last layer, in the layout of the inputs; and the last states, if `states` were given."""
        if self._use_sequence_length and sequence_length is None:
            raise ValueError("use_sequence_length is set: call layer(inputs, states, sequence_length)")
        self._check_inputs(inputs)
        if states is None:
            states = _OwnStates(zeros_for(inputs, info["shape"], 1, self._layout.find("N")) for info in self.state_info())
        else:
            states = list(states) if isinstance(states, (list, tuple)) else [states]
            self._check_states(inputs, states)
        return super().__call__(inputs, states, *([sequence_length] if self._use_sequence_length else ()))

    def forward(self, inputs: Any, states: Any, *args: Any) -> Any:
        """As __call__, with given states."""
        out = super().forward(inputs, states, *args)
        return out[0] if isinstance(states, _OwnStates) else out

    def _check_inputs(self, inputs: Any) -> None:
        shape = getattr(inputs, "_shape", None)  # None if only the server knows it: no wait here.
        if shape is not None and len(shape) != 3:
            raise ValueError(
                f"{type(self).__name__} takes inputs of shape ({', '.join(self._layout)}), the layout "
                f"'{self._layout}', got {shape}"
            )

    def _check_states(self, inputs: Any, states: List[Any]) -> None:
        count = len(self.state_info())
        if len(states) != count:
            raise ValueError(
                f"{type(self).__name__} has {count} recurrent state(s){' [h, c]' if count == 2 else ''}, " f"got {len(states)}"
            )
        # Shapes that only the server knows are looked at there: no wait here.
        shapes = [getattr(each, "_shape", None) for each in (inputs, *states)]
        if shapes[0] is None:
            return
        batch = shapes[0][self._layout.find("N")]
        for info, shape in zip(self.state_info(batch), shapes[1:]):
            if shape not in (None, info["shape"]):
                raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {shape}.")

    def hybrid_forward(
        self, F: Any, inputs: Any, states: List[Any], sequence_length: Any = None, **params: Any  # noqa: N803
    ) -> Any:
        """(outputs, [states])."""
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        if self._projection_size and sequence_length is None and not self._clips:
            outputs, after = self._projected(F, inputs, states, params)
            return (F.swapaxes(outputs, 0, 1) if self._layout == "NTC" else outputs), after
        names = [
            name
            for kind in (("i2h_weight", "h2h_weight", "h2r_weight"), ("i2h_bias", "h2h_bias"))
            for layer in range(self._num_layers)
            for direction in "lr"[: self._dir]
            for name in (f"{direction}{layer}_{each}" for each in kind)
            if name in params
        ]
        packed = F._internal._rnn_param_concat(*[F.reshape(params[name], shape=(-1,)) for name in names], dim=0)
        if sequence_length is not None:
            states = list(states) + [sequence_length]
        out = F.RNN(
            inputs,
            packed,
            *states,
            use_sequence_length=sequence_length is not None,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            **self._clips,
        )
        count = len(self.state_info())
        outputs, after = out[0], [out[1 + i] for i in range(count)]
        return (F.swapaxes(outputs, 0, 1) if self._layout == "NTC" else outputs), after

    def _projected(self, F: Any, inputs: Any, states: List[Any], params: Dict[str, Any]) -> Tuple[Any, List[Any]]:  # noqa: N803
        """(outputs, states) of an LSTM with projections, step by step: the server's operator RNN offers none."""
        after: List[List[Any]] = []
        for layer in range(self._num_layers):
            outputs = []
            for direction in "lr"[: self._dir]:
                begin = [F.squeeze(F.slice_axis(state, axis=0, begin=len(after), end=len(after) + 1), axis=0) for state in states]
                start = f"{direction}{layer}_"
                weights = {name[len(start) :]: weight for name, weight in params.items() if name.startswith(start)}
                step = functools.partial(
                    steps.lstmp,
                    F,
                    hidden_size=self._hidden_size,
                    projection_size=self._projection_size,
                    name=lambda part: None,
                    **weights,
                )
                output, last = F.contrib.foreach(step, inputs if direction == "l" else F.reverse(inputs, axis=0), begin)
                outputs.append(output if direction == "l" else F.reverse(output, axis=0))
                after.append(last)
            inputs = F.concat(*outputs, dim=2) if self._dir == 2 else outputs[0]
            if self._dropout and layer < self._num_layers - 1:
                inputs = F.Dropout(inputs, p=self._dropout)
        return inputs, [F.stack(*each, axis=0) for each in zip(*after)]

    def infer_shape(self, *args: Any) -> None:
        """Sets the shapes of the first layer's parameters from that of the inputs."""
        for direction in "lr"[: self._dir]:
            weight = self._reg_params[f"{direction}0_i2h_weight"]
            weight.shape = (weight.shape[0], args[0].shape[2])


class RNN(_RNNLayer):
    """h' = activation(i2h(x) + h2h(h)), with activation 'relu' or 'tanh'.

    `output = layer(inputs)`, of inputs (T, N, C), or (N, T, C) with layout 'NTC', is (T, N, hidden_size), twice as many
    numbers if `bidirectional`; `output, states = layer(inputs, states)` takes and gives states
    (layers times directions, N, hidden_size). `dropout` is between layers, in training.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            "rnn_" + activation,
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype=dtype,
            **kwargs,
        )


class LSTM(_RNNLayer):
    """Long short-term memory; as RNN, with states [h, c], and gates i, f, g, o in this order.

    `projection_size` makes h smaller; `state_clip_min` and `state_clip_max` limit c.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: Optional[int] = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: Optional[float] = None,
        state_clip_max: Optional[float] = None,
        state_clip_nan: bool = False,
        dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            "lstm",
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            projection_size,
            h2r_weight_initializer,
            state_clip_min,
            state_clip_max,
            state_clip_nan,
            dtype,
            **kwargs,
        )


class GRU(_RNNLayer):
    """Gated recurrent units; as RNN, with gates r, z, n in this order."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            "gru",
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype=dtype,
            **kwargs,
        )
