"""Trainer: applies an optimizer to Parameters. A step sends commands, and waits only where it is to leave out stale gradients."""
from __future__ import annotations

import itertools
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .. import ndarray
from .._array import tape
from .._array.array import NDArray
from .._files import write_whole
from ..context import Context
from ..kvstore.base import KVStoreBase
from ..kvstore.kvstore import LOCAL_TYPES, KVStore, create as create_store
from ..optimizer import adam, adaptive, contrib, sgd  # noqa: F401  # Which create() finds by their names.
from ..optimizer._optimizer import Optimizer, create
from ..optimizer.updater import get_updater, takes_lists
from ._parameter import Parameter
from ._parameter_dict import ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Updates `params` (of `net.collect_params()`, or a list) with an optimizer, an instance or a name with parameters.

        trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1, 'momentum': 0.9})
        with autograd.record():
            loss = loss_fn(net(data), label)
        loss.backward()
        trainer.step(batch_size)

    Gradients on several devices of the one server are summed. `kvstore` names of one machine, or a KVStore, are accepted
    and mean that; a KVStoreBase of the program's own sums them itself.
    """

    # Programs look at these, and at _update_on_kvstore: MXNet begins its kvstore, and with it the parameters, at the first step,
    # and may update there.
    _kv_initialized = True
    _params_to_init: Tuple[Parameter, ...] = ()

    def __init__(
        self,
        params: Union[ParameterDict, Dict[str, Parameter], Sequence[Parameter]],
        optimizer: Union[str, Optimizer],
        optimizer_params: Optional[Dict[str, Any]] = None,
        kvstore: Union[None, str, KVStoreBase] = "device",
        compression_params: Optional[Dict[str, Any]] = None,
        update_on_kvstore: Optional[bool] = None,
    ) -> None:
        self._params = _listed(params)
        if not (kvstore is None or isinstance(kvstore, KVStoreBase) or kvstore in LOCAL_TYPES):
            raise ValueError(
                f"Trainer: there is no kvstore '{kvstore}'. gluond trains on the devices of one server; use "
                "'device', 'local', 'nccl', a KVStore, a KVStoreBase of your own, or None."
            )
        self._wants_update_on_kvstore = update_on_kvstore
        if compression_params is not None:
            raise ValueError("Trainer: gradients are not compressed; compression_params must be None.")
        self._contexts = self._check_contexts()
        if isinstance(kvstore, str):  # For dense parameters on one device MXNet makes none.
            is_needed = len(self._contexts) != 1 or any(param._stype != "default" for param in self._params)
            kvstore = create_store(kvstore) if is_needed else None
        self._kvstore = kvstore
        self._update_on_kvstore = None if kvstore is None else False
        self._known: Dict[bytes, Parameter] = {}
        self._init_optimizer(optimizer, optimizer_params)

    def _init_optimizer(self, optimizer: Union[str, Optimizer], optimizer_params: Optional[Dict[str, Any]]) -> None:
        """Begins anew with an optimizer, without states. Programs that go on with another one call it."""
        self._optimizer = self._make_optimizer(optimizer, optimizer_params)
        self._scale = self._optimizer.rescale_grad
        self._updaters = [get_updater(self._optimizer) for _ in self._contexts]
        if isinstance(self._kvstore, KVStore) and self._updaters:
            self._kvstore._set_updater(self._updaters[0])  # Where programs look for the states.

    def _init_kvstore(self) -> None:
        """ValueError: the program's own store is to update, and cannot."""
        if self._wants_update_on_kvstore and self._kvstore is not None and not self._kvstore.is_capable(KVStoreBase.OPTIMIZER):
            raise ValueError(f"Please set update_on_kvstore to False when training with {type(self._kvstore)}")

    def _make_optimizer(self, optimizer: Union[str, Optimizer], optimizer_params: Optional[Dict[str, Any]]) -> Optimizer:
        by_index = dict(enumerate(self._params))
        if isinstance(optimizer, Optimizer):
            if optimizer_params:
                raise AssertionError("optimizer_params must be None if optimizer is an instance of Optimizer instead of " "str")
            optimizer.param_dict = by_index
            return optimizer
        return create(optimizer, param_dict=by_index, **(optimizer_params or {}))

    def _check_contexts(self) -> List[Context]:
        contexts: Optional[List[Context]] = None
        for param in self._params:
            own = param.list_ctx()
            if contexts is not None and own != contexts:
                raise AssertionError(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name} is initialized on {own} while previous Parameters are initialized on "
                    f"{contexts}."
                )
            contexts = own
        return list(contexts or [])

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The current one; of the scheduler, if there is one."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Sets it; an error if a scheduler does."""
        self._optimizer.set_learning_rate(lr)

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sums gradients over devices, divides them by `batch_size`, and updates. After `backward()`.

        A gradient that no backward has written since the last step is an error, raised where the program waits next. With
        `ignore_stale_grad` such parameters stay as they are, and nothing is raised; the step waits until the server tells which.
        """
        self._optimizer.rescale_grad = self._scale / batch_size
        self._allreduce()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sums gradients over devices; to be used with `update`, where something is to happen between the two."""
        self._allreduce()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """The update alone, as `step` does it."""
        self._optimizer.rescale_grad = self._scale / batch_size
        self._update(ignore_stale_grad)

    def _allreduce(self) -> None:
        if len(self._contexts) < 2:
            return
        for param in self._params:
            if param.grad_req != "null":
                grads = param.list_grad()
                if self._kvstore is not None and not isinstance(self._kvstore, KVStore):
                    self._kvstore.pushpull(self._params.index(param), grads)
                    continue
                total = ndarray.add_n(*[grad.as_in_context(grads[0].context) for grad in grads])
                for grad in grads:
                    grad[:] = total.as_in_context(grad.context)

    def _update(self, ignore_stale_grad: bool) -> None:
        trained = [(i, param) for i, param in enumerate(self._params) if param.grad_req != "null"]
        if not trained:
            return
        counts = self._optimizer._index_update_count
        for position, updater in enumerate(self._updaters):
            self._optimizer._index_update_count = dict(counts)  # An update on all devices is one.
            weights: List[NDArray] = [param.list_data()[position] for _, param in trained]
            indices = [index for index, _ in trained]
            grads = [param.list_grad()[position] for _, param in trained]
            if ignore_stale_grad:
                # An update counts: what is left out must not be counted either.
                fresh = tape.are_fresh(weights)
                if any(fresh):
                    lists: Tuple[List[Any], ...] = (indices, grads, weights)
                    updater(*(list(itertools.compress(each, fresh)) for each in lists))
            else:
                self._describe(trained, weights)
                if takes_lists(updater) and updater.step_fresh(indices, grads, weights):
                    continue
                tape.require_fresh(weights)
                with tape.only_if_fresh(weights[0]):  # Where one is stale, none is fresh any more.
                    updater(indices, grads, weights)
            tape.clear_fresh(weights)

    def _describe(self, trained: List[Tuple[int, Parameter]], weights: List[NDArray]) -> None:
        """Tells the session the weights' names: the server knows numbers only."""
        for (_, param), weight in zip(trained, weights):
            name = weight._sent()
            if self._known.get(name) is not param:
                self._known[name] = param
                weight._session.describe_as(name, f"Parameter `{param.name}` on context {weight.context}")

    def save_states(self, fname: str) -> None:
        """Writes the optimizer's states and numbers: a `.params` file with JSON in it, no pickle."""
        write_whole(fname, [self._updaters[0].get_states(dump_optimizer=True)])

    def load_states(self, fname: str) -> None:
        """Reads a file that `save_states` wrote for the same optimizer; learning rate and counts of updates as well."""
        with open(fname, "rb") as file:
            states = file.read()
        for updater in self._updaters:
            updater.set_states(states)


def _listed(params: Any) -> List[Parameter]:
    """The parameters, those of a dict in the order of their names."""
    if isinstance(params, (dict, ParameterDict)):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
    for param in params:
        if not isinstance(param, Parameter):
            raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(param)}.")
    return list(params)
