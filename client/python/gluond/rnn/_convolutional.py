"""The cells whose projections are convolutions, for states that are images: ConvRNNCell, ConvLSTMCell, ConvGRUCell."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import symbol
from .._packed_rnn import GATES
from ..gluon.rnn import steps
from ..symbol.symbol import Symbol
from ._cells import GatedSymbolCell
from ._recurrent_cell import RNNParams


def _leaky(inputs: Symbol, **kwargs: Any) -> Symbol:
    return symbol.LeakyReLU(inputs, act_type="leaky", slope=0.2, **kwargs)


class BaseConvRNNCell(GatedSymbolCell):
    """Base class of these cells. `input_shape`: of one step's input, with the batch size; `conv_layout`: as Convolution has it.

    AssertionError: a size of `h2h_kernel` is even, so that states would not keep theirs.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Sequence[int],
        h2h_dilate: Sequence[int],
        i2h_kernel: Sequence[int],
        i2h_stride: Sequence[int],
        i2h_pad: Sequence[int],
        i2h_dilate: Sequence[int],
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        activation: Any,
        prefix: str = "",
        params: Optional[RNNParams] = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(
            num_hidden,
            prefix,
            params,
            i2h_weight=i2h_weight_initializer,
            h2h_weight=h2h_weight_initializer,
            i2h_bias=i2h_bias_initializer,
            h2h_bias=h2h_bias_initializer,
        )
        if any(size % 2 == 0 for size in h2h_kernel[:2]):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        h2h_pad = tuple(dilate * (size - 1) // 2 for dilate, size in zip(h2h_dilate, h2h_kernel))
        self._convolutions: Dict[str, Any] = {
            "i2h": {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate, "layout": conv_layout},
            "h2h": {"kernel": h2h_kernel, "stride": (1, 1), "pad": h2h_pad, "dilate": h2h_dilate, "layout": conv_layout},
        }
        self._activation, self._conv_layout = activation, conv_layout
        state = symbol.Convolution(data=symbol.Variable("data"), num_filter=num_hidden, **self._convolutions["i2h"])
        self._state_shape = (0, *state.infer_shape(data=tuple(input_shape))[1][0][1:])

    @property
    def state_info(self) -> List[Dict[str, Any]]:
        """Each as Convolution gives it."""
        return [{"shape": self._state_shape, "__layout__": self._conv_layout} for _ in range(self._states)]

    def _projection(self, source: str, **inputs: Any) -> Symbol:
        return symbol.Convolution(
            name=f"{self._prefix}t{self._counter}_{source}",
            num_filter=self._num_hidden * len(self._gates),
            **inputs,
            **self._convolutions[source],
        )


class _ImagesCell(BaseConvRNNCell):
    """With defaults for images. prefix: by default that of the class."""

    _class_prefix = ""

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Sequence[int] = (3, 3),
        h2h_dilate: Sequence[int] = (1, 1),
        i2h_kernel: Sequence[int] = (3, 3),
        i2h_stride: Sequence[int] = (1, 1),
        i2h_pad: Sequence[int] = (1, 1),
        i2h_dilate: Sequence[int] = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _leaky,
        prefix: Optional[str] = None,
        params: Optional[RNNParams] = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(
            input_shape,
            num_hidden,
            h2h_kernel,
            h2h_dilate,
            i2h_kernel,
            i2h_stride,
            i2h_pad,
            i2h_dilate,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            activation,
            self._class_prefix if prefix is None else prefix,
            params,
            conv_layout,
        )


class ConvRNNCell(_ImagesCell):
    """h' = activation(i2h(x) + h2h(h)). `activation`: a name that `Activation` takes, or a function."""

    _gates, _class_prefix = GATES["rnn_tanh"], "ConvRNN_"

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        output = steps.rnn(symbol, i2h, h2h, self._activate(self._activation), self._name)
        return output, [output]


class ConvLSTMCell(_ImagesCell):
    """A long short-term memory whose projections are convolutions (Shi et al., 2015)."""

    _gates, _class_prefix, _states = GATES["lstm"], "ConvLSTM_", 2

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        h, c = steps.lstm(
            symbol,
            i2h,
            h2h,
            states[1],
            self._activate("sigmoid"),
            self._activate(self._activation),
            self._name,
            axis=self._conv_layout.find("C"),
        )
        return h, [h, c]


class ConvGRUCell(_ImagesCell):
    """h' = (1 - z) n + z h with n = activation(i2h_n + r h2h_n), whose projections are convolutions."""

    _gates, _class_prefix, _of_part = GATES["gru"], "ConvGRU_", "_{}"

    def __call__(self, inputs: Symbol, states: List[Symbol]) -> Tuple[Symbol, List[Symbol]]:
        i2h, h2h = self._project(inputs, states[0])
        h = steps.gru(
            symbol,
            i2h,
            h2h,
            states[0],
            self._activate("sigmoid"),
            self._activate(self._activation),
            self._name,
            lambda update: 1.0 - update,
        )
        return h, [h]
