"""Automatic mixed precision: what libraries import of it."""
from . import amp
from .amp import convert_hybrid_block, convert_model, convert_symbol, init, init_trainer, scale_loss, unscale

__all__ = ["amp", "convert_hybrid_block", "convert_model", "convert_symbol", "init", "init_trainer", "scale_loss", "unscale"]
