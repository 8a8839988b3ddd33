"""SequentialModule: modules in a row, each of which has the outputs of the one before it as its data."""
from __future__ import annotations

import copy
import logging
from typing import Any, Dict, List, Optional

from .._metric import EvalMetric
from ..initializer import Initializer, Uniform
from .base_module import SGD, Arrays, BaseModule, Params


class SequentialModule(BaseModule):
    """Modules in a row.

    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(body, label_names=[])).add(mx.mod.Module(head), take_labels=True, auto_wiring=True)
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: List[BaseModule] = []
        self._metas: List[Dict[str, bool]] = []
        self._label_shapes: Any = None

    def add(self, module: BaseModule, **kwargs: bool) -> "SequentialModule":
        """One more module; `take_labels`: it gets the labels; `auto_wiring`: its data's names are put in the place of the
        outputs' names, in their order. AssertionError: another keyword.
        """
        for key in kwargs:
            if key not in (self.META_TAKE_LABELS, self.META_AUTO_WIRING):
                raise AssertionError(f'Unknown meta "{key}", a typo?')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _takes_labels(self) -> List[bool]:
        return [bool(meta.get(self.META_TAKE_LABELS)) for meta in self._metas]

    # Names and shapes.

    @property
    def data_names(self) -> List[str]:
        """The names of the first module's data."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> List[str]:
        """The names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> List[Any]:
        """The DataDescs of the first module's data."""
        self._expect(params=False)
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Optional[List[Any]]:
        """The descriptions of the labels; None where no module takes them."""
        self._expect(params=False)
        return self._label_shapes

    @property
    def output_shapes(self) -> List[Any]:
        """(name, shape) of each of the last module's outputs."""
        self._expect(params=False)
        return self._modules[-1].output_shapes

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
        """Binds each module for the outputs of the one before it."""
        if self._stays_bound(force_rebind):
            return
        if inputs_need_grad and not for_training:
            raise AssertionError("SequentialModule.bind: inputs_need_grad needs for_training=True.")
        if shared_module is not None:
            raise AssertionError("Shared module is not supported")
        if not self._modules:
            raise AssertionError("Attempting to bind an empty SequentialModule")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._label_shapes = label_shapes if any(self._takes_labels()) else None
        for place, (module, meta, takes) in enumerate(zip(self._modules, self._metas, self._takes_labels())):
            if meta.get(self.META_AUTO_WIRING):
                if len(module.data_names) != len(data_shapes):
                    raise AssertionError(
                        f"SequentialModule: module {place} has the data {module.data_names}, but there are "
                        f"{len(data_shapes)} outputs before it."
                    )
                data_shapes = [(name, shape[1]) for name, shape in zip(module.data_names, data_shapes)]
            module.bind(
                data_shapes,
                label_shapes if takes else None,
                for_training,
                inputs_need_grad or for_training and place > 0,
                force_rebind,
                None,
                grad_req,
            )
            data_shapes = module.output_shapes
        self.binded = True

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Gives each module an optimizer."""
        self._expect()
        if self._keeps_optimizer(force_init):
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # Parameters.

    def get_params(self) -> Params:
        """The parameters and auxiliary states of all modules, by name."""
        self._expect()
        arg_params: Arrays = {}
        aux_params: Arrays = {}
        for module in self._modules:
            args, states = module.get_params()
            arg_params.update(args)
            aux_params.update(states)
        return arg_params, aux_params

    def init_params(
        self,
        initializer: Optional[Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Gives all parameters their first values. AssertionError: two modules have parameters of one name."""
        if self.params_initialized and not force_init:
            return
        self._expect(params=False)
        owners: Dict[str, int] = {}
        for place, module in enumerate(self._modules):
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
            for name in [name for arrays in module.get_params() for name in arrays]:
                if name in owners:
                    raise AssertionError(
                        f'Duplicated parameter names: name "{name}" in layer {place} is already used in layer ' f"{owners[name]}."
                    )
                owners[name] = place
        self.params_initialized = True

    def install_monitor(self, mon: Any) -> None:
        """Has a Monitor watch all modules."""
        self._expect(params=False)
        for module in self._modules:
            module.install_monitor(mon)

    # A step.

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Computes the outputs of each module from those of the one before it."""
        self._expect()
        batch = copy.copy(data_batch)
        for place, module in enumerate(self._modules):
            if place > 0:
                batch.data = self._modules[place - 1].get_outputs()
                batch.provide_data = [(name, array.shape) for name, array in zip(module.data_names, batch.data)]
            module.forward(batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Computes the gradients, from the last module to the first."""
        self._compute_gradients(out_grads, once=False)

    def _compute_gradients(self, out_grads: Any, once: bool) -> None:
        self._expect()
        for place in reversed(range(len(self._modules))):
            self._modules[place]._call_backward(out_grads, once)
            out_grads = self._modules[place].get_input_grads() if place > 0 else None

    def update(self) -> None:
        """Changes the parameters of all modules."""
        self._expect(optimizer=True)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> List[Any]:
        """The outputs of the last module."""
        self._expect()
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> List[Any]:
        """The gradients of the first module's data."""
        self._expect()
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False) -> None:
        """Gives the metric the outputs of each module that takes labels."""
        self._expect()
        for module, takes in zip(self._modules, self._takes_labels()):
            if takes:
                module.update_metric(eval_metric, labels, pre_sliced)
