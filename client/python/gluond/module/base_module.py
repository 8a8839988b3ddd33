"""BaseModule: training, scoring and prediction over batches, for all kinds of modules."""
from __future__ import annotations

import logging
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _metric_classes, _metric_values, ndarray as nd  # noqa: F401  # The metrics are found by their names.
from .._array.array import NDArray
from .._array.save import load_named
from .._metric import EvalMetric, as_list, create
from ..context import cpu
from ..initializer import Initializer, Uniform
from ..io._batches import DataBatch, DataIter
from ..model import BatchEndParam

Arrays = Dict[str, NDArray]
Params = Tuple[Arrays, Arrays]  # Arguments and auxiliary states, by name.
Callbacks = Union[None, Callable[..., Any], Sequence[Callable[..., Any]]]
SGD = (("learning_rate", 0.01),)


class BaseModule:
    """A computation, batch by batch. A subclass has the methods that raise NotImplementedError here.

    A module is bound to the shapes of its batches (`bind`), then its parameters get values (`init_params`), then it gets an
    optimizer (`init_optimizer`); after that `forward`, `backward` and `update` are a step. `fit` does all of it.
    AssertionError: a method is called before these that it needs.
    """

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    def _expect(self, params: bool = True, optimizer: bool = False) -> None:
        """AssertionError: the module is not ready."""
        for ready, method in (
            (self.binded, "bind"),
            (self.params_initialized or not params, "init_params"),
            (self.optimizer_initialized or not optimizer, "init_optimizer"),
        ):
            if not ready:
                raise AssertionError(f"{type(self).__name__}: call {method}() first.")

    def _stays_bound(self, force_rebind: bool) -> bool:
        """Whether `bind` has nothing to do, which is logged."""
        if not self.binded or force_rebind:
            return False
        self.logger.warning("Already bound, ignoring bind()")
        return True

    def _keeps_optimizer(self, force_init: bool) -> bool:
        """Whether `init_optimizer` has nothing to do, which is logged."""
        if not self.optimizer_initialized or force_init:
            return False
        self.logger.warning("optimizer already initialized, ignoring.")
        return True

    # Over many batches.

    def forward_backward(self, data_batch: Any) -> None:
        """`forward` for training, and `backward`, which cannot be called again then: its memory is freed."""
        self.forward(data_batch, is_train=True)
        self._call_backward(None, once=True)

    def _call_backward(self, out_grads: Any, once: bool) -> None:
        """`backward`; no other follows it with `once`. A `backward` of the program's own is called as it is."""
        if once and getattr(self.backward, "__module__", "").partition(".")[0] == __name__.partition(".")[0]:
            self._compute_gradients(out_grads, once)
        elif out_grads is None:
            self.backward()
        else:
            self.backward(out_grads)

    def _compute_gradients(self, out_grads: Any, once: bool) -> None:
        """The work of `backward`. A kind of module that keeps nothing for a second backward need not have this."""
        self.backward(out_grads)

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Callbacks = None,
        batch_end_callback: Callbacks = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD,
        eval_end_callback: Callbacks = None,
        eval_batch_end_callback: Callbacks = None,
        initializer: Optional[Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: Optional[int] = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Trains from epoch `begin_epoch` up to `num_epoch`, on the batches of a DataIter.

        Before, it binds the module, and gives it parameters and an optimizer, unless it has them. After each epoch it logs
        the metric and the time, calls `epoch_end_callback(epoch, symbol, arg_params, aux_params)`, and scores `eval_data`
        with `validation_metric` (by default the same one). Callbacks of batches get a BatchEndParam.
        AssertionError: num_epoch is missing.
        """
        if num_epoch is None:
            raise AssertionError("please specify number of epochs")
        self.bind(
            data_shapes=train_data.provide_data, label_shapes=train_data.provide_label, for_training=True, force_rebind=force_rebind
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        if validation_metric is None:
            validation_metric = eval_metric
        eval_metric = create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            for name, value in self._train_epoch(train_data, eval_metric, epoch, batch_end_callback, monitor, sparse_row_id_fn):
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            if epoch_end_callback is not None:
                arg_params, aux_params = self.get_params()
                for callback in as_list(epoch_end_callback):
                    callback(epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                for name, value in self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                ):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(
        self,
        train_data: Any,
        eval_metric: EvalMetric,
        epoch: int,
        batch_end_callback: Callbacks,
        monitor: Any,
        sparse_row_id_fn: Any,
    ) -> List[Tuple[str, Any]]:
        """One epoch; the metric's names and values at its end, as they are before the last batch's callbacks."""
        eval_metric.reset()
        batches = iter(train_data)
        next_data_batch = next(batches, None)
        if next_data_batch is None:
            raise ValueError("fit: train_data has no batches; it may need reset().")
        nbatch = 0
        while next_data_batch is not None:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self.update_metric(eval_metric, data_batch.label)
            next_data_batch = next(batches, None)
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
            if monitor is not None:
                monitor.toc_print()
            if next_data_batch is None:
                values = eval_metric.get_global_name_value()
            _call(batch_end_callback, epoch, nbatch, eval_metric, locals())
            nbatch += 1
        return values

    def score(
        self,
        eval_data: Any,
        eval_metric: Any,
        num_batch: Optional[int] = None,
        batch_end_callback: Callbacks = None,
        score_end_callback: Callbacks = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> List[Tuple[str, Any]]:
        """[(name, value)] of the metric over all batches, or `num_batch` of them; rows that pad a batch count, too."""
        self._expect()
        eval_metric = create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in self._batches(eval_data, num_batch, reset, sparse_row_id_fn):
            self.forward(eval_batch, is_train=False)
            self.update_metric(eval_metric, eval_batch.label)
            _call(batch_end_callback, epoch, nbatch, eval_metric, locals())
            actual_num_batch += 1
        _call(score_end_callback, epoch, actual_num_batch, eval_metric, locals())
        return eval_metric.get_name_value()

    def iter_predict(
        self, eval_data: Any, num_batch: Optional[int] = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[Tuple[List[NDArray], int, Any]]:
        """(outputs without the rows that pad the batch, number of the batch, batch), for each batch."""
        self._expect()
        for nbatch, eval_batch in self._batches(eval_data, num_batch, reset, sparse_row_id_fn):
            self.forward(eval_batch, is_train=False)
            yield [out[: out.shape[0] - (eval_batch.pad or 0)] for out in self.get_outputs()], nbatch, eval_batch

    def predict(
        self,
        eval_data: Any,
        num_batch: Optional[int] = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """The outputs for all batches of a DataIter, without the rows that pad them; or for one array, as it is.

        Joined along the first axis: an NDArray, or a list of them for several outputs or with `always_output_list`. Without
        `merge_batches` a list of the lists of each batch's. ValueError: eval_data is neither a DataIter nor an array.
        """
        self._expect()
        if isinstance(eval_data, (NDArray, np.ndarray)):
            self.forward(DataBatch([nd.array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise ValueError("eval_data must be of type NDArray or DataIter")
        found = [outputs for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not found or not merge_batches:
            return found
        if any(len(outputs) != len(found[0]) for outputs in found):
            raise AssertionError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is " "used?"
            )
        joined = [parts[0] if len(parts) == 1 else nd.concat(*parts, dim=0) for parts in zip(*found)]
        return joined[0] if len(joined) == 1 and not always_output_list else joined

    def _batches(self, data: Any, num_batch: Optional[int], reset: bool, sparse_row_id_fn: Any) -> Iterator[Tuple[int, Any]]:
        """(number, batch), with the module prepared for it."""
        if reset:
            data.reset()
        for nbatch, batch in enumerate(data):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            yield nbatch, batch

    # Parameters.

    def set_params(
        self,
        arg_params: Optional[Arrays],
        aux_params: Optional[Arrays],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Gives parameters and auxiliary states values; with `allow_missing` the others stay as they are."""
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    def save_params(self, fname: str) -> None:
        """Writes parameters and auxiliary states to a file, as `mx.model.save_checkpoint` does."""
        arg_params, aux_params = self.get_params()
        nd.save(
            fname,
            {
                **{f"arg:{name}": array.as_in_context(cpu()) for name, array in arg_params.items()},
                **{f"aux:{name}": array.as_in_context(cpu()) for name, array in aux_params.items()},
            },
        )

    def load_params(self, fname: str) -> None:
        """Takes the values of such a file. ValueError: it is none."""
        found: Dict[str, Arrays] = {"arg": {}, "aux": {}}
        for key, array in load_named(fname).items():
            kind, _, name = key.partition(":")
            if kind not in found:
                raise ValueError(f"Invalid param file {fname}: its arrays are named arg:... and aux:..., but there is '{key}'.")
            found[kind][name] = array
        self.set_params(found["arg"], found["aux"])

    # Methods that most kinds of modules share.

    @property
    def symbol(self) -> Any:
        """The symbol, or None."""
        return self._symbol

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Called before a batch is used."""
        if sparse_row_id_fn is not None:
            warnings.warn(UserWarning("sparse_row_id_fn is not invoked: arrays of the server are dense."), stacklevel=2)

    def get_states(self, merge_multi_context: bool = True) -> List[Any]:
        """The states that are kept from batch to batch: none."""
        self._expect()
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Sets these states. AssertionError: there are none."""
        self._expect()
        if states or value:
            raise AssertionError(f"{type(self).__name__} has no states.")

    # Methods that each kind of module has.

    @property
    def data_names(self) -> List[str]:
        """The names of the data."""
        raise NotImplementedError

    @property
    def output_names(self) -> List[str]:
        """The names of the outputs."""
        raise NotImplementedError

    @property
    def data_shapes(self) -> List[Any]:
        """The DataDescs (name, shape) of the data."""
        raise NotImplementedError

    @property
    def label_shapes(self) -> Optional[List[Any]]:
        """The DataDescs (name, shape) of the labels; None where there are none."""
        raise NotImplementedError

    @property
    def output_shapes(self) -> List[Any]:
        """(name, shape) of each output."""
        raise NotImplementedError

    def get_params(self) -> Params:
        """The values of parameters and of auxiliary states, by name."""
        raise NotImplementedError

    def init_params(
        self,
        initializer: Optional[Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Gives parameters and auxiliary states their first values."""
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
        """Makes arrays for batches of these shapes."""
        raise NotImplementedError

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Takes an optimizer, by name or an instance."""
        raise NotImplementedError

    def install_monitor(self, mon: Any) -> None:
        """Has a Monitor watch what is computed."""
        raise NotImplementedError

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Computes the outputs of a batch."""
        raise NotImplementedError

    def backward(self, out_grads: Any = None) -> None:
        """Computes the gradients."""
        raise NotImplementedError

    def update(self) -> None:
        """Changes the parameters by their gradients."""
        raise NotImplementedError

    def get_outputs(self, merge_multi_context: bool = True) -> List[Any]:
        """The outputs of the last batch."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context: bool = True) -> List[Any]:
        """The gradients of the data of the last batch."""
        raise NotImplementedError

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False) -> None:
        """Gives the metric the last batch's outputs, and labels."""
        raise NotImplementedError


def _call(callbacks: Callbacks, epoch: int, nbatch: int, eval_metric: EvalMetric, variables: Dict[str, Any]) -> None:
    if callbacks is not None:
        for callback in as_list(callbacks):
            callback(BatchEndParam(epoch, nbatch, eval_metric, variables))
