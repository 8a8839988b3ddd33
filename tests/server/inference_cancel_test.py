"""What becomes of requests that are computed when those who sent them go away."""

import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer, Waits
from tests.server.square_operators import SquareOperators

INFERENCE = "inference.GRPCInferenceService"


class HeldOperators(SquareOperators):
    """Its forward passes wait from `hold` on, and not before."""

    def __init__(self, channel, client):
        super().__init__(channel, client)
        self._may_answer.set()

    def hold(self):
        self._arrived.clear()
        self._may_answer.clear()


class InferenceCancelTest(Waits, unittest.TestCase):
    def test_a_batch_that_nobody_waits_for_is_cancelled(self):
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            host = HeldOperators(channel, client)
            self.addCleanup(host.answer_forward)
            client.call(
                "gluond.v1.ModelService",
                "DefineModel",
                {
                    "model": "m",
                    "graph": {"nodes": [{"name": "mid", "op": "Custom", "inputs": ["data"], "attributes": {"op_type": "square"}}]},
                    "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}],
                },
            )
            client.call(
                "gluond.v1.ServingService",
                "PublishModel",
                {"model": "m", "options": {"maxBatchSize": 2, "maxQueueDelayUs": "3600000000"}},
            )
            host.hold()
            requests = [
                client.start(
                    INFERENCE,
                    "ModelInfer",
                    {
                        "modelName": "m",
                        "inputs": [
                            {"name": "data", "datatype": "FP32", "shape": [1, 4], "contents": {"fp32Contents": [1, 2, 3, 4]}}
                        ],
                    },
                )
                for _ in range(2)
            ]
            host.wait_for_forward()
            requests[0].cancel()
            requests[1].cancel()
            # The operator's client has not answered.
            self.until(
                lambda: client.call(INFERENCE, "ModelStatistics", {"name": "m"})["modelStats"][0]["inferenceStats"]["fail"].get(
                    "count"
                )
                == "2"
            )
            host.answer_forward()


if __name__ == "__main__":
    case_runner.main()
