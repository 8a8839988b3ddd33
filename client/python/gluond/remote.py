"""Models and datasets that live on the server, for all its clients: `mx.remote`.

    model = net.save_as_model("digits", loss=loss_of, trainer=trainer)      # The network has been trained here.
    model = mx.remote.Model("digits")                                       # By its name, from any process.
    model.fit(mx.remote.Dataset("fashion", data=images, label=labels), epochs=3)
    model.predict(images)
    model.publish("stable", max_batch_size=32)                              # For tritonclient and others,
    model.infer(images)                                                     # and for this one.
"""

from ._remote.datasets import Column, Dataset, DatasetDescription, datasets
from ._remote.descriptions import ModelDescription, TrainerDescription, Variable
from ._remote.groups import GroupDescription, GroupMember, Placement, group
from ._remote.model import CheckpointDescription, Model, models
from ._remote.program import Program
from ._remote.saving import save_as_model
from ._remote.training import EarlyStopping, History, Step
from ._remote.versions import VersionDescription, retire, route, versions
from .gluon._block import Block

__all__ = [
    "CheckpointDescription",
    "Column",
    "Dataset",
    "DatasetDescription",
    "EarlyStopping",
    "GroupDescription",
    "GroupMember",
    "History",
    "Model",
    "ModelDescription",
    "Placement",
    "Program",
    "Step",
    "TrainerDescription",
    "Variable",
    "VersionDescription",
    "datasets",
    "group",
    "models",
    "retire",
    "route",
    "versions",
]

# Models are made of Blocks, so the rooms of these know nothing of it.
Block.save_as_model = save_as_model  # type: ignore[attr-defined]
