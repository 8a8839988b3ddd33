"""Stores of arrays that a program writes: KVStoreBase, to be registered and made by its name."""
from __future__ import annotations

from typing import Any, Dict, Type

from .._array.array import NDArray
from .._registry import Registry

__all__ = ["KVStoreBase", "TestStore"]


class KVStoreBase:
    """The methods that a Trainer asks of a store: `broadcast` of first values, and `pushpull` of gradients.

    @mx.kvstore.KVStoreBase.register
    class Rings(mx.kvstore.KVStoreBase): ...
    trainer = gluon.Trainer(params, "sgd", kvstore=mx.kv.create("rings"))
    """

    OPTIMIZER = "optimizer"  # The capability.
    kv_registry: Dict[str, type]

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copies the value into `out`, an array or a list of each device's."""
        raise NotImplementedError

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Copies the sum of the arrays into `out`, or into themselves."""
        raise NotImplementedError

    def set_optimizer(self, optimizer: Any) -> None:
        """From now on pushed gradients update the values by this optimizer."""
        raise NotImplementedError

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether it has a capability, such as OPTIMIZER. ValueError: there is none of that name."""
        raise NotImplementedError

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states."""
        raise NotImplementedError

    def load_optimizer_states(self, fname: str) -> None:
        """Takes the states of such a file."""
        raise NotImplementedError

    @staticmethod
    def register(klass: Type["KVStoreBase"]) -> Type["KVStoreBase"]:
        """Class decorator: `create` finds the class by its lower-case name."""
        return registry.register(klass)


registry: Registry[KVStoreBase] = Registry(KVStoreBase, "kvstore")
KVStoreBase.kv_registry = registry.classes


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store without values, which only adds up: for tests of what uses stores."""

    type, rank, num_workers = "teststore", 0, 1

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copies the value into each array."""
        for array in out if isinstance(out, list) else [out]:
            array[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Copies the sum into `out`, or into the arrays themselves."""
        arrays = [value] if isinstance(value, NDArray) else value
        total = sum(array.as_in_context(arrays[0].context) for array in arrays)
        self.broadcast(key, total, value if out is None else out)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """It has no optimizer."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return False
