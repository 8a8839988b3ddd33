"""Optimizer: the base of all optimizers. An update is operators on the server; the client sends only their names."""
from __future__ import annotations

import warnings
from typing import Any, Dict, Optional, Tuple, Type, Union

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from .._registry import Registry
from ..lr_scheduler import LRScheduler
from ._on_server import ServerKind

State = Any  # None, an NDArray, or a nested tuple of them.


class Optimizer:
    """Base class: learning rate, weight decay, and the multipliers of both for each parameter.

    `rescale_grad` multiplies every gradient; the Trainer sets it to 1 / batch size. `clip_gradient` limits each element
    to [-clip_gradient, clip_gradient]. `wd` is the weight decay, `lr_scheduler` gives the learning rate by the number of
    updates. With `multi_precision`, float16 weights have a float32 copy, which is what is updated. `param_idx2name` and
    `param_dict` (index to Parameter) are where multipliers come from.

    An own optimizer overrides `create_state` and `update`, and is registered with `@mx.optimizer.register`. One that sets
    `aggregate_num` gets lists of so many weights of one dtype at once, with lists of their indices, gradients and states.
    """

    _on_server: Optional[ServerKind] = None  # The server's optimizer that takes the same steps.
    _keeps_weight_last = False  # Whether the state of a float16 weight has its float32 copy last.

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Optional[Dict[int, str]] = None,
        wd: float = 0.0,
        clip_gradient: Optional[float] = None,
        learning_rate: Optional[float] = None,
        lr_scheduler: Optional[LRScheduler] = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Optional[Dict[int, Any]] = None,
    ) -> None:
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is not None and learning_rate is not None:
            if lr_scheduler.base_lr != learning_rate:
                warnings.warn(
                    UserWarning("learning rate from ``lr_scheduler`` has been overwritten by " "``learning_rate`` in optimizer."),
                    stacklevel=3,
                )
            lr_scheduler.base_lr = learning_rate
        self.lr = 0.01 if learning_rate is None else learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._index_update_count: Dict[int, int] = {}
        if not isinstance(param_idx2name, (dict, type(None))):
            raise AssertionError("param_idx2name should be a dict of param indexes to names.")
        self.idx2name = dict(param_idx2name or {})
        self.param_dict = param_dict or {}
        self.sym_info = () if sym is None else (sym.attr_dict(), sym.list_arguments())
        self.lr_mult: Dict[Any, float] = {}
        self.wd_mult: Dict[Any, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    # By name.

    @staticmethod
    def register(klass: Type["Optimizer"]) -> Type["Optimizer"]:
        """Class decorator: `create` finds the class by its lower-case name."""
        return _registry.register(klass)

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> "Optimizer":
        """The optimizer of that name."""
        return _registry.create(name, **kwargs)

    # An optimizer's computations.

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The state that is kept for one parameter from step to step."""
        return None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Changes `weight` and `state` in place."""
        raise NotImplementedError(f"{type(self).__name__} has no update(self, index, weight, grad, state).")

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> State:
        """As `create_state`, with a float32 copy of a float16 weight if `multi_precision`."""
        if self._is_half(weight):
            if self.multi_precision:
                master = weight.astype("float32")
                return (master, self.create_state(index, master))
            warnings.warn(
                "Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. Consider "
                f"using multi_precision=True option of the {type(self).__name__} optimizer",
                stacklevel=3,
            )
        return self.create_state(index, weight)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """As `update`, on the float32 copy where there is one."""
        if not self.multi_precision or not self._is_half(weight):
            self.update(index, weight, grad, state)
        elif isinstance(weight, (list, tuple)):  # An update of the program's own takes lists.
            masters, inner = [list(column) for column in zip(*state)]  # type: ignore[arg-type]
            self.update(index, masters, [each.astype("float32") for each in grad], inner)  # type: ignore[arg-type]
            for master, half in zip(masters, weight):
                ndarray.cast(master, dtype="float16", out=half)
        else:
            master, inner = state
            self.update(index, master, grad.astype("float32"), inner)
            ndarray.cast(master, dtype="float16", out=weight)

    def _takes_lists(self) -> bool:
        """Whether an update of the program's own takes lists."""
        return self.aggregate_num > 0 and self._has_own_update()

    def _has_own_update(self) -> bool:
        library, updates = __name__.partition(".")[0], (self.update, self.update_multi_precision)
        return any(getattr(update, "__module__", "").partition(".")[0] != library for update in updates)

    @staticmethod
    def _is_half(weight: Any) -> bool:
        """Whether the weight, or those of a list, are float16."""
        return np.dtype((weight[0] if isinstance(weight, (list, tuple)) else weight).dtype) == np.float16

    def leaves_rows(self, index: Any) -> bool:
        """Whether rows of a weight without a gradient stay as they are: MXNet's rule for gradients that are row_sparse."""
        is_sparse = getattr(self.param_dict.get(index), "grad_stype", "default") == "row_sparse"
        return is_sparse and getattr(self, "lazy_update", False)

    # Learning rate and weight decay.

    @property
    def learning_rate(self) -> float:
        """The current one, before multipliers."""
        return self.lr_scheduler(self.num_update) if self.lr_scheduler is not None else self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Sets it, where no scheduler does."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that set_learning_rate can "
                "mutate the value of the learning rate of the optimizer only when the LRScheduler of the "
                "optimizer is undefined."
            )
        self.lr = lr

    def set_lr_mult(self, args_lr_mult: Dict[Any, float]) -> None:
        """Multipliers of the learning rate, by index or name; those of the symbol's `__lr_mult__` otherwise."""
        self.lr_mult = {**self._of_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Dict[Any, float]) -> None:
        """Multipliers of the weight decay. Named parameters that are no `_weight` or `_gamma` have 0."""
        undecayed = {name: 0.0 for name in self.idx2name.values() if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**undecayed, **self._of_symbol("__wd_mult__"), **args_wd_mult}

    def _of_symbol(self, key: str) -> Dict[str, float]:
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {name: float(attributes[name][key]) for name in names if key in attributes.get(name, {})}

    def _multiplier(self, index: Any, attribute: str, multipliers: Dict[Any, float]) -> float:
        if index in self.param_dict:
            return getattr(self.param_dict[index], attribute)
        if index in multipliers:
            return multipliers[index]
        return multipliers.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index: Any) -> float:
        return float(self.learning_rate) * float(self._multiplier(index, "lr_mult", self.lr_mult))

    def _get_wd(self, index: Any) -> float:
        return float(self.wd) * float(self._multiplier(index, "wd_mult", self.wd_mult))

    def _name(self, index: Any) -> str:
        """The name of a weight."""
        return self.param_dict[index].name if index in self.param_dict else self.idx2name.get(index, str(index))

    def _update_count(self, index: Any) -> int:
        """Counts one update of this parameter; returns their number."""
        count = self._index_update_count.get(index, self.begin_num_update) + 1
        self._index_update_count[index] = count
        self.num_update = max(count, self.num_update)
        return count

    def _note_step(self, index: Any, count: int) -> None:
        """Keeps the numbers that the update of this count leaves to the next one."""

    # For the updates.

    def _begin(self, index: Any) -> Tuple[int, float, float]:
        """Counts, and returns (number of this update, learning rate, weight decay)."""
        count = self._update_count(index)
        return count, self._get_lr(index), self._get_wd(index)

    def _step(self, operator: str, *arrays: NDArray, **attributes: Any) -> None:
        """A call of an update operator on weight, gradient and states, which changes weight and states."""
        getattr(ndarray, operator)(*arrays, out=arrays[0], **attributes)

    def _begin_rates(self, index: Any) -> Dict[str, float]:
        """Counts, and returns the numbers that every update operator takes."""
        _, lr, wd = self._begin(index)
        return {"lr": lr, "wd": wd, "rescale_grad": float(self.rescale_grad)}

    def _clip(self, name: str = "clip_gradient") -> Dict[str, float]:
        """The limit of gradients as an operator's attribute, if there is one."""
        return {name: float(self.clip_gradient)} if self.clip_gradient else {}

    def _scaled(self, grad: NDArray) -> NDArray:
        """clip(rescale_grad grad), for optimizers that are made of elementwise operators."""
        return self._clipped(grad * float(self.rescale_grad))

    def _clipped(self, grad: NDArray) -> NDArray:
        return grad if self.clip_gradient is None else ndarray.clip(grad, -self.clip_gradient, self.clip_gradient)


def zeros_of(weight: NDArray) -> NDArray:
    """Zeros of the weight's shape, dtype and device."""
    return ndarray.zeros(weight.shape, ctx=weight.context, dtype=np.dtype(weight.dtype).name)


_registry: Registry[Optimizer] = Registry(Optimizer, "optimizer")
Optimizer.opt_registry = _registry.classes  # type: ignore[attr-defined]


def register(klass: Type[Optimizer]) -> Type[Optimizer]:
    """Class decorator: `create` finds the class by its lower-case name."""
    return _registry.register(klass)


def create(name: Union[str, Optimizer], **kwargs: Any) -> Optimizer:
    """The optimizer of that name, or itself."""
    return _registry.create(name, **kwargs)
