"""Recurrent cells whose projections are convolutions, for states that are images: Conv1DRNNCell to Conv3DGRUCell."""
from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ...rnn import steps
from ...rnn.recurrent_cell import HybridRecurrentCell

__all__ = [f"Conv{n}D{kind}Cell" for kind in ("RNN", "LSTM", "GRU") for n in (1, 2, 3)]
Sizes = Union[int, Sequence[int]]


class _ConvCell(HybridRecurrentCell):
    """Has i2h_weight (gates hidden_channels, channels, *i2h_kernel), h2h_weight (gates hidden_channels, hidden_channels, *h2h_kernel),
    and a bias of each.

    input_shape: (channels, *sizes), without the batch. conv_layout: channels come first. activation: a name that `Activation` takes,
    or a Block.
    """

    _dimensions, _gates, _states = 1, 1, 1

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes = 0,
        i2h_dilate: Sizes = 1,
        h2h_dilate: Sizes = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: Optional[str] = None,
        activation: Any = "tanh",
        prefix: Optional[str] = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._layout = "NC" + "DHW"[-self._dimensions :]
        if conv_layout not in (None, self._layout):
            raise ValueError(f"{type(self).__name__}: conv_layout is '{self._layout}', got '{conv_layout}'")
        self._hidden_channels, self._activation = hidden_channels, activation
        kernel, h2h_kernel = self._sizes("i2h_kernel", i2h_kernel), self._sizes("h2h_kernel", h2h_kernel)
        pad, dilate = self._sizes("i2h_pad", i2h_pad), self._sizes("i2h_dilate", i2h_dilate)
        h2h_dilate = self._sizes("h2h_dilate", h2h_dilate)
        if any(size % 2 == 0 for size in h2h_kernel):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        h2h_pad = tuple(spread * (size - 1) // 2 for spread, size in zip(h2h_dilate, h2h_kernel))
        self._of = {
            "i2h": {"kernel": kernel, "pad": pad, "dilate": dilate},
            "h2h": {"kernel": h2h_kernel, "pad": h2h_pad, "dilate": h2h_dilate},
        }
        self._state_shape = (
            hidden_channels,
            *(size + 2 * pad[i] - dilate[i] * (kernel[i] - 1) if size else 0 for i, size in enumerate(input_shape[1:])),
        )
        out = self._gates * hidden_channels
        for name, shape, init in (
            ("i2h_weight", (out, input_shape[0], *kernel), i2h_weight_initializer),
            ("h2h_weight", (out, hidden_channels, *h2h_kernel), h2h_weight_initializer),
            ("i2h_bias", (out,), i2h_bias_initializer),
            ("h2h_bias", (out,), h2h_bias_initializer),
        ):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _sizes(self, name: str, sizes: Sizes) -> Tuple[int, ...]:
        sizes = (sizes,) * self._dimensions if isinstance(sizes, int) else tuple(sizes)
        if len(sizes) != self._dimensions:
            raise AssertionError(f"{type(self).__name__}: {name} is a number or {self._dimensions} of them, got {sizes}")
        return sizes

    def state_info(self, batch_size: int = 0) -> List[Dict[str, Any]]:
        """Each (N, hidden_channels, *sizes)."""
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._layout} for _ in range(self._states)]

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape[:2]  # type: ignore[attr-defined]
        return f"{type(self).__name__}({columns or None} -> {rows}, {self._activation}, {self._layout})"

    def _alias(self) -> str:
        return f"conv_{type(self).__name__[6:-4].lower()}"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any  # noqa: N803
    ) -> Any:
        """(output, states) of one step."""
        filters = self._gates * self._hidden_channels
        i2h, h2h = (
            F.Convolution(x, weight, bias, num_filter=filters, layout=self._layout, name=self._named(part), **self._of[part])
            for part, x, weight, bias in (("i2h", inputs, i2h_weight, i2h_bias), ("h2h", states[0], h2h_weight, h2h_bias))
        )
        return self._step(F, i2h, h2h, states, functools.partial(self._get_activation, F, activation=self._activation))

    def _named(self, part: str) -> str:
        return f"t{self._counter}_{part}"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, activate: steps.Activate) -> Any:  # noqa: N803
        raise NotImplementedError


class _ConvRNNCell(_ConvCell):
    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, activate: steps.Activate) -> Any:  # noqa: N803
        out = steps.rnn(F, i2h, h2h, activate, self._named)
        return out, [out]


class _ConvLSTMCell(_ConvCell):
    _gates, _states = 4, 2

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, activate: steps.Activate) -> Any:  # noqa: N803
        out, memory = steps.lstm(F, i2h, h2h, states[1], F.sigmoid, activate, self._named)
        return out, [out, memory]


class _ConvGRUCell(_ConvCell):
    _gates = 3

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, activate: steps.Activate) -> Any:  # noqa: N803
        out = steps.gru(F, i2h, h2h, states[0], F.sigmoid, activate, self._named, lambda gate: 1.0 - gate)
        return out, [out]


class Conv1DRNNCell(_ConvRNNCell):
    """h' = activation(i2h(x) + h2h(h)). States are sequences."""

    _dimensions = 1


class Conv2DRNNCell(_ConvRNNCell):
    """h' = activation(i2h(x) + h2h(h)). States are images."""

    _dimensions = 2


class Conv3DRNNCell(_ConvRNNCell):
    """h' = activation(i2h(x) + h2h(h)). States are volumes."""

    _dimensions = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """A long short-term memory whose projections are convolutions (Shi et al., 2015). States are sequences."""

    _dimensions = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """A long short-term memory whose projections are convolutions (Shi et al., 2015). States are images."""

    _dimensions = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """A long short-term memory whose projections are convolutions (Shi et al., 2015). States are volumes."""

    _dimensions = 3


class Conv1DGRUCell(_ConvGRUCell):
    """A gated recurrent unit whose projections are convolutions. States are sequences."""

    _dimensions = 1


class Conv2DGRUCell(_ConvGRUCell):
    """A gated recurrent unit whose projections are convolutions. States are images."""

    _dimensions = 2


class Conv3DGRUCell(_ConvGRUCell):
    """A gated recurrent unit whose projections are convolutions. States are volumes."""

    _dimensions = 3
