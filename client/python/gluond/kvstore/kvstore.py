"""`mx.kv`: arrays by key, into which gradients of several devices are pushed, and from which weights are pulled.

    kv = mx.kv.create('device')
    kv.init('w', nd.ones((2, 3)))
    kv.push('w', [gradient_of_one_device, gradient_of_the_other])  # The sum is what the optimizer takes.
    kv.pull('w', out=weight)
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from .. import ndarray
from .._array.array import NDArray
from .._files import write_whole
from ..base import MXNetError
from ..optimizer._optimizer import Optimizer
from ..optimizer.updater import get_updater, takes_lists
from .base import KVStoreBase, registry

__all__ = ["KVStore", "create"]

# Types of stores that are all the same here: the devices of one server.
LOCAL_TYPES = ("device", "local", "nccl", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")
Key = Union[int, str]
Groups = Dict[Key, List[NDArray]]


class KVStore(KVStoreBase):
    """Arrays by key, all of them integers or all of them strings, on one server; there is one worker, 0.

    `key` and arrays are one key with an array or a list of the devices' arrays, or a list of keys with a list of these.
    `priority` is accepted, and makes no difference.
    AssertionError: these do not fit. MXNetError: a key is not there, or is initialized twice.
    """

    def __init__(self, type: str = "local") -> None:  # noqa: A002
        self.type = type
        self.rank = 0
        self.num_workers = 1
        self._values: Dict[Key, NDArray] = {}
        self._updater: Optional[Callable[[Key, NDArray, NDArray], Any]] = None

    def init(self, key: Any, value: Any) -> None:
        """Adds keys with their first values, which are copied."""
        for name, array in _pairs(key, value):
            self._check_kind(name)
            if name in self._values:
                raise MXNetError(
                    f"KVStore: duplicate init of key {name}. Please double check if you called kv.init or "
                    "kv.broadcast with this key multiple times"
                )
            self._values[name] = array.copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """The sum of the arrays of each key becomes its value, or is given to the updater or the optimizer."""
        groups = _grouped(key, value)
        stored = {name: self._stored(name) for name in groups}
        totals = {name: _sum(arrays) for name, arrays in groups.items()}
        if self._updater is None:
            self._values.update(totals)
            return
        grads = [totals[name].as_in_context(weight.context) for name, weight in stored.items()]
        updater: Any = self._updater
        if takes_lists(updater):
            updater(list(stored), grads, list(stored.values()))
            return
        for (name, weight), grad in zip(stored.items(), grads):
            updater(name, grad, weight)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copies the values into `out`. All arrays are dense, so that `ignore_sparse` makes no difference."""
        if out is None:
            raise AssertionError("KVStore.pull: give `out`, the arrays that get the values.")
        for name, array in _pairs(key, out):
            self._stored(name).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` into `out`, or into the pushed arrays themselves."""
        self.push(key, value)
        self.pull(key, value if out is None else out)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`."""
        self.init(key, value)
        self.pull(key, out)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copies the rows that `row_ids` name into `out`, whose other rows become 0: all arrays are dense.

        row_ids: one array for all of `out`, or one for each.
        """
        if out is None or row_ids is None:
            raise AssertionError("KVStore.row_sparse_pull: give `out` and `row_ids`.")
        pairs, rows = list(_pairs(key, out)), _flat(row_ids)
        if len(rows) not in (1, len(pairs)):
            raise AssertionError(f"KVStore.row_sparse_pull: {len(rows)} arrays of row_ids for {len(pairs)} of `out`.")
        for (name, array), chosen in zip(pairs, rows * len(pairs)):
            stored = self._stored(name)
            chosen = chosen.as_in_context(stored.context).reshape((1, -1))
            ndarray.scatter_nd(ndarray.take(stored, chosen[0]), chosen, shape=stored.shape).copyto(array)

    def _stored(self, name: Key) -> NDArray:
        self._check_kind(name)
        if name not in self._values:
            raise MXNetError(f"KVStore: key {name} has not been inited")
        return self._values[name]

    def _check_kind(self, name: Key) -> None:
        if self._values and isinstance(name, str) != isinstance(next(iter(self._values)), str):
            raise MXNetError(f"KVStore: Mixed key types are not allowed: {name!r} beside {next(iter(self._values))!r}")

    # Updates.

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """From now on pushed gradients update the values by this optimizer."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"KVStore.set_optimizer: optimizer is an Optimizer, not {optimizer!r}; mx.optimizer.create " "makes one of a name."
            )
        self.set_updater(get_updater(optimizer))

    def set_updater(self, updater: Callable[[Key, NDArray, NDArray], Any]) -> None:
        """From now on pushed arrays are given to `updater(key, pushed, stored)`, which changes `stored` in place."""
        self._updater = updater

    _set_updater = set_updater  # MXNet 1.x has this name only.

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states, in gluond's format. AssertionError: there is no optimizer."""
        write_whole(fname, [self._optimizing("save").get_states(dump_optimizer)])

    def load_optimizer_states(self, fname: str) -> None:
        """Takes the states of such a file."""
        updater = self._optimizing("load")
        with open(fname, "rb") as file:
            updater.set_states(file.read())

    def _optimizing(self, purpose: str) -> Any:
        if self._updater is None:
            raise AssertionError(f"Cannot {purpose} states: call set_optimizer() first.")
        return self._updater

    # Capabilities.

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether it can update by an optimizer: it can. ValueError: another capability."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    def set_gradient_compression(self, compression_params: Any) -> None:
        """ValueError: gradients are not compressed."""
        raise ValueError("KVStore: gradients are not compressed: they stay on one server.")

    def _barrier(self) -> None:
        """Waits for the other workers, of which there are none."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Does nothing: there are no servers of parameters."""


def create(name: str = "local") -> KVStoreBase:
    """A store: 'local' or 'device', which are the same, or one that a program has registered. TypeError: no name. ValueError: a name
    of several machines."""
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    if name.lower() in registry.classes:
        return registry.create(name)
    if name.lower() not in LOCAL_TYPES:
        raise ValueError(f"There is no kvstore '{name}'. gluond trains on the devices of one server; use 'device' or " "'local'.")
    return KVStore(name.lower())


def _pairs(key: Any, arrays: Any) -> Iterator[Tuple[Key, NDArray]]:
    """Each array with its key."""
    if isinstance(key, (list, tuple)):
        if len(key) != len(arrays):
            raise AssertionError(f"KVStore: {len(key)} keys for {len(arrays)} arrays or lists of them.")
        if len({isinstance(name, str) for name in key}) > 1:
            raise AssertionError("inconsistent types of keys detected.")
        for name, array in zip(key, arrays):
            yield from _pairs(name, array)
        return
    if not isinstance(key, (int, str)):
        raise AssertionError(f"unexpected type for keys: {type(key)}")
    for array in [arrays] if isinstance(arrays, NDArray) else arrays:
        if not isinstance(array, NDArray):
            raise AssertionError(f"KVStore: the arrays of key {key} are NDArrays, not {type(array).__name__}.")
        yield key, array


def _flat(arrays: Any) -> List[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else [each for part in arrays for each in _flat(part)]


def _grouped(key: Any, arrays: Any) -> Groups:
    """The arrays by key."""
    found: Groups = {}
    for name, array in _pairs(key, arrays):
        found.setdefault(name, []).append(array)
    return found


def _sum(arrays: List[NDArray]) -> NDArray:
    """A new array, on the device of the first one."""
    context = arrays[0].context
    return arrays[0].copy() if len(arrays) == 1 else ndarray.add_n(*[array.as_in_context(context) for array in arrays])
