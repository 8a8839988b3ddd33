"""Modules that are computed by the program itself, without parameters; to be links of a SequentialModule."""
from __future__ import annotations

import logging
from typing import Any, Callable, List, Optional, Sequence

from .. import ndarray as nd
from .._array.array import NDArray
from .._metric import EvalMetric
from ..initializer import Initializer, Uniform
from .base_module import SGD, Arrays, BaseModule, Params


class PythonModule(BaseModule):
    """A module without parameters. A subclass has `_compute_output_shapes`, `forward`, `backward`, and what is read of them."""

    def __init__(
        self, data_names: Sequence[str], label_names: Optional[Sequence[str]], output_names: Sequence[str], logger: Any = logging
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> List[str]:
        """The names of the data."""
        return self._data_names

    @property
    def output_names(self) -> List[str]:
        """The names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> List[Any]:
        """The descriptions of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Optional[List[Any]]:
        """The descriptions of the labels; None where there are none."""
        return self._label_shapes

    @property
    def output_shapes(self) -> List[Any]:
        """(name, shape) of each output."""
        return self._output_shapes

    def _compute_output_shapes(self) -> List[Any]:
        """(name, shape) of each output, once `data_shapes` is known."""
        raise NotImplementedError

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
        """Takes the shapes. AssertionError: they have other names than the module's data and labels."""
        if self._stays_bound(force_rebind):
            return
        if grad_req != "write":
            raise AssertionError("Python module only support write gradient")
        for kind, names, shapes in (("data", self._data_names, data_shapes), ("label", self._label_names, label_shapes)):
            found = None if shapes is None else [each[0] for each in shapes]
            if found is not None and found != names:
                raise AssertionError(f"{type(self).__name__}.bind: the {kind} are {names}, but there came {found}.")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def get_params(self) -> Params:
        """No parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Optional[Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Nothing to do."""
        self.params_initialized = True

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Nothing to do."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Nothing to do."""

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False) -> None:
        """Gives the metric the labels and the outputs, where there are labels. RuntimeError: they are sliced for devices."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon: Any) -> None:
        """Does nothing: a Monitor watches executors."""


class PythonLossModule(PythonModule):
    """A loss: its outputs are its data, and `grad_func(scores, labels)` is dL/d(scores), an NDArray or a numpy array.

    A subclass may have `_backward_impl` instead, which sets `_scores_grad`.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Optional[Callable[[NDArray, NDArray], Any]] = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        if len(data_names) != 1 or len(label_names) != 1:
            raise AssertionError("PythonLossModule: it has one array of data and one of labels.")
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None
        self._grad_func = grad_func

    def _compute_output_shapes(self) -> List[Any]:
        return [(self._output_names[0], self._data_shapes[0][1])]

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Keeps the scores, and for training the labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> List[Any]:
        """The scores."""
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Computes the gradient. AssertionError: out_grads is given."""
        if out_grads is not None:
            raise AssertionError("For a loss module, out_grads should be None")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError("PythonLossModule: give grad_func.")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> List[Any]:
        """The gradient of the scores."""
        return [self._scores_grad]
