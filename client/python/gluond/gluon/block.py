"""Blocks, as `gluon.block` names them."""
from ._block import Block
from ._hybrid_block import HybridBlock
from ._nested import flatten as _flatten  # noqa: F401  # Libraries take it from here.
from ._symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
