"""Recurrent networks: cells, which compute one step, and layers, which compute whole sequences with one operator."""

from . import rnn_cell, rnn_layer
from .cells import GRUCell, LSTMCell, RNNCell
from .combined_cells import (
    BidirectionalCell,
    DropoutCell,
    HybridSequentialRNNCell,
    ModifierCell,
    ResidualCell,
    SequentialRNNCell,
    ZoneoutCell,
)
from .layers import GRU, LSTM, RNN
from .recurrent_cell import HybridRecurrentCell, RecurrentCell

__all__ = [
    "RNN",
    "LSTM",
    "GRU",
    "RecurrentCell",
    "HybridRecurrentCell",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "SequentialRNNCell",
    "HybridSequentialRNNCell",
    "DropoutCell",
    "ModifierCell",
    "ZoneoutCell",
    "ResidualCell",
    "BidirectionalCell",
    "rnn_cell",
    "rnn_layer",
]
