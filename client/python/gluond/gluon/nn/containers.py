"""Blocks in a row: Sequential and HybridSequential."""
from __future__ import annotations

import warnings
from typing import Any, Iterator, Optional, Union

from .._block import Block
from .._hybrid_block import HybridBlock
from .._parameter_dict import ParameterDict
from ..utils import _indent


class _Row(Block):
    """The methods of both containers: `add`, `len`, indexing, slices."""

    _is_container = True

    def add(self, *blocks: Block) -> None:
        """Puts Blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self) -> str:
        lines = "\n".join(f"  ({key}): {_indent(repr(block), 2)}" for key, block in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def __getitem__(self, key: Union[int, slice]) -> Any:
        blocks = list(self._children.values())[key]
        if not isinstance(blocks, list):
            return blocks
        row = type(self)(prefix=self._prefix)
        with row.name_scope():
            row.add(*blocks)
        return row

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(list(self._children.values()))


class Sequential(_Row):
    """Runs Blocks one after the other.

    net = nn.Sequential()
    with net.name_scope():
        net.add(nn.Dense(10, activation='relu'))
        net.add(nn.Dense(20))
    """

    def __init__(self, prefix: Optional[str] = None, params: Optional[ParameterDict] = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def forward(self, x: Any, *args: Any) -> Any:
        """The last Block's output; where a Block returns several things, the next one is given them all."""
        for block in self._children.values():
            x, args = _split(block(x, *args))
        return (x,) + args if args else x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridizes the children. If all can be, HybridSequential would run as one graph: a warning says so."""
        if self._children and all(isinstance(block, HybridBlock) for block in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using "
                "HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Row, HybridBlock):
    """Runs HybridBlocks one after the other, once hybridized as one graph."""

    def __init__(self, prefix: Optional[str] = None, params: Optional[ParameterDict] = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:  # noqa: N803
        """The last Block's output; where a Block returns several things, the next one is given them all."""
        for block in self._children.values():
            x, args = _split(block(x, *args))
        return (x,) + args if args else x


def _split(out: Any) -> Any:
    """(first output, the others)."""
    if isinstance(out, (list, tuple)):
        return out[0], tuple(out[1:])
    return out, ()
