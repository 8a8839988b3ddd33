"""Initializers that are made of others: by patterns of names, from a file, and for the RNN operator's one array."""
from __future__ import annotations

import re
from typing import Any, Dict, List, Sequence, Union

from . import _packed_rnn, ndarray
from ._array.array import NDArray
from ._array.save import load_named
from ._initializer import InitDesc, Initializer, create, register


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
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the end '
            "with default Initializer."
        )

    def __call__(self, desc: str, array: NDArray) -> None:
        if isinstance(desc, InitDesc) and desc.attrs.get("__init__") is self:
            self._init_weight(desc, array)
        else:
            self._find(desc)(desc, array)

    def _init_weight(self, name: str, array: NDArray) -> None:
        self._find(name)._init_weight(name, array)


class Load(Initializer):
    """Values from a file of `nd.save`, or a dict of arrays, by name; others by `default_init`."""

    def __init__(
        self, param: Union[str, Dict[str, NDArray]], default_init: Union[Initializer, str, None] = None, verbose: bool = False
    ) -> None:
        super().__init__()
        arrays = load_named(param) if isinstance(param, str) else param
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: array for name, array in arrays.items()}
        self.default_init = None if default_init is None else create(default_init)
        self._verbose = verbose

    def __call__(self, desc: str, array: NDArray) -> None:
        self._init_weight(desc, array)

    def _init_weight(self, name: str, array: NDArray) -> None:
        value = self.param.get(str(name))
        if value is not None:
            if tuple(value.shape) != tuple(array.shape):
                raise AssertionError(
                    f"Parameter {name} cannot be initialized from loading. Shape mismatch, target "
                    f"{array.shape} vs loaded {value.shape}"
                )
            array[:] = value
        elif self.default_init is None:
            raise AssertionError(
                f"Cannot Initialize parameter {name}. Not found in loaded param and no default " "Initializer is provided."
            )
        else:
            self.default_init._init_weight(name, array)


@register
class FusedRNN(Initializer):
    """The one array of the RNN operator's parameters: each gate's matrix and bias by `init`, which is given its own name,
    `l0_i2h_i_weight`; the forget gates' biases are `forget_bias`.
    """

    def __init__(
        self,
        init: Union[Initializer, str, None],
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        init = None if init is None else create(init)
        super().__init__(
            init=None if init is None else init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._hidden = num_hidden
        self._layers = num_layers
        self._mode = mode
        self._directions = "lr" if bidirectional else "l"
        self._forget_bias = forget_bias

    def _init_weight(self, name: str, array: NDArray) -> None:
        init = self._init or getattr(name, "global_init", None)
        if init is None or init is self:
            raise ValueError(f"FusedRNN: give `init`, how the matrices of {name} are initialized.")
        inputs = _packed_rnn.inputs_of(array.shape[0], self._mode, self._hidden, self._layers, self._directions)
        values: List[NDArray] = []
        for part, shape in _packed_rnn.pieces(self._mode, self._hidden, self._layers, self._directions, inputs):
            piece = ndarray.zeros(shape, ctx=array.context)
            if self._mode == "lstm" and part.endswith("_f_bias"):
                piece[:] = self._forget_bias
            else:
                init(InitDesc(part, global_init=getattr(name, "global_init", None)), piece)
            values.append(piece.reshape((-1,)))
        array[:] = ndarray.concatenate(values)
