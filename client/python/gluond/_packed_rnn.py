"""The RNN operator's one array of parameters: which matrices and biases it holds, in their order.

First come all weights, then all biases, each layer by layer and direction by direction; of each there are the gates of
the input (i2h), then those of the state (h2h).

>>> [name for name, shape in pieces("gru", 8, 1, "l", inputs=3)][:4]
['l0_i2h_r_weight', 'l0_i2h_z_weight', 'l0_i2h_o_weight', 'l0_h2h_r_weight']
"""
from __future__ import annotations

from typing import List, Tuple

# The names of the gates in a parameter's name, in the operator's order.
GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


def pieces(mode: str, hidden: int, layers: int, directions: str, inputs: int) -> List[Tuple[str, Tuple[int, ...]]]:
    """(name, shape) of each piece; directions: 'l', or 'lr' for both; inputs: the size of the first layer's input."""
    found: List[Tuple[str, Tuple[int, ...]]] = []
    for kind in ("weight", "bias"):
        for layer in range(layers):
            columns = {"i2h": len(directions) * hidden if layer else inputs, "h2h": hidden}
            for direction in directions:
                for source in columns:
                    shape = (hidden, columns[source]) if kind == "weight" else (hidden,)
                    found += [(f"{direction}{layer}_{source}{gate}_{kind}", shape) for gate in GATES[mode]]
    return found


def inputs_of(total: int, mode: str, hidden: int, layers: int, directions: str) -> int:
    """The size of the first layer's input, from the size of the whole array."""
    rows = len(directions) * len(GATES[mode]) * hidden  # One column of the weights of one layer.
    later = (layers - 1) * rows * (len(directions) * hidden + hidden + 2)
    return (total - later) // rows - hidden - 2
