"""Model: a model of the server, by its name."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .._proto import checkpoint_pb2, dataset_pb2, model_pb2, parameters_pb2, tensor_pb2, trainer_pb2, training_pb2
from ..base import MXNetError
from ..context import Context
from ..gluon._hybrid_block import HybridBlock
from ..gluon._symbol_block import SymbolBlock
from ..gluon.trainer import Trainer as GluonTrainer
from . import (
    arrays,
    blocks,
    calls,
    components,
    datasets,
    descriptions,
    graphs,
    groups,
    inference,
    methods,
    program,
    training,
    values,
    versions,
)
from .calls import CallError
from .datasets import Dataset
from .descriptions import ModelDescription, TrainerDescription
from .program import Program
from .trainers import fill_trainer
from .training import Callback, Epochs, History, Step
from .values import Arrays
from .versions import VersionDescription

__all__ = ["CheckpointDescription", "Model", "models"]

# Bytes of a message for what is not values.
_MARGIN = 1 << 16


class CheckpointDescription(NamedTuple):
    """A checkpoint in the server's store. step: the steps that its trainer had taken."""

    name: str
    step: int
    bytes: int
    has_trainer: bool


class Model:
    """A model of the server, by its name: any client's, and whatever made it.

        model = mx.remote.Model("digits")
        scores = model.predict(images)
        history = model.fit(train_images, train_labels, epochs=3)
        model.save_checkpoint()
        net = model.block()

    Each method is one call or several, applied exactly once even if the connection breaks. Data is one array (NDArray,
    numpy array or list), or several for a model of several inputs: a list in the order of `describe().inputs`, or a dict by
    their names. numpy arrays and lists give numpy arrays back, NDArrays give NDArrays.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._summary = ""
        self._described: Any = None
        self._configs: Dict[str, inference.Config] = {}

    def __repr__(self) -> str:
        return f"<Model '{self.name}'{self._summary}>"

    # Making.

    @staticmethod
    def define(
        name: str,
        block: HybridBlock,
        inputs: graphs.Shapes = None,
        loss: Any = None,
        optimizer: Any = "sgd",
        optimizer_params: Optional[Mapping[str, Any]] = None,
        trainer: Optional[GluonTrainer] = None,
        metrics: Any = None,
        initializer: Any = None,
        replace: bool = False,
        seed: int = 0,
        device: Optional[str] = None,
        group: bool = False,
        virtual_shards: Optional[int] = None,
    ) -> "Model":
        """Makes a model of a HybridBlock's graph, with the Block's values where it has some; others are drawn on the
        server, with the parameters' own initializers, else with `initializer`.

            model = mx.remote.Model.define("digits", net, (-1, 1, 28, 28), initializer=mx.init.Xavier(),
                                           loss=gluon.loss.SoftmaxCrossEntropyLoss(), optimizer="adam", metrics="accuracy")

        inputs: their shapes, with -1 for a size that varies, or arrays like them; default: as in the Block's first run. With
        `loss` the model gets a trainer (see create_trainer), with the optimizer or a gluon.Trainer's. replace: replaces a
        model of that name. device: `cpu` or `gpu:0`. seed: of the server's random numbers for it. group, virtual_shards: as for
        save_as_model.
        """
        client = calls.current()
        placement = groups.requested(group, virtual_shards)
        traced = graphs.trace(block, inputs)
        request = model_pb2.DefineModelRequest(
            model=name, graph=traced.graph, device=device or "", seed=seed, replace=replace, placement=placement
        )
        request.variables.extend(each.variable() for each in traced.inputs)
        given = arrays.of_parameters({key: each for key, each in traced.parameters.items() if each._data is not None})
        for key, parameter in traced.parameters.items():
            variable = request.variables.add()
            variable.CopyFrom(graphs.declaration(key, parameter, key in traced.auxiliary))
            own = None if key in given else graphs.initializer_of(parameter)
            if own is not None:
                variable.initializer.CopyFrom(own)
        model = Model(name)
        client.apply(methods.DEFINE_MODEL, request)
        if given:
            arrays.store(name, given, None)
        if len(given) < len(traced.parameters):
            drawn = parameters_pb2.InitializeParametersRequest(model=name)
            if initializer is not None:
                drawn.initializer.CopyFrom(components.initializer(initializer))
            client.apply(methods.INITIALIZE_PARAMETERS, drawn)
        if loss is not None:
            model.create_trainer(loss, optimizer if trainer is None else trainer.optimizer, optimizer_params, metrics=metrics)
        return model

    def delete(self) -> None:
        """Deletes the model with its trainer. Checkpoints stay."""
        calls.current().apply(methods.DELETE_MODEL, model_pb2.DeleteModelRequest(model=self.name))
        self._described = None

    # Descriptions.

    def describe(self) -> ModelDescription:
        """Its inputs, outputs, parameters and trainer, and the numbers of its memory and its steps."""
        proto = self._get()
        trainer = None
        if proto.has_trainer:
            trainer = calls.current().call(methods.GET_TRAINER, trainer_pb2.GetTrainerRequest(model=self.name)).trainer
        return descriptions.of_model(proto, trainer)

    def explain(self) -> str:
        """The description as a table, for `print`."""
        return descriptions.table(self.describe())

    def program(
        self, inputs: Optional[Mapping[str, Sequence[int]]] = None, mode: str = "predict", version: Union[str, int, None] = None
    ) -> Program:
        """The program to which the server compiles the model, without a run: each step with its FLOP, bytes and memory, and
        each pass of the compiler with what it did.

            print(model.program({"data": (32, 1, 28, 28)}))
            model.program(mode="train_step").save("step.svg")

        inputs: shapes by name. Default: the declared ones, with one row. mode: 'predict', or 'train_step' for a step from
        its forward pass to the update. version: number or label of a published version ('' for the stable one), in the model's place.
        """
        return program.explain(self.name, inputs, mode, version)

    def _get(self, graph: bool = False) -> Any:
        return calls.current().call(methods.GET_MODEL, model_pb2.GetModelRequest(model=self.name, graph=graph)).model

    def _inputs(self) -> Dict[str, int]:
        """The inputs' dtypes by name; asked for once."""
        if self._described is None:
            self._described = {each.name: each.dtype for each in self._get().inputs}
        return self._described

    @contextlib.contextmanager
    def _known_inputs(self) -> Iterator[None]:
        """Around a call: after one that the server refuses, the inputs are asked for again. The model may be another."""
        try:
            yield
        except (CallError, TypeError):
            self._described = None
            self._configs.clear()
            raise

    # Use.

    def predict(self, data: Arrays, batch_size: Optional[int] = None) -> Any:
        """The outputs in inference mode: an array, or a list of them where the model has several.

        batch_size: rows of one call. Default: all in one, as far as a message holds them.
        """
        with self._known_inputs():
            pieces = [self._predict(piece) for piece in self._pieces(self._tensors(data), batch_size)]
        return self._joined(pieces, values.first(data))

    def infer(self, data: Arrays, version: Union[str, int] = "", batch_size: Optional[int] = None) -> Any:
        """The outputs of a published version, as `predict` gives the model's own as it is now. For callers who may only
        infer, too; they wait for no training.

            model.publish("stable")
            mx.remote.Model("digits").infer(images)                     # From any process. The routes choose the version.
            mx.remote.Model("digits").infer(images, version="canary")

        version: a number or a label. batch_size: rows of one request. Default: as many as the version takes at once.
        """
        version = str(version)
        with self._known_inputs():
            if version not in self._configs:
                self._configs[version] = inference.config_of(self.name, version)
            config, request_id = self._configs[version], inference.new_id()
            tensors = self._converted(data, config.inputs)
            most = config.most_rows or None if batch_size is None else batch_size
            pieces = [inference.infer(self.name, version, request_id, piece) for piece in self._pieces(tensors, most)]
        return self._joined(pieces, values.first(data))

    @staticmethod
    def _joined(pieces: Sequence[Sequence[np.ndarray]], like: Any) -> Any:
        """The outputs of all rows, from those of each piece."""
        outputs = [values.as_given(np.concatenate(parts) if len(parts) > 1 else parts[0], like) for parts in zip(*pieces)]
        return outputs[0] if len(outputs) == 1 else outputs

    def _tensors(self, data: Arrays, **further: Any) -> Dict[str, np.ndarray]:
        """The inputs' values, and further ones that keep their dtype."""
        found = self._converted(data, self._inputs())
        found.update({name: values.as_numpy(value) for name, value in further.items() if value is not None})
        return found

    def _converted(self, data: Arrays, inputs: Mapping[str, int]) -> Dict[str, np.ndarray]:
        given = values.assign(data, list(inputs), f"model '{self.name}'")
        return {name: values.converted(value, inputs[name], name) for name, value in given.items()}

    def _pieces(self, arrays: Dict[str, np.ndarray], batch_size: Optional[int]) -> Iterator[Dict[str, np.ndarray]]:
        most = calls.current().limits.max_message_bytes - _MARGIN
        total = sum(value.nbytes for value in arrays.values())
        if total > most:
            fit = max(1, most * values.rows(arrays) // total)
            batch_size = fit if batch_size is None else min(batch_size, fit)
        if batch_size is None:
            yield arrays
            return
        for begin in range(0, max(values.rows(arrays), 1), batch_size):
            yield {name: value[begin : begin + batch_size] for name, value in arrays.items()}

    def _predict(self, arrays: Dict[str, np.ndarray]) -> List[np.ndarray]:
        request = model_pb2.PredictRequest(model=self.name, encoding=tensor_pb2.Tensor.RAW)
        _fill(request.inputs, arrays)
        found = values.by_name(calls.current().call(methods.PREDICT, request).outputs)
        if len(found) > 1:
            return [found[each.name] for each in self._get().outputs]
        return list(found.values())

    def evaluate(self, data: Union[Arrays, Dataset, str], label: Any = None, batch_size: Optional[int] = None) -> Dict[str, float]:
        """The mean loss and the trainer's metrics in inference mode, on arrays with their labels, or on a dataset."""
        rows = datasets.as_dataset(data)
        with self._known_inputs():
            if rows is not None:
                return self._evaluate_rows(rows, batch_size)
            found = []
            for piece in self._pieces(self._tensors(data, label=label), batch_size):
                request = training_pb2.EvaluateRequest(model=self.name, batch_size=batch_size)
                _fill(request.inputs, piece)
                found.append(calls.current().call(methods.EVALUATE, request))
            return self._measured(found)

    def _evaluate_rows(self, rows: Dataset, batch_size: Optional[int]) -> Dict[str, float]:
        request = training_pb2.EvaluateRequest(model=self.name, rows=dataset_pb2.Rows(dataset=rows.name), batch_size=batch_size)
        return self._measured([calls.current().call(methods.EVALUATE, request)])

    @staticmethod
    def _measured(answers: Sequence[Any]) -> Dict[str, float]:
        """The means over all rows."""
        samples = sum(answer.samples for answer in answers)
        found: Dict[str, float] = {}
        for answer in answers:
            for name, value in {"loss": answer.loss, **answer.metrics}.items():
                found[name] = found.get(name, 0.0) + value * answer.samples / max(samples, 1)
        return found

    # Training.

    def create_trainer(
        self,
        loss: Any = None,
        optimizer: Any = "sgd",
        optimizer_params: Optional[Mapping[str, Any]] = None,
        lr_scheduler: Any = None,
        metrics: Any = None,
        loss_output: Optional[str] = None,
        prediction: Optional[str] = None,
        clip_global_norm: Optional[float] = None,
        skip_nonfinite: bool = True,
        replace: bool = False,
    ) -> TrainerDescription:
        """Gives the model a trainer.

            model.create_trainer(gluon.loss.L2Loss(), "adam", {"learning_rate": 0.01}, metrics=["accuracy"])

        loss: one of gluon.loss or its name, between the output `prediction` (default: the first) and the label; None with
        loss_output, the name of an output that is the loss. optimizer: one of mx.optimizer, or a name with parameters, as
        gluon.Trainer takes it. metrics: 'accuracy', 'top_k_accuracy' or mx.metric's. clip_global_norm: gradients whose norm
        together is larger are scaled down to it; None: never. skip_nonfinite: a step whose loss or gradients hold a NaN or an
        infinity changes nothing. replace: replaces a trainer; steps and states begin anew.
        """
        request = trainer_pb2.CreateTrainerRequest(model=self.name, replace=replace)
        fill_trainer(
            request,
            loss,
            optimizer,
            optimizer_params,
            lr_scheduler,
            metrics,
            loss_output,
            prediction,
            clip_global_norm,
            skip_nonfinite,
        )
        return descriptions.of_trainer(calls.current().apply(methods.CREATE_TRAINER, request).trainer)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets it. MXNetError: a schedule decides it."""
        calls.current().apply(
            methods.SET_LEARNING_RATE, trainer_pb2.SetLearningRateRequest(model=self.name, learning_rate=learning_rate)
        )

    def train_step(self, data: Arrays, label: Any, sample_weight: Any = None) -> Step:
        """Forward, loss, backward and update on one batch, in one call."""
        request = training_pb2.TrainStepRequest(model=self.name)
        with self._known_inputs():
            _fill(request.inputs, self._tensors(data, label=label, sample_weight=sample_weight))
            step = training.step_of(calls.current().apply(methods.TRAIN_STEP, request))
        return step

    def fit(
        self,
        data: Union[Arrays, Dataset, str],
        label: Any = None,
        epochs: int = 1,
        batch_size: int = 64,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        validation: Any = None,
        first_epoch: int = 0,
        progress: bool = True,
        callbacks: Sequence[Callback] = (),
    ) -> History:
        """Trains on all rows, `epochs` times; returns the numbers of each epoch, by name.

            history = model.fit(images, labels, epochs=3, validation=(test_images, test_labels))
            history["loss"]             # [0.61, 0.39, 0.33]
            history.plot("curve.svg")

        data: a dataset or its name; or arrays, with their labels, which are sent as a dataset first and deleted at the end.
        The server takes all steps as one call, so that only the progress crosses the wire. shuffle: each epoch has an order
        of its own, which follows from `seed` and the epoch's number alone; else the order of the rows. drop_last: leaves out
        a last batch that is smaller. validation: a dataset, or (data, label), measured after each epoch. first_epoch: number
        of the first one, to go on where another fit() ended. progress: shows a line. callbacks: functions (epoch, numbers),
        called after each epoch; one that returns true ends the training (mx.remote.EarlyStopping). An interrupt ends it
        after the steps that are under way, which count.

        A server that is killed and started again within a minute is waited for, and so are the other servers of its group
        where too few are left. Where it makes live checkpoints, the steps that it has lost are taken again, and arrays are
        sent again: the parameters become those of a fit() without that. The means leave out what was lost with the server.
        """
        with contextlib.ExitStack() as ends:
            rows = self._as_dataset(data, label, progress, ends)
            checked = None if validation is None else self._as_dataset(*_pair(validation), progress, ends)
            of = Epochs(self.name, rows, rows.describe().rows, batch_size, shuffle, seed, drop_last, checked, first_epoch, epochs)
            history = training.Training(calls.current(), of, progress).run(callbacks)
        return history

    def _as_dataset(self, data: Any, label: Any, progress: bool, ends: contextlib.ExitStack) -> Dataset:
        rows = datasets.as_dataset(data)
        if rows is None:
            with self._known_inputs():
                columns = values.assign(data, list(self._inputs()), f"model '{self.name}'")
            if label is not None:
                columns["label"] = label
            rows = datasets.Temporary(columns)
            ends.push(rows.end)
            rows.send(progress)
        return rows

    # Checkpoints.

    def save_checkpoint(self, name: Optional[str] = None, overwrite: bool = False) -> CheckpointDescription:
        """Writes graph, parameters, trainer and random state to the server's store, so that training goes on from there
        bit for bit. name: default: the model's. overwrite: replaces a checkpoint of that name."""
        request = checkpoint_pb2.SaveCheckpointRequest(model=self.name, checkpoint=name or "", overwrite=overwrite)
        saved = calls.current().apply(methods.SAVE_CHECKPOINT, request).checkpoint
        return CheckpointDescription(saved.name, saved.step, saved.bytes, saved.has_trainer)

    def load_checkpoint(self, name: Optional[str] = None, replace: bool = False, parameters_only: bool = False) -> ModelDescription:
        """Returns the model to a checkpoint, or makes it from one. name: default: the model's. replace: also where its graph
        is another one. parameters_only: without trainer and random state."""
        request = model_pb2.LoadCheckpointRequest(
            model=self.name, checkpoint=name or self.name, replace=replace, parameters_only=parameters_only
        )
        calls.current().apply(methods.LOAD_CHECKPOINT, request)
        self._described = None
        return self.describe()

    # Serving.

    def publish(
        self,
        labels: Union[str, Sequence[str], None] = "stable",
        served: Optional[str] = None,
        max_batch_size: int = 0,
        max_queue_delay: float = 0.0,
        instances: int = 1,
        device: Optional[str] = None,
    ) -> VersionDescription:
        """Makes an immutable version of the model as it is between two steps, and serves it to clients of the open
        inference protocol (KServe's and Triton's); training goes on meanwhile.

        labels: one or several for the version; the one with `stable` is what requests without a version get. served: the
        name that is asked for. Default: the model's. max_batch_size: rows of several requests that are computed together;
        0: each request alone. max_queue_delay: seconds that a request waits for others. instances: batches that are computed
        at once. device: default: the model's."""
        return versions.publish(self.name, labels, served, max_batch_size, max_queue_delay, instances, device)

    # Blocks.

    def block(self, ctx: Optional[Context] = None) -> SymbolBlock:
        """A SymbolBlock of the model's graph, with its parameters' values: copies, to run, to look at and to train here.
        `store` writes them back."""
        return blocks.take(self.name, self._get().parameters, ctx)

    def store(self, block: HybridBlock, force: bool = False) -> None:
        """Gives the model's parameters the values of a Block's of the same names.

        The Block is one that `block()` has given, or that `save_as_model` has saved. MXNetError: the model's parameters
        have changed since then, by a step or another client. force: stores nevertheless, any Block.
        """
        blocks.store(self.name, self._get().parameters, block, force)


def _fill(target: Any, arrays: Mapping[str, np.ndarray]) -> None:
    for name, value in arrays.items():
        target[name].CopyFrom(values.tensor(value))


def _pair(validation: Any) -> Tuple[Any, Any]:
    data, label = validation if isinstance(validation, tuple) else (validation, None)
    return data, label


def models() -> List[Model]:
    """All models of the server, by name."""
    found = []
    pages = calls.current().pages(methods.LIST_MODELS, model_pb2.ListModelsRequest())
    for proto in (model for page in pages for model in page.models):
        model = Model(proto.name)
        trained = f", {proto.step:,} steps" if proto.has_trainer else ""
        place = proto.device if groups.placement_of(proto) is None else f"{proto.device}, by a group"
        model._summary = f" on {place}: {proto.parameter_elements:,} trained numbers{trained}"
        found.append(model)
    return found
