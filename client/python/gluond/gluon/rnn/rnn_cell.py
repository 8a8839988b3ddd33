"""Cells, as `gluon.rnn.rnn_cell` names them."""
from ._of_libraries import cells_begin_state as _cells_begin_state  # noqa: F401  # Libraries take these from here.
from ._of_libraries import cells_state_info as _cells_state_info  # noqa: F401
from ._of_libraries import format_sequence as _format_sequence  # noqa: F401
from ._of_libraries import get_begin_state as _get_begin_state  # noqa: F401
from ._of_libraries import mask_sequence_variable_length as _mask_sequence_variable_length  # noqa: F401
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
from .recurrent_cell import HybridRecurrentCell, RecurrentCell

__all__ = [
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
]
