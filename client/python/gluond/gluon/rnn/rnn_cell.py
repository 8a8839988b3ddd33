"""Cells, as `gluon.rnn.rnn_cell` names them."""
from .cells import GRUCell, LSTMCell, RNNCell
from .combined_cells import (BidirectionalCell, DropoutCell, HybridSequentialRNNCell, ModifierCell, ResidualCell,
                             SequentialRNNCell, ZoneoutCell)
from .recurrent_cell import HybridRecurrentCell, RecurrentCell

__all__ = ["RecurrentCell", "HybridRecurrentCell", "RNNCell", "LSTMCell", "GRUCell", "SequentialRNNCell",
           "HybridSequentialRNNCell", "DropoutCell", "ModifierCell", "ZoneoutCell", "ResidualCell", "BidirectionalCell"]
