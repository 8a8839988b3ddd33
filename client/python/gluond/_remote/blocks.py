"""Blocks of models: a model's graph with copies of its values, and their way back."""

from __future__ import annotations

import weakref
from typing import Any, Optional, Sequence, Tuple

from ..base import MXNetError
from ..context import Context, current_context
from ..gluon._hybrid_block import HybridBlock
from ..gluon._symbol_block import SymbolBlock
from . import arrays, descriptions, graphs

# The Blocks that are some model's, with its name and version.
_opened: "weakref.WeakKeyDictionary[HybridBlock, Tuple[str, int]]" = weakref.WeakKeyDictionary()


def remember(block: HybridBlock, model: str, version: int) -> None:
    """The block is this version of a model."""
    _opened[block] = (model, version)


def take(model: str, parameters: Sequence[Any], ctx: Optional[Context]) -> SymbolBlock:
    """As Model.block. parameters: the model's, as the server describes them."""
    proto, found = arrays.take(model, parameters)
    block = _block_of(proto)
    for name, parameter in block.collect_params().items():
        parameter._load_init(found[name], ctx or current_context(), cast_dtype=True, dtype_source="saved")
    remember(block, model, proto.version)
    return block


def store(model: str, parameters: Sequence[Any], block: HybridBlock, force: bool) -> None:
    """As Model.store."""
    known, version = _opened.get(block, ("", 0))
    if not force and known != model:
        raise MXNetError(
            f"the Block '{block.name}' is neither of this model's block() nor saved as model '{model}'; store it with force=True"
        )
    own = block.collect_params()
    given = arrays.of_parameters({each.name: own[each.name] for each in parameters if each.name in own})
    if not given:
        raise MXNetError(f"model '{model}' and the Block '{block.name}' have no parameter of the same name")
    remember(block, model, arrays.store(model, given, None if force else version))


def _block_of(proto: Any) -> SymbolBlock:
    """The Block of a Model with its graph; its parameters have no values."""
    described = descriptions.of_model(proto)
    by_name = descriptions.by_name(described.parameters)
    outputs, inputs = graphs.symbol_of(proto.graph, by_name, [each.name for each in described.inputs])
    block = SymbolBlock(outputs, inputs)
    for name, parameter in block.collect_params().items():
        if by_name[name].kind == "parameter":
            parameter.grad_req = by_name[name].grad_req
    return block
