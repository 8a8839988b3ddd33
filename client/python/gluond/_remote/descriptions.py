"""The server's descriptions of models, and the text that people read."""

from __future__ import annotations

import datetime
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._attributes import text
from .._proto import graph_pb2
from .._wire.tensors import DTYPE_OF
from . import components, groups
from .groups import Placement


class Variable(NamedTuple):
    """An input, an output or a parameter. shape: None where nothing is known, -1 for a size that varies. kind: 'input',
    'parameter' or 'auxiliary'. grad_req: 'write', 'add' or 'null'. initialized: whether the model has a value for it."""

    name: str
    shape: Optional[Tuple[int, ...]]
    dtype: np.dtype
    kind: str
    grad_req: str
    lr_mult: float
    wd_mult: float
    initialized: bool


class TrainerDescription(NamedTuple):
    """A model's trainer. Losses and the like are shown with all their arguments: `sgd(learning_rate=0.1, ...)`."""

    loss: str
    optimizer: str
    lr_scheduler: Optional[str]
    metrics: List[str]
    prediction: str
    step: int
    learning_rate: float


class ModelDescription(NamedTuple):
    """A model. bytes: of all tensors that the server holds for it. version: counts the changes of its parameters. placement: None
    where one server trains it."""

    name: str
    device: str
    inputs: List[Variable]
    outputs: List[Variable]
    parameters: List[Variable]
    trainer: Optional[TrainerDescription]
    operators: int
    parameter_elements: int
    bytes: int
    version: int
    step: int
    created: datetime.datetime
    placement: Optional[Placement] = None


def _variable(proto: Any) -> Variable:
    dtype = DTYPE_OF[proto.dtype] if proto.HasField("dtype") else DTYPE_OF[0]
    return Variable(
        proto.name,
        tuple(proto.shape) or None,
        dtype,
        graph_pb2.Variable.Kind.Name(proto.kind).lower(),
        graph_pb2.Variable.GradReq.Name(proto.grad_req).lower(),
        proto.lr_mult if proto.HasField("lr_mult") else 1.0,
        proto.wd_mult if proto.HasField("wd_mult") else 1.0,
        proto.initialized,
    )


def of_trainer(proto: Any) -> TrainerDescription:
    """The description of a Trainer."""
    schedule = components.shown(proto.lr_scheduler) if proto.HasField("lr_scheduler") else None
    loss = components.shown(proto.loss) if proto.HasField("loss") else f"the output {proto.loss_output}"
    metrics = [components.shown(each) for each in proto.metrics]
    return TrainerDescription(
        loss, components.shown(proto.optimizer), schedule, metrics, proto.prediction, proto.step, proto.learning_rate
    )


def of_model(proto: Any, trainer: Any = None) -> ModelDescription:
    """The description of a Model and its Trainer."""
    created = datetime.datetime.fromtimestamp(proto.created.seconds, datetime.timezone.utc)
    return ModelDescription(
        proto.name,
        proto.device,
        [_variable(each) for each in proto.inputs],
        [_variable(each) for each in proto.outputs],
        [_variable(each) for each in proto.parameters],
        None if trainer is None else of_trainer(trainer),
        proto.node_count,
        proto.parameter_elements,
        proto.tensor_bytes,
        proto.version,
        proto.step,
        created,
        groups.placement_of(proto),
    )


def _table(rows: Sequence[Sequence[str]]) -> List[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _shape(variable: Variable) -> str:
    if variable.shape is None:
        return "any shape"
    return text(tuple(variable.shape)).replace("-1", "?")


def _type(variable: Variable) -> str:
    return "bfloat16" if variable.dtype.names else variable.dtype.name


def _facts(variable: Variable) -> str:
    """The properties that are not as usual."""
    facts = [] if variable.kind == "parameter" else [variable.kind]
    if variable.kind == "parameter" and variable.grad_req != "write":
        facts.append("fixed" if variable.grad_req == "null" else "gradients add up")
    multipliers = (("lr_mult", variable.lr_mult), ("wd_mult", variable.wd_mult))
    facts += [f"{name} {value:g}" for name, value in multipliers if value != 1]
    return ", ".join(facts + ([] if variable.initialized else ["no value yet"]))


def table(of: ModelDescription) -> str:
    """A description for people."""
    lines = [
        f"Model '{of.name}' on {of.device}, made {of.created:%Y-%m-%d %H:%M} UTC",
        f"  {of.operators} operators, {of.parameter_elements:,} trained numbers, {of.bytes:,} bytes on the server, "
        f"version {of.version}",
    ]
    if of.placement is not None:
        lines.append(f"  trained by a group of servers, in {of.placement.virtual_shards} virtual shards")
    for title, variables in (("Inputs", of.inputs), ("Outputs", of.outputs)):
        lines += [title, *_table([(each.name, _shape(each), _type(each)) for each in variables])]
    lines += ["Parameters", *_table([(each.name, _shape(each), _type(each), _facts(each)) for each in of.parameters])]
    if of.trainer is None:
        return "\n".join([*lines, "No trainer: create_trainer() makes one"])
    rows = {
        "loss": of.trainer.loss,
        "optimizer": of.trainer.optimizer,
        "lr_scheduler": of.trainer.lr_scheduler,
        "metrics": ", ".join(of.trainer.metrics),
        "reads": of.trainer.prediction,
        "steps": f"{of.trainer.step:,}",
        "learning rate": f"{of.trainer.learning_rate:g}",
    }
    return "\n".join([*lines, "Trainer", *_table([(key, value) for key, value in rows.items() if value])])


def by_name(variables: Sequence[Variable]) -> Dict[str, Variable]:
    """Variables by their names."""
    return {each.name: each for each in variables}
