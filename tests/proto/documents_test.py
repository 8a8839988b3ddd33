"""deploy/grpcurl: every document is a request of the method that its name says."""

import json
import pathlib
import re
import unittest

from google.protobuf import descriptor_pool, json_format, message_factory

from gluond.v1 import model_pb2, operator_pb2, server_pb2, serving_pb2, training_pb2  # pylint: disable=unused-import
from proto.health.v1 import health_pb2  # pylint: disable=unused-import
from proto.inference import grpc_service_pb2  # pylint: disable=unused-import
from tests import case_runner

FOLDER = pathlib.Path("deploy/grpcurl")
NAME = re.compile(r"(\d\d)-([\w.]+)\.(\w+?)(?:-([\w-]+))?\.json")

STEPS = [
    "DefineModel-from-blocks",
    "DefineModel-from-nodes",
    "InitializeParameters",
    "UploadParameter",
    "Forward",
    "Backward",
    "CreateTrainer",
    "TrainStep-x10",
    "Train-epochs",
    "Evaluate",
    "Predict",
    "SaveCheckpoint",
    "PublishModel",
    "ModelInfer",
]


class DocumentsTest(unittest.TestCase):
    def setUp(self):
        self.paths = sorted(FOLDER.glob("*.json"))
        self.of_lenet = sorted((FOLDER / "lenet").glob("*.json"))

    def test_each_document_is_its_methods_request(self):
        pool = descriptor_pool.Default()
        for number, path in [*enumerate(self.paths, 1), *enumerate(self.of_lenet, 1)]:
            with self.subTest(path.name):
                order, service, method, _ = NAME.fullmatch(path.name).groups()
                self.assertEqual(int(order), number)
                request = pool.FindServiceByName(service).methods_by_name[method].input_type
                message = message_factory.MessageFactory(pool).GetPrototype(request)()
                json_format.ParseDict(json.loads(path.read_text()), message)
        self.assertEqual((len(self.paths), len(self.of_lenet)), (33, 2))

    def test_no_step_from_definition_to_checkpoint_is_missing(self):
        names = " ".join(path.name for path in self.paths)
        for step in STEPS:
            self.assertIn("." + step, names)


if __name__ == "__main__":
    case_runner.main()
