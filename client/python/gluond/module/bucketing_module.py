"""BucketingModule: Modules for batches of several kinds, as of sentences of several lengths, with the same parameters."""
from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from .. import ndarray as nd
from .._metric import EvalMetric
from ..initializer import Initializer, Uniform
from ..model import load_params
from ..name import NameManager
from .base_module import SGD, Arrays, BaseModule, Params
from .module import Module

SymGen = Callable[[Any], Tuple[Any, Any, Any]]


class BucketingModule(BaseModule):
    """A Module for each `bucket_key` of the batches; `sym_gen(bucket_key)` is its (symbol, data_names, label_names).

    The batches have a `bucket_key`, `provide_data` and `provide_label`. The module of `default_bucket_key` has all parameters;
    the others share them and the optimizer. Other keywords are those of `Module`.
    AssertionError: there is no default_bucket_key.
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Any = None,
        work_load_list: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise AssertionError("BucketingModule: give default_bucket_key, the key of the largest bucket.")
        self._sym_gen = sym_gen
        self._default_key = default_bucket_key
        self._kwargs = {"logger": logger, "context": context, **kwargs}
        self._grad_req: Any = "write"
        self._monitor: Any = None
        self._default = self._made(default_bucket_key)
        self._curr_module = self._default
        self._buckets: Dict[Any, Module] = {default_bucket_key: self._default}

    def _made(self, key: Any) -> Module:
        with NameManager():
            symbol, data_names, label_names = self._sym_gen(key)
        return Module(symbol, data_names, label_names, **self._kwargs)

    # Files.

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Writes `prefix-0001.params`, a `prefix-KEY-symbol.json` for each bucket, and their keys, which are integers."""
        self.save_params(f"{prefix}-{epoch:04d}.params")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        nd.save(f"{prefix}.buckets", nd.array(np.array(list(self._buckets), np.int32), dtype="int32"))

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: Optional[SymGen] = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> "BucketingModule":
        """A module with the parameters of such files, to be bound; `sym_gen` makes the symbols, as before."""
        if sym_gen is None:
            raise AssertionError("sym_gen is required for loading BucketingModule")
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._default._unbound = load_params(prefix, epoch)
        module._default.params_initialized = module.params_initialized = True
        return module

    # Names and shapes, of the current bucket.

    @property
    def symbol(self) -> Any:
        """The current bucket's symbol."""
        return self._curr_module.symbol

    @property
    def data_names(self) -> List[str]:
        """The names of its data."""
        return self._curr_module.data_names

    @property
    def output_names(self) -> List[str]:
        """The names of its outputs."""
        return self._curr_module.output_names

    @property
    def data_shapes(self) -> List[Any]:
        """The DataDescs of its data."""
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> Optional[List[Any]]:
        """The DataDescs of its labels."""
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> List[Any]:
        """(name, shape) of each of its outputs."""
        return self._curr_module.output_shapes

    # Setup.

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Binds the default bucket for batches of these shapes; the others are bound by their first batch."""
        if self._stays_bound(force_rebind):
            return
        if shared_module is not None:
            raise AssertionError("shared_module for BucketingModule is not supported")
        self._default.bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, None, grad_req)
        self._buckets, self._curr_module = {self._default_key: self._default}, self._default
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self.binded = True

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Makes the module of this key the current one; a new one is bound for batches of these shapes."""
        self._expect()
        if bucket_key not in self._buckets:
            module = self._made(bucket_key)
            module.bind(
                data_shapes,
                label_shapes,
                self.for_training,
                self.inputs_need_grad,
                shared_module=self._default,
                grad_req=self._grad_req,
            )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._curr_module = self._buckets[bucket_key]

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Takes an optimizer, as `Module.init_optimizer`, for all buckets."""
        self._expect()
        if self._keeps_optimizer(force_init):
            return
        self._default.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not self._default:
                module.borrow_optimizer(self._default)
        self.optimizer_initialized = True

    # Parameters.

    def get_params(self) -> Params:
        """Copies of the parameters and of the auxiliary states, by name."""
        return self._default.get_params()

    def init_params(
        self,
        initializer: Optional[Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Gives the parameters their first values, as `Module.init_params`."""
        if self.params_initialized and not force_init:
            return
        self._default.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def set_params(
        self,
        arg_params: Optional[Arrays],
        aux_params: Optional[Arrays],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Gives the parameters values, as `Module.set_params`."""
        self._default.set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def install_monitor(self, mon: Any) -> None:
        """Has a Monitor watch the modules of all buckets, also of those to come."""
        self._expect(params=False)
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # A step.

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Computes the outputs of a batch, by the module of its `bucket_key`."""
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Computes the gradients of the last batch."""
        self._compute_gradients(out_grads, once=False)

    def _compute_gradients(self, out_grads: Any, once: bool) -> None:
        self._curr_module._call_backward(out_grads, once)

    def update(self) -> None:
        """Changes the parameters by the gradients of the last batch."""
        self._expect(optimizer=True)
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> List[Any]:
        """The outputs of the last batch."""
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> List[Any]:
        """The gradients of the data of the last batch."""
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> List[Any]:
        """The states of the current bucket."""
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Sets the states of the current bucket."""
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False) -> None:
        """Gives the metric the last batch's outputs and labels."""
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)
