"""Module: a symbol that is trained and run batch by batch."""
from __future__ import annotations

import logging
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .. import ndarray as nd
from .. import symbol as sym
from .._array.array import NDArray
from .._attributes import warn_once
from .._files import write_whole
from .._initializer import InitDesc, create as create_initializer
from .._metric import EvalMetric
from ..base import WrongShape
from ..context import Context, cpu
from ..initializer import Initializer, Uniform
from ..io._batches import DataDesc
from ..kvstore.kvstore import LOCAL_TYPES, KVStore
from ..model import load_checkpoint
from ..optimizer import adam, adaptive, contrib, sgd  # noqa: F401  # Which create() finds by their names.
from ..optimizer._optimizer import Optimizer, create
from ..optimizer.updater import Updater, get_updater
from . import _inputs
from ._executor_group import ExecutorGroup, GradReq, requests
from .base_module import SGD, Arrays, BaseModule, Params


class Module(BaseModule):
    """Trains and runs a symbol, whose arguments are data, labels, states and, all the others, parameters.

        module = mx.mod.Module(net, data_names=['data'], label_names=['softmax_label'])
        module.fit(mx.io.NDArrayIter(x, y, 64), num_epoch=3, optimizer_params={'learning_rate': 0.1})
        module.predict(mx.io.NDArrayIter(x, batch_size=64))

    `context` is a device, or a list of them, of which the first one computes the whole batch; what is asked for by device are parts
    of it, as many as there are devices. Parameters of `fixed_param_names` are not trained. `state_names` are inputs that
    `set_states` sets. The balance of loads is accepted and makes no difference.
    ValueError: the symbol has no argument of a name; of a label's name that is a warning.
    """

    def __init__(
        self,
        symbol: "sym.Symbol",
        data_names: Optional[Sequence[str]] = ("data",),
        label_names: Optional[Sequence[str]] = ("softmax_label",),
        logger: Any = logging,
        context: Union[None, Context, Sequence[Context]] = None,
        work_load_list: Any = None,
        fixed_param_names: Optional[Sequence[str]] = None,
        state_names: Optional[Sequence[str]] = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger)
        if compression_params is not None:
            raise ValueError("Module: gradients are not compressed; compression_params must be None.")
        if group2ctxs:
            warn_once("Module(group2ctxs=...) changes nothing: a graph runs on one device")
        contexts = [context] if isinstance(context, Context) else list(context or []) or [cpu()]
        self._context, self._devices = contexts[0], len(contexts)
        self._symbol = symbol
        self._data_names = _inputs.check_names(symbol, data_names or (), "data")
        self._label_names = _inputs.check_names(symbol, label_names or (), "label", needed=False)
        self._state_names = _inputs.check_names(symbol, state_names or (), "state")
        self._fixed_param_names = _inputs.check_names(symbol, fixed_param_names or (), "fixed_param")
        inputs = self._data_names + self._label_names + self._state_names
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._exec_group: Optional[ExecutorGroup] = None
        self._unbound: Params = ({}, {})  # The parameters' values while no arrays hold them.
        self._grad_req: GradReq = "write"
        self._optimizer: Optional[Optimizer] = None
        self._updater: Optional[Updater] = None
        self._kvstore: Optional[KVStore] = None  # As in MXNet it is None where there is one device, and has the updater.
        self._numbers: Dict[str, int] = {}  # The optimizer's index of each parameter.
        self._states_file: Optional[str] = None  # It is read when there is an optimizer.

    # Files.

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> "Module":
        """The module of a checkpoint, to be bound. kwargs: of `Module`."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._unbound = (arg_params, aux_params)
        module.params_initialized = True
        if load_optimizer_states:
            module._states_file = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True) -> None:
        """Writes `prefix-symbol.json`, `prefix-0001.params` and, if asked for, `prefix-0001.states`."""
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        name = f"{prefix}-{epoch:04d}"
        self.save_params(f"{name}.params")
        logging.info('Saved checkpoint to "%s"', f"{name}.params")
        if save_optimizer_states:
            self.save_optimizer_states(f"{name}.states")
            logging.info('Saved optimizer state to "%s"', f"{name}.states")

    def save_optimizer_states(self, fname: str) -> None:
        """Writes the optimizer's states, in gluond's format."""
        write_whole(fname, [self._trained_by().get_states()])

    def load_optimizer_states(self, fname: str) -> None:
        """Takes the states of such a file."""
        updater = self._trained_by()
        with open(fname, "rb") as file:
            updater.set_states(file.read())

    # Names and shapes.

    @property
    def data_names(self) -> List[str]:
        """The names of the data."""
        return self._data_names

    @property
    def label_names(self) -> List[str]:
        """The names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> List[str]:
        """The names of the outputs."""
        return self._symbol.list_outputs()

    @property
    def data_shapes(self) -> List[Any]:
        """The DataDescs (name, shape) of the data."""
        return self._bound().data_shapes

    @property
    def label_shapes(self) -> Optional[List[Any]]:
        """The DataDescs (name, shape) of the labels; None where there are none."""
        self._bound()
        return self._label_shapes

    @property
    def _label_shapes(self) -> Optional[List[Any]]:
        """As label_shapes; None before `bind`, to which programs give it."""
        return None if self._exec_group is None else self._exec_group.label_shapes or None

    @property
    def output_shapes(self) -> List[Tuple[str, Tuple[int, ...]]]:
        """(name, shape) of each output."""
        return [(name, array.shape) for name, array in zip(self.output_names, self._bound().executor.outputs)]

    @property
    def _total_exec_bytes(self) -> int:
        """The memory of the arrays that it is bound to."""
        return self._bound().bytes

    # Setup.

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Optional["Module"] = None,
        grad_req: GradReq = "write",
    ) -> None:
        """Makes arrays for batches of these shapes: DataDescs, or (name, shape). A bound module stays as it is.

        With `force_rebind` it is bound anew, and keeps its parameters. `shared_module` is one whose parameters, and optimizer,
        this one uses. `inputs_need_grad`: gradients of the data are computed. grad_req: 'write', 'add' or 'null'.
        """
        if self._stays_bound(force_rebind):
            return
        if self.binded:
            self._unbound = self.get_params() if self.params_initialized else ({}, {})
            self.binded, self._exec_group = False, None
        if inputs_need_grad and not for_training:
            raise AssertionError("Module.bind: inputs_need_grad needs for_training=True.")
        if shared_module is not None:
            shared_module._expect()
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._exec_group = self._group_for(data_shapes, label_shapes, None if shared_module is None else shared_module._exec_group)
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            self._exec_group.executor.copy_params_from(*self._unbound)
        self._unbound = ({}, {})

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Binds for batches of other shapes, with the same parameters. WrongShape: parameters would change their shapes."""
        before = self._bound()
        self._exec_group = self._group_for(data_shapes, label_shapes, before)
        self._exec_group.executor.watched_as(before.executor)

    def _group_for(self, data_shapes: Any, label_shapes: Any, shared: Optional[ExecutorGroup]) -> ExecutorGroup:
        data, labels = _inputs.described(self._data_names, self._label_names, data_shapes, label_shapes)
        inputs = self._data_names if self.inputs_need_grad else []
        asked = requests(self._symbol, self._grad_req, self._param_names, self._fixed_param_names, inputs, self.for_training)
        return ExecutorGroup(self._symbol, self._context, data, labels, self._param_names, asked, shared)

    def _bound(self) -> ExecutorGroup:
        if self._exec_group is None:
            raise AssertionError("Module: call bind() first.")
        return self._exec_group

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Union[str, Optimizer] = "sgd",
        optimizer_params: Any = SGD,
        force_init: bool = False,
    ) -> None:
        """Takes an optimizer, a name with parameters or an instance. By a name it divides gradients by the batch size.

        It knows the parameters' names and the symbol's `lr_mult` and `wd_mult`; biases, gamma and beta do not decay by MXNet's
        rules. `kvstore` names of one machine, or a KVStore, are accepted. ValueError: any other.
        """
        self._expect()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if not (kvstore is None or isinstance(kvstore, KVStore) or kvstore in LOCAL_TYPES):
            raise ValueError(
                f"Module: there is no kvstore {kvstore!r}. gluond trains on one server; use 'device', 'local', "
                "'nccl', a KVStore or None."
            )
        scale = 1.0 / self._bound().batch_size
        names = dict(enumerate(self._param_names))
        if isinstance(optimizer, str):
            optimizer = create(
                optimizer, sym=self._symbol, param_idx2name=names, **{"rescale_grad": scale, **dict(optimizer_params or {})}
            )
        elif not isinstance(optimizer, Optimizer):
            raise AssertionError(f"Module.init_optimizer: optimizer is a name or an Optimizer, not {optimizer!r}.")
        else:
            if optimizer.rescale_grad != scale:
                warnings.warn(
                    "Optimizer created manually outside Module but rescale_grad is not normalized to 1.0/batch_size/"
                    f"num_workers ({optimizer.rescale_grad} vs. {scale}). Is this intended?",
                    stacklevel=2,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = names
        self._optimizer, self._updater = optimizer, get_updater(optimizer)
        self._kvstore = kvstore if isinstance(kvstore, KVStore) else KVStore(kvstore) if kvstore and self._devices > 1 else None
        if self._kvstore is not None:
            self._kvstore.set_updater(self._updater)
        self._numbers = {name: number for number, name in names.items()}
        self.optimizer_initialized = True
        if self._states_file is not None:
            self.load_optimizer_states(self._states_file)
            self._states_file = None

    def borrow_optimizer(self, shared_module: "Module") -> None:
        """Uses another module's optimizer, with its states."""
        shared_module._expect(optimizer=True)
        self._optimizer, self._updater, self._kvstore = shared_module._optimizer, shared_module._updater, shared_module._kvstore
        self._numbers = shared_module._numbers
        self.optimizer_initialized = True

    def _trained_by(self) -> Updater:
        if self._updater is None:
            raise AssertionError("Module: call init_optimizer() first.")
        return self._updater

    # Parameters.

    def get_params(self) -> Params:
        """Copies of the parameters and of the auxiliary states, by name, on the CPU."""
        if not self.params_initialized:
            raise AssertionError("Module: call init_params() first.")
        if self._exec_group is None:
            return self._unbound
        return (
            {name: array.copyto(cpu()) for name, array in self._exec_group.params.items()},
            {name: array.copyto(cpu()) for name, array in self._exec_group.executor.aux_dict.items()},
        )

    def init_params(
        self,
        initializer: Union[None, str, Initializer] = Uniform(0.01),
        arg_params: Optional[Arrays] = None,
        aux_params: Optional[Arrays] = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Gives parameters the values of `arg_params`, and auxiliary states those of `aux_params`.

        Without these, or with `allow_missing` for those not in them, the initializer sets them. Initialized ones stay, unless
        `force_init`. RuntimeError: one is not in the dict. Names that are not the module's are ignored.
        """
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=2)
            return
        group = self._bound()
        if isinstance(initializer, str):
            initializer = create_initializer(initializer)
        attributes = self._symbol.attr_dict()
        for arrays, given in ((group.params, arg_params), (group.executor.aux_dict, aux_params)):
            for name, array in sorted(arrays.items()):
                if given is not None and name in given:
                    _assign(name, given[name], array)
                elif given is not None and not allow_missing:
                    raise RuntimeError(f"{name} is not presented")
                elif initializer is not None:
                    initializer(InitDesc(name, attributes.get(name)), array)
                elif given is None:
                    raise TypeError(f"Module: {name} has no value: give an initializer, or the values of all parameters.")
        self.params_initialized = True

    def set_params(
        self,
        arg_params: Optional[Arrays],
        aux_params: Optional[Arrays],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Gives parameters and auxiliary states values; with `allow_missing` the others stay as they are.

        RuntimeError: one is missing. ValueError, with `allow_missing` and without `allow_extra`: a name is not the module's.
        """
        if not allow_missing or not force_init:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        self._bound().executor.copy_params_from(arg_params or {}, aux_params, allow_extra_params=allow_extra)
        self.params_initialized = True

    def install_monitor(self, mon: Any) -> None:
        """Has a Monitor watch the module."""
        self._bound().install_monitor(mon)

    # A step.

    def forward(self, data_batch: Any, is_train: Optional[bool] = None) -> None:
        """Computes the outputs of a DataBatch; for training, if the module is bound for it, unless `is_train` is given.

        A batch of other shapes rebinds the module as `reshape` does.
        """
        self._expect()
        group = self._bound()
        label = getattr(data_batch, "label", None)
        if [tuple(desc.shape) for desc in group.data_shapes] != [tuple(array.shape) for array in data_batch.data]:
            self.reshape(
                getattr(data_batch, "provide_data", None) or _inputs.of_arrays(group.data_shapes, data_batch.data),
                self._labels_of(data_batch, label),
            )
            group = self._bound()
        group.load(data_batch.data, label)
        group.executor.forward(is_train=self.for_training if is_train is None else is_train)

    def _labels_of(self, data_batch: Any, label: Any) -> Any:
        """The descriptions of the labels of a batch that has other shapes."""
        known = self._bound().label_shapes
        if label:
            return getattr(data_batch, "provide_label", None) or _inputs.of_arrays(known, label)
        data = _inputs.of_arrays(self._bound().data_shapes, data_batch.data)
        return _inputs.of_batch_size(known, _inputs.batch_size(data)) or None

    def backward(self, out_grads: Union[None, NDArray, Sequence[NDArray]] = None) -> None:
        """Computes the gradients; `out_grads` is dL/d(output) for each output, where these are no losses."""
        self._compute_gradients(out_grads, once=False)

    def _compute_gradients(self, out_grads: Any, once: bool) -> None:
        self._expect()
        if not self.for_training:
            raise AssertionError("re-bind with for_training=True to run backward")
        grads = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or [])
        here = [grad.as_in_context(self._context) for grad in grads] or None
        executor = self._bound().executor
        if once:
            executor.backward_once(here)
        else:
            executor.backward(here)

    def update(self) -> None:
        """Changes the parameters by their gradients. Waits for nothing."""
        self._expect(optimizer=True)
        group, updater = self._bound(), self._trained_by()
        grads = group.executor.grad_dict
        names = [name for name in group.params if grads[name] is not None]
        indices = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        updater(indices, [grads[name] for name in names], [group.params[name] for name in names])

    def get_outputs(self, merge_multi_context: bool = True) -> List[Any]:
        """The outputs of the last batch; without `merge_multi_context` a list for each, of each device's."""
        self._expect()
        layouts = [self._symbol[place].attr("__layout__") for place in range(len(self._symbol))]
        return self._merged(self._bound().outputs, layouts, merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> List[Any]:
        """The gradients of the data of the last batch, likewise. AssertionError: it is bound without inputs_need_grad."""
        self._expect()
        if not self.inputs_need_grad:
            raise AssertionError("Module: bind with inputs_need_grad=True to have gradients of the data.")
        group = self._bound()
        return self._merged(
            [group.executor.grad_dict[desc.name] for desc in group.data_shapes],
            [desc.layout for desc in group.data_shapes],
            merge_multi_context,
        )

    def get_states(self, merge_multi_context: bool = True) -> List[Any]:
        """The inputs of `state_names`, likewise."""
        self._expect()
        states = [self._bound().executor.arg_dict[name] for name in self._state_names]
        return self._merged(states, [None] * len(states), merge_multi_context)

    def set_states(self, states: Optional[Sequence[Any]] = None, value: Optional[float] = None) -> None:
        """Sets the inputs of `state_names` to arrays, or lists of each device's as `get_states` gives them, or all to a number."""
        self._expect()
        if (states is None) == (value is None):
            raise AssertionError("Module.set_states: give either states or a value.")
        for place, name in enumerate(self._state_names):
            state = value if states is None else states[place]
            self._bound().executor.arg_dict[name][:] = nd.concat(*state, dim=0) if isinstance(state, (list, tuple)) else state

    def update_metric(self, eval_metric: EvalMetric, labels: Optional[Sequence[Any]], pre_sliced: bool = False) -> None:
        """Gives the metric the last batch's outputs and labels, by their names. Waits for their values.

        pre_sliced: `labels` is a list for each device.
        """
        group = self._bound()
        outputs = list(zip(*self.get_outputs(merge_multi_context=False))) if pre_sliced else [group.outputs]
        for each, some in zip(labels or [] if pre_sliced else [labels], outputs):
            eval_metric.update_dict(
                {desc.name: label for desc, label in zip(group.label_shapes, each or [])}, dict(zip(self.output_names, some))
            )

    def _merged(self, arrays: Sequence[NDArray], layouts: Sequence[Optional[str]], merge: bool) -> List[Any]:
        return (
            list(arrays)
            if merge
            else [_inputs.parts(array, DataDesc.get_batch_axis(layout), self._devices) for array, layout in zip(arrays, layouts)]
        )


def _assign(name: str, value: Any, array: NDArray) -> None:
    if tuple(value.shape) != array.shape:
        raise WrongShape(f"Module: {name} has the shape {array.shape}, but its new value has {tuple(value.shape)}.")
    if isinstance(value, NDArray):
        value.copyto(array)
    else:
        array[:] = value
