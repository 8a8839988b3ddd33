"""Another name: MXNet keeps the cells here."""
from ._recurrent_cell import BaseRNNCell, RNNParams
from ._cells import GRUCell, LSTMCell, RNNCell
from ._convolutional import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from ._combined import BidirectionalCell, DropoutCell, SequentialRNNCell
from ._fused import FusedRNNCell
from ._modifiers import ModifierCell, ResidualCell, ZoneoutCell

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]
