"""Another name: MXNet keeps the files of recurrent networks here."""
from ._checkpoints import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]
