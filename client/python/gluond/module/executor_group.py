"""DataParallelExecutorGroup: the arrays under a module, for programs that make modules of their own."""
from __future__ import annotations

import logging
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import symbol as sym
from .._array.array import NDArray
from .._metric import EvalMetric
from ..context import Context
from . import _inputs
from ._executor_group import ExecutorGroup, GradReq, requests

__all__ = ["DataParallelExecutorGroup"]


class DataParallelExecutorGroup(ExecutorGroup):
    """A symbol bound to arrays for batches of these shapes; the first of `contexts` computes the whole batch.

    shared_group: another group, whose arrays this one has where names and shapes are the same. The other arguments are those of
    `Module`; `shared_data_arrays` are the arrays of all arguments that are no parameters, by name, for each context.
    """

    shares_inputs = True

    def __init__(
        self,
        symbol: "sym.Symbol",
        contexts: Sequence[Context],
        workload: Any,
        data_shapes: Any,
        label_shapes: Any,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: Optional["DataParallelExecutorGroup"] = None,
        logger: Any = logging,
        fixed_param_names: Optional[Sequence[str]] = None,
        grad_req: GradReq = "write",
        state_names: Optional[Sequence[str]] = None,
        group2ctxs: Any = None,
    ) -> None:
        data, labels = _inputs.descriptions(data_shapes), _inputs.descriptions(label_shapes or [])
        self.symbol, self.contexts = symbol, list(contexts)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.grad_req: Dict[str, str] = requests(
            symbol,
            grad_req,
            param_names,
            fixed_param_names or [],
            [desc.name for desc in data] if inputs_need_grad else [],
            for_training,
        )
        super().__init__(symbol, self.contexts[0], data, labels, param_names, self.grad_req, shared_group)
        arrays: Dict[str, NDArray] = {} if shared_group is None else shared_group.shared_data_arrays[0]
        for name, array in self.executor.arg_dict.items():
            if name not in self.param_names:
                arrays.setdefault(name, array)
        self.shared_data_arrays: List[Dict[str, NDArray]] = [arrays] * len(self.contexts)

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Computes the outputs of a DataBatch."""
        self.load(data_batch.data, data_batch.label)
        self.executor.forward(is_train=self.for_training if is_train is None else is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Computes the gradients."""
        self.executor.backward(out_grads)

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: Optional[int] = None) -> List[Any]:
        """The outputs from `begin` to before `end`."""
        chosen: List[Any] = self.outputs[begin:end]
        return chosen if merge_multi_context else [[array] for array in chosen]

    def set_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], allow_extra: bool = False) -> None:
        """Gives the parameters and the auxiliary states values."""
        self.executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: Dict[str, NDArray], aux_params: Dict[str, NDArray]) -> None:
        """Copies the parameters and the auxiliary states into these arrays."""
        for target, arrays in ((arg_params, self.params), (aux_params, self.executor.aux_dict)):
            for name, array in arrays.items():
                array.astype(target[name].dtype).copyto(target[name])

    def update_metric(self, eval_metric: EvalMetric, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Gives the metric the last outputs, and labels."""
        eval_metric.update_dict(
            {desc.name: label for desc, label in zip(self.label_shapes, labels[0] if pre_sliced else labels)},
            dict(zip(self.symbol.list_outputs(), self.outputs)),
        )
