"""Files of a symbol with its parameters: `prefix-symbol.json` and `prefix-0000.params`, as HybridBlock.export writes them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import ndarray as nd, symbol as sym
from ._array.save import load_named
from .kvstore.base import KVStoreBase
from .kvstore.kvstore import KVStore, create
from .optimizer.updater import takes_lists

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]

Arrays = Dict[str, "nd.NDArray"]
OfDevices = Sequence[Sequence["nd.NDArray"]]  # For each parameter, one array on each device.


class BatchEndParam(NamedTuple):
    """The argument of a callback after a batch: the epoch, the batch's number in it, the metric, the loop's variables."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def save_checkpoint(
    prefix: str, epoch: int, symbol: Optional["sym.Symbol"], arg_params: Arrays, aux_params: Arrays, remove_amp_cast: bool = True
) -> None:
    """Writes the symbol, unless it is None, and the arrays."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    nd.save(
        f"{prefix}-{epoch:04d}.params",
        {
            **{f"arg:{name}": array for name, array in arg_params.items()},
            **{f"aux:{name}": array for name, array in aux_params.items()},
        },
    )


def load_params(prefix: str, epoch: int) -> Tuple[Arrays, Arrays]:
    """(arguments, auxiliary states) by name."""
    found: Dict[str, Arrays] = {"arg": {}, "aux": {}}
    for key, array in load_named(f"{prefix}-{epoch:04d}.params").items():
        kind, _, name = key.partition(":")
        if kind in found:
            found[kind][name] = array
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> Tuple["sym.Symbol", Arrays, Arrays]:
    """(symbol, arguments, auxiliary states) of a saved, or exported, network.

    symbol, arg_params, aux_params = mx.model.load_checkpoint('net', 0)
    """
    return (sym.load(f"{prefix}-symbol.json"),) + load_params(prefix, epoch)


# A step over several devices. Modules of programs' own import these four.


def _create_kvstore(kvstore: Any, num_device: int, arg_params: Arrays) -> Tuple[Optional[KVStoreBase], bool]:
    """A store for a name, a store itself or None, which is enough for one device; and whether the store updates the weights."""
    if isinstance(kvstore, str):
        large = kvstore == "local" and max(array.size for array in arg_params.values()) > 1 << 24
        store = create(kvstore) if num_device > 1 or "dist" in kvstore else None
    elif kvstore is None or isinstance(kvstore, KVStoreBase):
        large, store = False, kvstore
    else:
        raise TypeError("kvstore must be KVStore, str or None")
    return store, store is not None and not large and store.is_capable(KVStoreBase.OPTIMIZER)


def _initialize_kvstore(
    kvstore: Any, param_arrays: OfDevices, arg_params: Arrays, param_names: Sequence[str], update_on_kvstore: bool
) -> None:
    """Gives the store the first values, and the devices too where the store updates the weights."""
    for name, arrays in zip(param_names, param_arrays):
        if update_on_kvstore:
            kvstore.broadcast(name, arg_params[name], out=arrays)
        else:
            kvstore.init(name, arg_params[name])


def _trained(param_arrays: OfDevices, grad_arrays: OfDevices) -> Iterator[Tuple[int, List["nd.NDArray"], List["nd.NDArray"]]]:
    """(number, weights, gradients) of each parameter that has gradients."""
    for number, (weights, grads) in enumerate(zip(param_arrays, grad_arrays)):
        if grads[0] is not None:
            yield number, list(weights), list(grads)


def _update_params_on_kvstore(param_arrays: OfDevices, grad_arrays: OfDevices, kvstore: Any, param_names: Sequence[str]) -> None:
    """The store's optimizer updates the weights by the sums of the devices' gradients."""
    trained = list(_trained(param_arrays, grad_arrays))
    if isinstance(kvstore, KVStore):
        names = [param_names[number] for number, _, _ in trained]
        kvstore.pushpull(names, [grads for _, _, grads in trained], out=[weights for _, weights, _ in trained])
        return
    for number, weights, grads in trained:
        kvstore.pushpull(param_names[number], grads, out=weights, priority=-number)


def _update_params(
    param_arrays: OfDevices,
    grad_arrays: OfDevices,
    updater: Callable[..., Any],
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] = (),
) -> None:
    """The updater updates each device's weights, by the sums of the devices' gradients if there is a store."""
    updates: List[Tuple[int, "nd.NDArray", "nd.NDArray"]] = []
    for number, weights, grads in _trained(param_arrays, grad_arrays):
        if kvstore:
            kvstore.pushpull(param_names[number], grads, priority=-number)
        updates += [(number * num_device + device, grad, weight) for device, (weight, grad) in enumerate(zip(weights, grads))]
    if updates and takes_lists(updater):
        indices, gradients, arrays = zip(*updates)
        updater(indices, gradients, arrays)
        return
    for update in updates:
        updater(*update)
