"""Initializers that are made of others: by patterns of names, from a file, and for the RNN operator's one array."""
from __future__ import annotations

import re
from typing import Any, Dict, List, Sequence, Union

import numpy as np

from . import ndarray
from ._array.array import NDArray
from ._initializer_base import InitDesc, Initializer, create, register

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


class Mixed(Initializer):
    """The initializer of the first pattern (a regular expression) that matches the name.

        mx.init.Mixed(['bias', '.*'], [mx.init.Zero(), mx.init.Uniform(0.1)])
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Union[Initializer, str]]) -> None:
        super().__init__()
        if len(patterns) != len(initializers):
            raise ValueError(f"Mixed: {len(patterns)} patterns but {len(initializers)} initializers.")
        self.map = [(re.compile(p), create(init)) for p, init in zip(patterns, initializers)]

    def _find(self, name: str) -> Initializer:
        for pattern, init in self.map:
            if pattern.match(name):
                return init
        raise ValueError(f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the end '
                         "with default Initializer.")

    def __call__(self, desc: str, array: NDArray) -> None:
        if isinstance(desc, InitDesc) and desc.attrs.get("__init__") is self:
            self._init_weight(desc, array)
        else:
            self._find(desc)(desc, array)

    def _init_weight(self, name: str, array: NDArray) -> None:
        self._find(name)._init_weight(name, array)


class Load(Initializer):
    """Values from a file of `nd.save`, or a dict of arrays, by name; others by `default_init`."""

    def __init__(self, param: Union[str, Dict[str, NDArray]], default_init: Union[Initializer, str, None] = None,
                 verbose: bool = False) -> None:
        super().__init__()
        arrays: Any = ndarray.load(param) if isinstance(param, str) else param
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: array
                      for name, array in arrays.items()}
        self.default_init = None if default_init is None else create(default_init)
        self._verbose = verbose

    def __call__(self, desc: str, array: NDArray) -> None:
        self._init_weight(desc, array)

    def _init_weight(self, name: str, array: NDArray) -> None:
        value = self.param.get(str(name))
        if value is not None:
            if tuple(value.shape) != tuple(array.shape):
                raise AssertionError(f"Parameter {name} cannot be initialized from loading. Shape mismatch, target "
                                     f"{array.shape} vs loaded {value.shape}")
            array[:] = value
        elif self.default_init is None:
            raise AssertionError(f"Cannot Initialize parameter {name}. Not found in loaded param and no default "
                                 "Initializer is provided.")
        else:
            self.default_init._init_weight(name, array)


@register
class FusedRNN(Initializer):
    """The one array of the RNN operator's parameters: every gate's matrix by `init`; the forget gates' biases at
    `forget_bias`, all others by their name, which is 0.
    """

    def __init__(self, init: Union[Initializer, str, None], num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0) -> None:
        init = None if init is None else create(init)
        super().__init__(init=None if init is None else init.dumps(), num_hidden=num_hidden, num_layers=num_layers,
                         mode=mode, bidirectional=bidirectional, forget_bias=forget_bias)
        self._init = init
        self._hidden = num_hidden
        self._layers = num_layers
        self._mode = mode
        self._directions = 2 if bidirectional else 1
        self._forget_bias = forget_bias

    def _init_weight(self, name: str, array: NDArray) -> None:
        init = self._init or getattr(name, "global_init", None)
        if init is None or init is self:
            raise ValueError(f"FusedRNN: give `init`, how the matrices of {name} are initialized.")
        pieces: List[np.ndarray] = []
        for inputs in self._input_sizes(array.shape[0]):
            for columns in (inputs, self._hidden):
                for _ in range(_GATES[self._mode]):
                    gate = ndarray.zeros((self._hidden, columns), ctx=array.context)
                    init._init_weight(name, gate)
                    pieces.append(gate.asnumpy().ravel())
        pieces.append(self._biases())
        array[:] = np.concatenate(pieces).astype(array.dtype)

    def _input_sizes(self, total: int) -> List[int]:
        """The number of inputs of each layer and direction, the first layer's from the size of the whole array."""
        gates, hidden, directions = _GATES[self._mode], self._hidden, self._directions
        later = (self._layers - 1) * directions * gates * hidden * (directions * hidden + hidden + 2)
        first = (total - later) // (directions * gates * hidden) - hidden - 2
        return [first] * directions + [directions * hidden] * directions * (self._layers - 1)

    def _biases(self) -> np.ndarray:
        gate = np.zeros((_GATES[self._mode], self._hidden))
        if self._mode == "lstm":
            gate[1] = self._forget_bias
        return np.tile(gate.ravel(), 2 * self._directions * self._layers)
