"""The formulas of one step of the RNN, LSTM and GRU cells, for arrays and Symbols, in gluon.rnn and in mx.rnn.

Each takes F (nd or sym), the projections `i2h` and `h2h` (N, gates hidden_size), the last states, the activations
`gate(x, name=...)` and `new(x, name=...)`, and `name`: the symbol's name for MXNet's name of its part, such as 'out'.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

Activate = Callable[..., Any]
Name = Callable[[str], Optional[str]]


def rnn(F: Any, i2h: Any, h2h: Any, new: Activate, name: Name) -> Any:  # noqa: N803
    """h' = new(i2h + h2h)."""
    return new(F._internal._plus(i2h, h2h, name=name("plus0")), name=name("out"))


def lstm(
    F: Any, i2h: Any, h2h: Any, c: Any, gate: Activate, new: Activate, name: Name, **axis: int  # noqa: N803
) -> Tuple[Any, Any]:
    """(h', c'): c' = f c + i g, h' = o new(c'), with the gates i, f, g, o in this order along `axis`, by default 1."""
    add, mul = F._internal._plus, F._internal._mul
    gates = F.SliceChannel(add(i2h, h2h, name=name("plus0")), num_outputs=4, name=name("slice"), **axis)
    keep_in, forget = gate(gates[0], name=name("i")), gate(gates[1], name=name("f"))
    candidate, keep_out = new(gates[2], name=name("c")), gate(gates[3], name=name("o"))
    kept = mul(forget, c, name=name("mul0"))
    c = add(kept, mul(keep_in, candidate, name=name("mul1")), name=name("state"))
    return mul(keep_out, new(c, name=name("activation0")), name=name("out")), c


def lstmp(
    F: Any,
    x: Any,
    states: Sequence[Any],
    hidden_size: int,
    projection_size: int,
    name: Name,
    i2h_weight: Any,  # noqa: N803
    h2h_weight: Any,
    h2r_weight: Any,
    i2h_bias: Any,
    h2h_bias: Any,
) -> Tuple[Any, List[Any]]:
    """(r', [r', c']): the step of an LSTM whose h is projected to the smaller r (Sak et al., 2014), from its input and [r, c]."""
    i2h = F.FullyConnected(x, i2h_weight, i2h_bias, num_hidden=4 * hidden_size, name=name("i2h"))
    h2h = F.FullyConnected(states[0], h2h_weight, h2h_bias, num_hidden=4 * hidden_size, name=name("h2h"))
    h, c = lstm(F, i2h, h2h, states[1], F.sigmoid, F.tanh, lambda part: name("hidden" if part == "out" else part))
    r = F.FullyConnected(h, h2r_weight, num_hidden=projection_size, no_bias=True, name=name("out"))
    return r, [r, c]


def gru(
    F: Any, i2h: Any, h2h: Any, h: Any, gate: Activate, new: Activate, name: Name, one_minus: Callable[[Any], Any]  # noqa: N803
) -> Any:
    """h' = (1 - z) n + z h with n = new(i2h_n + r h2h_n), with the gates r, z, n in this order."""
    add, mul = F._internal._plus, F._internal._mul
    i2h = F.SliceChannel(i2h, num_outputs=3, name=name("i2h_slice"))
    h2h = F.SliceChannel(h2h, num_outputs=3, name=name("h2h_slice"))
    reset = gate(add(i2h[0], h2h[0], name=name("plus0")), name=name("r_act"))
    update = gate(add(i2h[1], h2h[1], name=name("plus1")), name=name("z_act"))
    of_state = mul(reset, h2h[2], name=name("mul0"))
    candidate = new(add(i2h[2], of_state, name=name("plus2")), name=name("h_act"))
    fresh = mul(one_minus(update), candidate, name=name("mul1"))
    return add(fresh, mul(update, h, name=name("mul20")), name=name("out"))
