"""`gluond datasets` and `gluond sessions`: what a server keeps besides models, as people and programs read it."""

import json
import pathlib
import subprocess
import unittest

import grpc
from google.protobuf import json_format

from gluond.v1 import dataset_pb2, session_pb2, session_pb2_grpc, training_pb2_grpc
from tests import case_runner
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond")
TOY = {
    "dataset": "toy",
    "commit": True,
    "tensors": {"data": {"shape": [2, 3], "float_data": [1, 2, 3, 4, 5, 6]}, "label": {"shape": [2], "int_data": [0, 1]}},
}
SAVE = [
    {"open": {"client_id": "laptop", "protocol": 2}},
    {
        "first_number": 1,
        "commands": [
            {"put": {"array": 1, "tensor": {"shape": [2], "float_data": [1, 2]}}},
            {"save_session": {"name": "run-7", "arrays": {"x": 1}}},
        ],
    },
]


class StoredTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RunningServer())
        self.channel = self.enterContext(grpc.insecure_channel(self.server.address))

    def run_command(self, *arguments, status=0):
        result = subprocess.run(
            [_BIN, *arguments, f"--address={self.server.address}"], capture_output=True, text=True, timeout=120, check=False
        )
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout + result.stderr

    def test_datasets_are_listed_and_deleted(self):
        self.assertIn("no datasets", self.run_command("datasets"))
        training_pb2_grpc.TrainingServiceStub(self.channel).UploadDataset(
            json_format.ParseDict(TOY, dataset_pb2.UploadDatasetRequest())
        )
        lines = self.run_command("datasets").splitlines()
        self.assertEqual(lines[0].split(), ["dataset", "rows", "size", "kept", "columns"])
        self.assertRegex(lines[1], r"^toy +2 +\S+ B +stored +data\(2,3\) label\(2\)$")
        self.assertEqual(json.loads(self.run_command("datasets", "--json"))["name"], "toy")
        self.assertIn("belong together", self.run_command("datasets", "toy", status=2))
        self.assertIn("did you mean 'toy'", self.run_command("datasets", "toi", "--delete", status=1))
        self.assertEqual(self.run_command("datasets", "toy", "--delete"), "deleted dataset toy\n")
        self.assertIn("no datasets", self.run_command("datasets"))

    def test_saved_sessions_are_listed(self):
        self.assertIn("no saved sessions", self.run_command("sessions"))
        requests = [json_format.ParseDict(each, session_pb2.SessionRequest()) for each in SAVE]
        for response in session_pb2_grpc.SessionServiceStub(self.channel).Run(iter(requests)):
            for reply in response.replies:
                self.assertFalse(reply.failures, reply)
        lines = self.run_command("sessions").splitlines()
        self.assertEqual(lines[0].split(), ["session", "arrays", "size", "kept", "saved", "by"])
        self.assertRegex(lines[1], r"^run-7 +1 +8 B +stored +\S+ \S+ +laptop$")
        self.assertIn("there is no option --delete", self.run_command("sessions", "--delete", status=2))


if __name__ == "__main__":
    case_runner.main()
