"""Losses, optimizers, schedules, metrics and initializers of this package as the server's Components.

A Component has the name and the arguments of the class here: `gluon.loss.HuberLoss(rho=2)` becomes
`{"name": "HuberLoss", "attributes": {"rho": 2, ...}}`. Which of them the server has, and with which arguments, it says
itself when it gets one. A class of the program's own is refused here: no other process could compute it.
"""

from __future__ import annotations

import inspect
import json
from typing import Any, Iterable, List, Mapping, Optional, Tuple, Union

import numpy as np

from .. import lr_scheduler
from .._initializer import Initializer
from .._initializer import create as create_initializer
from .._metric import EvalMetric
from .._metric_classes import Accuracy, TopKAccuracy
from .._metric_values import Loss as LossMetric
from .._proto import graph_pb2
from ..base import MXNetError
from ..gluon import loss as losses
from ..gluon.loss import Loss
from ..optimizer._optimizer import Optimizer
from ..optimizer._optimizer import create as create_optimizer

PACKAGE = __name__.partition(".")[0]
# Arguments of optimizers that a server's trainer decides in another way, or has no use for.
_NOT_SENT = frozenset(
    ("self", "kwargs", "rescale_grad", "param_idx2name", "lr_scheduler", "sym", "begin_num_update", "param_dict", "lazy_update")
)
# Arguments whose attribute has another name.
_KEPT_AS = {"learning_rate": "lr", "eps": "float_stable_eps", "pwr": "power"}
_OF_ALL_SCHEDULES = ("warmup_steps", "warmup_begin_lr", "warmup_mode")


def component(name: str, attributes: Optional[Mapping[str, Any]] = None) -> Any:
    """The Component of this name. An attribute that is None is left out: it has the server's default."""
    made = graph_pb2.Component(name=name)
    for key, value in (attributes or {}).items():
        if value is not None:
            _set(made.attributes[key], value, f"{name}: {key}")
    return made


def _set(target: Any, value: Any, where: str) -> None:
    """Fills a google.protobuf.Value."""
    if isinstance(value, (bool, np.bool_)):
        target.bool_value = bool(value)
    elif isinstance(value, (int, np.integer)) and abs(int(value)) >= 1 << 53:
        target.string_value = str(value)  # A double would lose its last digits.
    elif isinstance(value, (int, float, np.number)):
        target.number_value = float(value)
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, (list, tuple)):
        target.list_value.SetInParent()
        for item in value:
            _set(target.list_value.values.add(), item, where)
    else:
        raise MXNetError(f"{where} is {value!r}; the server takes numbers, texts, and lists of these")


def value_of(value: Any) -> Any:
    """The Python value of a google.protobuf.Value."""
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [value_of(item) for item in value.list_value.values]
    found: Any = getattr(value, kind) if kind not in (None, "null_value") else None
    return int(found) if kind == "number_value" and found.is_integer() else found


def shown(made: Any) -> str:
    """`sgd(learning_rate=0.1, momentum=0.9)`, of a Component."""
    return f"{made.name}({', '.join(f'{key}={value_of(made.attributes[key])}' for key in sorted(made.attributes))})"


