"""Recurrent cells that make symbols, as MXNet's mx.rnn, and batches of sentences of several lengths.

    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(num_hidden=200, prefix='lstm_l0_'))
    outputs, states = cell.unroll(length, inputs=embedded, merge_outputs=True)
"""
from . import io, rnn, rnn_cell
from .io import *  # noqa: F401, F403
from .rnn import *  # noqa: F401, F403
from .rnn_cell import *  # noqa: F401, F403

__all__ = ["io", "rnn", "rnn_cell", *io.__all__, *rnn.__all__, *rnn_cell.__all__]
