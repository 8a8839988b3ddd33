"""A running server with published models, for its clients' tests."""

import grpc

from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer

_MODELS, _SERVING, _INFERENCE = "gluond.v1.ModelService", "gluond.v1.ServingService", "inference.GRPCInferenceService"


class PublishingServer(RunningServer):
    """Knows its methods by reflection alone, so that a test's own stubs are the only ones of its process."""

    def __enter__(self):
        self._channel = grpc.insecure_channel(self.address)
        self._client = Reflection(self._channel)
        return super().__enter__()

    def __exit__(self, *unused):
        self._channel.close()
        super().__exit__(*unused)

    def define(self, model, nodes, outputs, **inputs):
        """Defines a graph of [name, operator, inputs, attributes] over inputs x=([-1, 3], "FLOAT32")."""
        graph = {"nodes": [dict(zip(("name", "op", "inputs", "attributes"), node)) for node in nodes], "outputs": outputs}
        variables = [{"name": name, "kind": "INPUT", "shape": shape, "dtype": dtype} for name, (shape, dtype) in inputs.items()]
        self._client.call(_MODELS, "DefineModel", {"model": model, "graph": graph, "variables": variables})

    def define_echo(self, model, dtype="FLOAT32"):
        """Gives its input `x` back as `y`."""
        self.define(model, [["y", "identity", ["x"]]], ["y"], x=([-1, 3], dtype))

    def define_dense(self, model, weight, bias):
        """Gives `data` times the rows of `weight`, plus `bias`, as `output`. A model of that name is replaced."""
        values = {
            "weight": {"shape": [len(weight), len(weight[0])], "floatData": sum(weight, [])},
            "bias": {"shape": [len(bias)], "floatData": bias},
        }
        self._client.call(
            _MODELS,
            "DefineModel",
            {
                "model": model,
                "replace": True,
                "block": {"block": "Dense", "attributes": {"units": len(weight)}},
                "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, len(weight[0])]}],
            },
        )
        self._client.call(_MODELS, "InitializeParameters", {"model": model})
        self._client.call(_MODELS, "SetParameters", {"model": model, "parameters": values})

    def publish(self, model, labels=(), **options):
        """The new version's number."""
        answer = self._client.call(_SERVING, "PublishModel", {"model": model, "labels": list(labels), "options": options})
        return int(answer["version"]["version"])

    def count(self, model, version="1"):
        """The server's counts of a version: its inferences, and the requests that were answered and that failed."""
        answer = self._client.call(_INFERENCE, "ModelStatistics", {"name": model, "version": version})["modelStats"][0]
        times = answer.get("inferenceStats", {})
        count = lambda name: int(times.get(name, {}).get("count", 0))
        return {"inferences": int(answer.get("inferenceCount", 0)), "success": count("success"), "fail": count("fail")}