def _arguments(kind: type) -> Iterable[str]:
    """The names of a class's arguments, its bases' that it hands on among them."""
    for base in kind.__mro__:
        if "__init__" in base.__dict__:
            parameters = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            yield from (each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                return


def _argument(of: Any, key: str) -> Any:
    """The argument that an object was made with, as it is by now."""
    kept = _KEPT_AS.get(key, key)
    return getattr(of, kept if hasattr(of, kept) else key, None)


def _is_known(value: Any, module: str) -> bool:
    return type(value).__module__.startswith(f"{PACKAGE}.{module}")


def loss(of: Union[Loss, str, Any]) -> Any:
    """The Component of a loss: a gluon.loss.Loss, the name of one, or a Component. MXNetError: only this program knows
    it."""
    if isinstance(of, str):
        return component(of)
    if isinstance(of, graph_pb2.Component):
        return of
    if not isinstance(of, Loss):
        raise MXNetError(f"the loss is {_kind(of)}; want a loss of gluon.loss, or its name: 'SoftmaxCrossEntropyLoss'")
    if not _is_known(of, "gluon.loss"):
        raise MXNetError(
            f"the loss {type(of).__name__} is of this program, and the server cannot compute it; use a loss of "
            "gluon.loss, or make the loss an output of the network and give its name as loss_output"
        )
    attributes = {
        name: getattr(of, f"_{name}", getattr(of, name, None))
        for name in _arguments(type(of))
        if name not in ("self", "prefix", "params")
    }
    if type(of) is losses.L2Loss and of._weight is None:
        attributes["weight"] = 2.0  # It has no factor of 1/2 then.
    return component(type(of).__name__, attributes)


def optimizer(of: Union[Optimizer, str, Any], parameters: Optional[Mapping[str, Any]] = None) -> Tuple[Any, Any]:
    """The Components of an optimizer and of its schedule (None: it has none). of: an Optimizer, a name with parameters
    as gluon.Trainer takes them, or a Component. MXNetError: only this program knows it."""
    if isinstance(of, graph_pb2.Component):
        return of, None
    if isinstance(of, str):
        if of.lower() not in Optimizer.opt_registry:  # type: ignore[attr-defined]  # The server has more than this package.
            return component(of.lower(), parameters), None
        of = create_optimizer(of, **(parameters or {}))
    elif parameters:
        raise MXNetError("optimizer_params belong to an optimizer's name; an Optimizer has its own")
    if not isinstance(of, Optimizer):
        raise MXNetError(f"the optimizer is {_kind(of)}; want one of mx.optimizer, or its name: 'sgd'")
    name = type(of).__name__
    if not _is_known(of, "optimizer"):
        raise MXNetError(
            f"the optimizer {name} is of this program, and the server cannot compute it; use one of "
            "mx.optimizer, or save without the trainer and train with autograd.record()"
        )
    attributes = {key: _argument(of, key) for key in _arguments(type(of)) if key not in _NOT_SENT}
    return component(name.lower(), attributes), None if of.lr_scheduler is None else scheduler(of.lr_scheduler, of.lr)


_SCHEDULES = {
    lr_scheduler.FactorScheduler: ("factor", ("step", "factor", "stop_factor_lr")),
    lr_scheduler.MultiFactorScheduler: ("multifactor", ("step", "factor")),
    lr_scheduler.PolyScheduler: ("poly", ("max_update", "pwr", "final_lr")),
    lr_scheduler.CosineScheduler: ("cosine", ("max_update", "final_lr")),
}


def scheduler(of: Any, learning_rate: float) -> Any:
    """The Component of a schedule. learning_rate: the optimizer's, which may have taken the place of the schedule's."""
    if isinstance(of, graph_pb2.Component):
        return of
    name, keys = _SCHEDULES.get(type(of), ("", ()))
    if not name:
        raise MXNetError(
            f"the schedule {type(of).__name__} is of this program, and the server cannot compute it; use one of " "mx.lr_scheduler"
        )
    base = _first_rate(of, learning_rate)
    if of.warmup_steps > 0 and of.warmup_final_lr != base:
        raise MXNetError(
            f"{type(of).__name__} warms up to {of.warmup_final_lr} and goes on from {base}, which a server's "
            "schedule does not; give it base_lr, and the optimizer no learning_rate or the same one"
        )
    attributes = {key: _argument(of, key) for key in (*keys, *_OF_ALL_SCHEDULES)}
    return component(name, {**attributes, "base_lr": base})


def _first_rate(of: Any, learning_rate: float) -> float:
    """The rate that a schedule began with; one that multiplies its rate does not keep it."""
    if hasattr(of, "base_lr_orig"):
        return of.base_lr_orig
    changes = of.cur_step_ind if hasattr(of, "cur_step_ind") else of.count // of.step
    for begun in (of.base_lr, of.warmup_final_lr, learning_rate) if changes == 0 else (of.warmup_final_lr, learning_rate):
        rate = begun
        for _ in range(changes):
            rate = max(rate * of.factor, getattr(of, "stop_factor_lr", 0.0))
        if rate == of.base_lr:
            return begun
    raise MXNetError(
        f"the rate of {type(of).__name__} has been set by the program, to {of.base_lr} after {changes} changes, "
        "and the server could not go on from there; save with a schedule whose rate only it changes"
    )


_METRICS = {Accuracy: ("accuracy", ()), TopKAccuracy: ("top_k_accuracy", ("top_k",)), LossMetric: ("loss", ())}


def metrics(of: Any) -> List[Any]:
    """The Components of metrics: names, mx.metric's, Components, or a list of these."""
    if of is None:
        return []
    if isinstance(of, (list, tuple)):
        return [each for item in of for each in metrics(item)]
    if isinstance(of, graph_pb2.Component):
        return [of]
    if isinstance(of, str):
        return [component(of)]
    if type(of) in _METRICS:
        name, keys = _METRICS[type(of)]
        return [component(name, {key: getattr(of, key) for key in keys})]
    is_metric = isinstance(of, EvalMetric)
    what = f"the metric {type(of).__name__} is none of the server's" if is_metric else f"{_kind(of)} is no metric"
    raise MXNetError(
        f"{what}; there are 'accuracy', 'top_k_accuracy' and 'loss'. Others are computed here, of what predict() " "returns"
    )


def initializer(of: Any) -> Any:
    """The Component of an initializer: an Initializer, or its name."""
    if isinstance(of, graph_pb2.Component):
        return of
    made = create_initializer(of)
    if not isinstance(made, Initializer) or not _is_known(made, "initializer"):
        raise MXNetError(
            f"the initializer {type(made).__name__} is of this program, and the server cannot compute it; "
            "initialize the network here, with net.initialize()"
        )
    _, arguments = json.loads(made.dumps())
    return component(type(made).__name__, arguments)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
