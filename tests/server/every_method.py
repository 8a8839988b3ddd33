"""Every method that the server has, by the .proto files."""

from google.protobuf import descriptor_pool

from gluond.v1 import model_pb2, operator_pb2, server_pb2, serving_pb2, session_pb2, training_pb2  # noqa: F401
from proto.inference import grpc_service_pb2  # noqa: F401

SERVICES = (
    "gluond.v1.ServerService",
    "gluond.v1.GroupService",
    "gluond.v1.OperatorService",
    "gluond.v1.SessionService",
    "gluond.v1.ModelService",
    "gluond.v1.TrainingService",
    "gluond.v1.ServingService",
    "inference.GRPCInferenceService",
)
# Python has no modules of these.
OTHERS = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
# Those that want to know nobody.
OPEN = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
)
UNKNOWN = "/no.Such/Method"


def paths():
    pool = descriptor_pool.Default()
    return [f"/{name}/{method.name}" for name in SERVICES for method in pool.FindServiceByName(name).methods] + list(OTHERS)
