"""Names of Blocks: automatic prefixes, counted within the enclosing `name_scope()`."""
from __future__ import annotations

from typing import Dict, Optional, Tuple

from .. import name as _name
from .._wire.frame import enter, frame, leave
from ._kinds import AnyBlock
from ._parameter_dict import ParameterDict


class BlockScope:
    """The name scope of one Block: `with block.name_scope():` puts the block's prefix before names made inside."""

    def __init__(self, block: AnyBlock) -> None:
        self._block = block
        self._counters: Dict[str, int] = {}

    @staticmethod
    def create(prefix: Optional[str], params: Optional[ParameterDict], hint: str) -> Tuple[str, ParameterDict]:
        """The prefix and the ParameterDict of a new Block of class name `hint`."""
        scope = frame().block_scope
        if scope is None:
            if prefix is None:
                prefix = _name.current().get(None, hint) + "_"
            own = ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
            return prefix, own
        if prefix is None:
            count = scope._counters.get(hint, 0)
            scope._counters[hint] = count + 1
            prefix = f"{hint}{count}_"
        if params is None:
            parent = scope._block.params
            own = ParameterDict(parent.prefix + prefix, parent._shared)
        else:
            own = ParameterDict(params.prefix, params)
        return scope._block.prefix + prefix, own

    def __enter__(self) -> "BlockScope":
        if not self._block._empty_prefix:
            enter(self, block_scope=self, names=_name.Prefix(self._block.prefix))
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self)
