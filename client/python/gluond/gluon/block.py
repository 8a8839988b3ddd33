"""Blocks, as `gluon.block` names them."""
from ._block import Block
from ._hybrid_block import HybridBlock
from ._nested import flatten as _flatten  # noqa: F401  # Libraries take these from here.
from ._nested import regroup_first as _regroup  # noqa: F401
from ._scope import BlockScope as _BlockScope  # noqa: F401
from ._symbol_block import SymbolBlock
from .utils import HookHandle, _brief_print_list, _indent  # noqa: F401

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
