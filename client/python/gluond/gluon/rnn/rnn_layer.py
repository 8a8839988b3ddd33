"""Layers, as `gluon.rnn.rnn_layer` names them."""
from .layers import GRU, LSTM, RNN

__all__ = ["RNN", "LSTM", "GRU"]
