"""The server's methods that this client calls: unary ones, and Train, whose answer is a stream."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._proto import (
    checkpoint_pb2,
    dataset_pb2,
    explain_pb2,
    group_pb2,
    grpc_service_pb2,
    model_pb2,
    parameters_pb2,
    saved_session_pb2,
    server_pb2,
    serving_pb2,
    trainer_pb2,
    training_pb2,
)


class Method(NamedTuple):
    """A method: its path, and the classes of its messages."""

    path: str
    request: Any
    response: Any

    @property
    def name(self) -> str:
        """`Predict`."""
        return self.path.rpartition("/")[2]


def _method(service: str, name: str, messages: Any, package: str = "gluond.v1") -> Method:
    return Method(f"/{package}.{service}/{name}", getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response"))


def _of_protocol(name: str) -> Method:
    """A method of the open inference protocol."""
    return _method("GRPCInferenceService", name, grpc_service_pb2, "inference")


GET_SERVER_INFO = _method("ServerService", "GetServerInfo", server_pb2)

DEFINE_MODEL = _method("ModelService", "DefineModel", model_pb2)
GET_MODEL = _method("ModelService", "GetModel", model_pb2)
LIST_MODELS = _method("ModelService", "ListModels", model_pb2)
DELETE_MODEL = _method("ModelService", "DeleteModel", model_pb2)
PREDICT = _method("ModelService", "Predict", model_pb2)
EXPLAIN = _method("ModelService", "Explain", explain_pb2)
INITIALIZE_PARAMETERS = _method("ModelService", "InitializeParameters", parameters_pb2)
SET_PARAMETERS = _method("ModelService", "SetParameters", parameters_pb2)
GET_PARAMETERS = _method("ModelService", "GetParameters", parameters_pb2)
UPLOAD_PARAMETER = _method("ModelService", "UploadParameter", parameters_pb2)
DOWNLOAD_PARAMETER = _method("ModelService", "DownloadParameter", parameters_pb2)
SAVE_CHECKPOINT = _method("ModelService", "SaveCheckpoint", checkpoint_pb2)
LOAD_CHECKPOINT = _method("ModelService", "LoadCheckpoint", model_pb2)

CREATE_TRAINER = _method("TrainingService", "CreateTrainer", trainer_pb2)
GET_TRAINER = _method("TrainingService", "GetTrainer", trainer_pb2)
SET_LEARNING_RATE = _method("TrainingService", "SetLearningRate", trainer_pb2)
TRAIN_STEP = _method("TrainingService", "TrainStep", training_pb2)
TRAIN = Method("/gluond.v1.TrainingService/Train", training_pb2.TrainRequest, training_pb2.TrainProgress)
EVALUATE = _method("TrainingService", "Evaluate", training_pb2)
GET_SEQUENCE = _method("TrainingService", "GetSequence", training_pb2)
UPLOAD_DATASET = _method("TrainingService", "UploadDataset", dataset_pb2)
LIST_DATASETS = _method("TrainingService", "ListDatasets", dataset_pb2)
DELETE_DATASET = _method("TrainingService", "DeleteDataset", dataset_pb2)

PUBLISH_MODEL = _method("ServingService", "PublishModel", serving_pb2)
LIST_VERSIONS = _method("ServingService", "ListVersions", serving_pb2)
ROUTE_VERSIONS = _method("ServingService", "RouteVersions", serving_pb2)
RETIRE_VERSION = _method("ServingService", "RetireVersion", serving_pb2)

GET_GROUP = _method("GroupService", "GetGroup", group_pb2)

MODEL_CONFIG = _of_protocol("ModelConfig")
MODEL_INFER = _of_protocol("ModelInfer")

LIST_SAVED_SESSIONS = _method("SessionService", "ListSavedSessions", saved_session_pb2)
DELETE_SAVED_SESSION = _method("SessionService", "DeleteSavedSession", saved_session_pb2)
