"""A real server with metrics, and a client of it, for tests."""

import urllib.error
import urllib.request

import grpc

from tests.server import exposition
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer

MODELS, TRAINING = "gluond.v1.ModelService", "gluond.v1.TrainingService"


def get(port, path="/metrics", method="GET", body=None, **headers):
    """Status and text."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class WatchedServer(RunningServer):
    def __init__(self, *flags):
        super().__init__("--metrics_address=127.0.0.1:0", *flags)
        line = ""
        while "metrics on port" not in line:
            line = self.process.stdout.readline()
        self.port = int(line.split()[-1])
        self.channel = grpc.insecure_channel(self.address)
        self.client = Reflection(self.channel)

    def __exit__(self, *error):
        self.channel.close()
        super().__exit__(*error)

    def scrape(self):
        status, text = get(self.port)
        assert status == 200, text
        return exposition.parse(text)

    def value(self, name, **labels):
        return exposition.value(self.scrape(), name, **labels)

    def define(self, model="m", trainer=True):
        self.client.call(
            MODELS,
            "DefineModel",
            {
                "model": model,
                "variables": [{"name": "data", "shape": [-1, 4]}],
                "block": {"block": "HybridSequential", "children": [{"block": "Dense", "attributes": {"units": 3}}]},
            },
        )
        self.client.call(MODELS, "InitializeParameters", {"model": model, "initializer": {"name": "xavier"}})
        if trainer:
            self.client.call(
                TRAINING,
                "CreateTrainer",
                {
                    "model": model,
                    "loss": {"name": "SoftmaxCrossEntropyLoss"},
                    "optimizer": {"name": "sgd", "attributes": {"learning_rate": 0.1}},
                },
            )

    def step(self, model="m", rows=2):
        return self.client.call(
            TRAINING,
            "TrainStep",
            {
                "model": model,
                "inputs": {"data": {"shape": [rows, 4], "fill": {"constant": 1}}, "label": {"shape": [rows], "fill": {}}},
            },
        )
