"""A Block and its trainer as a model of the server, without a download: `Block.save_as_model`."""

from __future__ import annotations

from typing import Any, List, Optional

from .._array.array import NDArray
from .._attributes import warn_once
from .._proto import command_pb2
from .._wire import connect, encoding
from .._wire.encoding import number_of
from ..base import MXNetError
from ..gluon.trainer import Trainer
from ..symbol import _server
from . import arrays, graphs, groups, states
from .blocks import remember
from .graphs import Traced
from .model import Model
from .trainers import fill_trainer


def save_as_model(
    block: Any,
    name: str,
    loss: Any = None,
    trainer: Optional[Trainer] = None,
    metrics: Any = None,
    inputs: graphs.Shapes = None,
    replace: bool = False,
    seed: int = 0,
    group: bool = False,
    virtual_shards: Optional[int] = None,
) -> Model:
    """Saves a HybridBlock as a model of the server, which every client can then ask, train on and save.

        model = net.save_as_model("digits", loss=loss_of, trainer=trainer)
        model.fit(images, labels)                   # Goes on where the loop with `trainer.step` has ended.

    No value is downloaded: the server takes graph, parameters and the trainer's states as they are. Afterwards neither
    changes the other. Returns the model (see `mx.remote.Model`). `loss` and `trainer`, a gluon.Trainer of the Block's
    parameters, become the model's trainer. inputs: their shapes, with -1 for a size that varies; default: as in the
    first run after hybridize(), with another batch. replace: replaces a model of that name. seed: of its random numbers.

    group: the model is trained by all servers of the group that this one leads (`gluond serve --group`; `mx.remote.group()` tells of
    it). virtual_shards: the parts into which the rows of a batch are cut, a power of two. Equal numbers give equal bits, however
    many servers compute; default: the largest power of two of servers that the group may have, which is also the least number.

    MXNetError: what of it the server cannot have, and what to do; the server leads no group; virtual_shards without a group.
    """
    placement = groups.requested(group, virtual_shards)
    if (loss is None) != (trainer is None):
        raise MXNetError(
            "a model's trainer needs both: save_as_model(name, loss=loss, trainer=trainer); without both, the "
            "model has none, and create_trainer() gives it one"
        )
    traced = graphs.trace(block, inputs)
    _check_values(block, traced)
    values = arrays.of_parameters(traced.parameters)
    session = connect.current()
    command = command_pb2.Command.SaveAsModel(
        model=name,
        replace=replace,
        graph=session.new_call(),
        outputs=traced.outputs,
        seed=seed,
        device=next(iter(values.values()))._context._device if values else "",
        placement=placement,
    )
    command.inputs.extend(each.variable() for each in traced.inputs)
    trained = None if trainer is None else {id(parameter) for parameter in trainer._params}
    for key, parameter in traced.parameters.items():
        variable = graphs.declaration(key, parameter, key in traced.auxiliary, trained is None or id(parameter) in trained)
        command.parameters.add(variable=variable, array=number_of(values[key]._sent()))
    kept = [] if trainer is None else _add_trainer(command, traced, loss, trainer, metrics)
    _server.will_run(session, {node.custom.op_type for node in traced.graph.nodes if node.op == "Custom"})
    session.submit(
        encoding.message(
            encoding.DEFINE_GRAPH,
            command_pb2.Command.DefineGraph(graph=command.graph, definition=traced.graph, inputs=traced.variables),
        )
    )
    try:
        saved = session.request(encoding.message(encoding.SAVE_AS_MODEL, command)).model
    finally:
        kept.clear()
        if session.is_open:
            session.submit(encoding.message(encoding.FREE, command_pb2.Command.Free(graphs=[command.graph])))
    remember(block, name, saved.version)
    return Model(name)


def _check_values(block: Any, traced: Traced) -> None:
    """MXNetError: a parameter has no value yet."""
    for parameter in traced.parameters.values():
        if parameter._data is None and parameter._deferred is not None:
            raise MXNetError(
                f"'{block.name}': the parameter '{parameter.name}' gets its value in the first run, which tells "
                "its shape; run the network once, net(data), before it is saved"
            )
        if parameter._data is None:
            raise MXNetError(
                f"'{block.name}': the parameter '{parameter.name}' has no value; call net.initialize(), or make "
                "the model with mx.remote.Model.define, which draws values on the server"
            )


def _add_trainer(command: Any, traced: Traced, loss: Any, trainer: Trainer, metrics: Any) -> List[NDArray]:
    """Fills the trainer's fields. Returns arrays that must live until the server has answered."""
    optimizer = trainer.optimizer
    if trainer._scale != 1:
        raise MXNetError(
            f"the optimizer's rescale_grad is {trainer._scale}, and a server's trainer divides gradients by the "
            "batch alone; give the factor to the loss instead, as its weight"
        )
    fill_trainer(command.trainer, loss, optimizer, metrics=metrics)
    names = {id(parameter): key for key, parameter in traced.parameters.items()}
    kept: List[NDArray] = []
    command.step = optimizer.num_update
    for place, parameter in enumerate(trainer._params):
        key = names.get(id(parameter))
        if key is None or parameter.grad_req == "null":
            continue
        if optimizer.leaves_rows(place):
            warn_once(
                f"save_as_model: the parameter '{parameter.name}' is made with sparse_grad=True (grad_stype='row_sparse'), and "
                "a server's trainer updates all of its rows, with weight decay and momentum",
                4,
            )
        updates = optimizer._index_update_count.get(place, optimizer.begin_num_update)
        if updates != command.step:
            command.updates[key] = updates
        if place in trainer._updaters[0].states:
            is_half = optimizer._is_half(parameter.list_data()[0])
            for state, array in states.states(optimizer, place, trainer._updaters[0].states[place], is_half).items():
                command.states.add(name=f"{key}/{state}", array=number_of(array._sent()))
                kept.append(array)
    return kept
