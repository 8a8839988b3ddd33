"""`gluond explain`: a model's program as a table, as a picture and as JSON."""

import json
import pathlib
import subprocess
import tempfile
import unittest
from xml.dom import minidom

import grpc
from google.protobuf import json_format

from gluond.v1 import model_pb2, model_pb2_grpc, parameters_pb2, serving_pb2, serving_pb2_grpc, trainer_pb2, training_pb2_grpc
from tests import case_runner
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond")
MLP = {
    "model": "mlp",
    "block": {
        "block": "HybridSequential",
        "children": [
            {"block": "Dense", "attributes": {"units": 8, "activation": "relu"}},
            {"block": "Dense", "attributes": {"units": 3}},
        ],
    },
    "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}],
}
TRAINER = {"model": "mlp", "loss": {"name": "SoftmaxCrossEntropyLoss"}, "optimizer": {"name": "sgd"}}


class ExplainTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RunningServer())
        channel = self.enterContext(grpc.insecure_channel(self.server.address))
        models = model_pb2_grpc.ModelServiceStub(channel)
        models.DefineModel(json_format.ParseDict(MLP, model_pb2.DefineModelRequest()))
        models.InitializeParameters(parameters_pb2.InitializeParametersRequest(model="mlp"))
        training = training_pb2_grpc.TrainingServiceStub(channel)
        training.CreateTrainer(json_format.ParseDict(TRAINER, trainer_pb2.CreateTrainerRequest()))
        serving_pb2_grpc.ServingServiceStub(channel).PublishModel(serving_pb2.PublishModelRequest(model="mlp", labels=["stable"]))

    def run_command(self, *arguments, status=0):
        result = subprocess.run(
            [_BIN, "explain", *arguments, f"--address={self.server.address}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout + result.stderr

    def test_a_program_is_a_table(self):
        text = self.run_command("mlp")
        self.assertIn("mlp on cpu: prediction of data (1,4)\n3 steps, 120 FLOP, ", text)
        self.assertRegex(text, r"(?m)^0 +\S+ +FullyConnected +\(1,8\) +64 +")
        self.assertRegex(text, r"(?m)^validate +3 > 3 +no change$")
        self.assertLessEqual(max(map(len, text.splitlines())), 120)
        self.assertIn("prediction of data (32,4)", self.run_command("mlp", "--input", "data=32,4"))
        self.assertIn("mlp:1 on cpu", self.run_command("mlp:stable"))
        step = self.run_command("mlp", "--mode=train", "--input=data=6,4;label=6")
        self.assertIn("training step of data (6,4), label (6)\n", step)
        self.assertIn("_backward..Connected", step[: step.index("validate")])

    def test_a_program_is_a_picture_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mlp.svg")
            line = self.run_command("mlp", "--json", f"--svg={path}")
            self.assertEqual(json.loads(line)["totals"]["flop"], 120)
            picture = minidom.parse(str(path)).documentElement
            self.assertEqual(picture.tagName, "svg")
            self.assertIn("FullyConnected", path.read_text())
        self.assertIn("--svg names another file", self.run_command("mlp", "--svg=/no/such/folder/x.svg", status=1))

    def test_wrong_command_lines_are_told_what_to_do(self):
        self.assertIn("`gluond models` lists them", self.run_command(status=2))
        self.assertIn("`predict` or `train`", self.run_command("mlp", "--mode=fly", status=2))
        for wrong in ("data", "data=a,4", "data=-1,4", "data=1;4"):
            self.assertIn("data=32,1,28,28", self.run_command("mlp", f"--input={wrong}", status=2))
        self.assertIn("did you mean 'data'", self.run_command("mlp", "--input=dta=1,4", status=1))
        self.assertIn("did you mean 'mlp'", self.run_command("mpl", status=1))


if __name__ == "__main__":
    case_runner.main()
