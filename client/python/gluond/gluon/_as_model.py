"""The way from a Block to a model of the server, for `Block.save_as_model`."""
from __future__ import annotations

from typing import Any, Callable


class _AsModel:
    """`save` makes the model. The room `_remote` sets it: it knows models, and is made of Blocks itself."""

    save: Callable[..., Any]


as_model = _AsModel()
