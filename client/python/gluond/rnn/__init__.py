"""Recurrent cells that make symbols, as MXNet's mx.rnn, and batches of sentences of several lengths.

    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(num_hidden=200, prefix='lstm_l0_'))
    outputs, states = cell.unroll(length, inputs=embedded, merge_outputs=True)
"""
from . import io, rnn, rnn_cell
from ._base import BaseRNNCell, RNNParams
from ._cells import GRUCell, LSTMCell, RNNCell
from ._checkpoints import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from ._combined import BidirectionalCell, DropoutCell, SequentialRNNCell
from ._fused import FusedRNNCell
from ._modifiers import ModifierCell, ResidualCell, ZoneoutCell
from ._sentences import BucketSentenceIter, encode_sentences

__all__ = ["BaseRNNCell", "BidirectionalCell", "BucketSentenceIter", "DropoutCell", "FusedRNNCell", "GRUCell",
           "LSTMCell", "ModifierCell", "RNNCell", "RNNParams", "ResidualCell", "SequentialRNNCell", "ZoneoutCell",
           "do_rnn_checkpoint", "encode_sentences", "io", "load_rnn_checkpoint", "rnn", "rnn_cell", "rnn_unroll",
           "save_rnn_checkpoint"]
