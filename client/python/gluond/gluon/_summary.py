"""The table of a network's layers that `Block.summary` prints."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from .._array.array import NDArray
from ..symbol.symbol import Symbol
from ._kinds import AnyBlock
from .utils import HookHandle

_ROW = "{:>20}  {:>42} {:>15}"


def print_summary(block: AnyBlock, *inputs: Any) -> None:
    """See Block.summary."""

    def check(part: AnyBlock) -> None:
        if getattr(part, "_active", False):
            raise AssertionError(f'"{part.name}" must not be hybridized to print summary.')

    block.apply(check)
    rows: Dict[str, Tuple[str, int, int]] = {}
    times_seen: Dict[Any, int] = {}
    handles: List[HookHandle] = []

    def watch(part: AnyBlock) -> None:
        def count(_: AnyBlock, __: Any, outputs: Any) -> None:
            if _has_symbol(outputs):  # The layer's shapes are being inferred.
                return
            total = trainable = 0
            for param in part.params.values():
                size = int(np.prod(param.shape))
                total += size
                trainable += 0 if param.grad_req == "null" else size
                times_seen[param] = times_seen.get(param, 0) + 1
            rows[f"{type(part).__name__}-{len(rows) + 1}"] = (_shapes(outputs), total, trainable)

        if not part._is_container:
            handles.append(part.register_forward_hook(count))

    block.apply(watch)
    try:
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()

    print("-" * 80)
    print(_ROW.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    print(_ROW.format("Input", _shapes(inputs), 0))
    for name, (shape, total, _) in rows.items():
        print(_ROW.format(name, shape, total))
    total = sum(row[1] for row in rows.values())
    trainable = sum(row[2] for row in rows.values())
    shared = sum((times - 1) * int(np.prod(param.shape)) for param, times in times_seen.items())
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print("   Total params: " + str(total))
    print("   Trainable params: " + str(trainable))
    print("   Non-trainable params: " + str(total - trainable))
    print("Shared params in forward computation graph: " + str(shared))
    print("Unique parameters in model: " + str(total - shared))
    print("-" * 80)


def _has_symbol(value: Any) -> bool:
    return isinstance(value, Symbol) or isinstance(value, (list, tuple)) and any(map(_has_symbol, value))


def _shapes(value: Any, inner: bool = False) -> str:
    """The shapes of nested arrays: `(2, 3), [(1, 3), (1, 3)]`."""
    if isinstance(value, (list, tuple)):
        text = ", ".join(_shapes(item, True) for item in value)
        return f"[{text}]" if inner else text
    return str(value.shape) if isinstance(value, NDArray) else str(value)
