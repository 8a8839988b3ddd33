"""What the tests of tritonclient share: a server with models, and what numpy says that these answer."""

import concurrent.futures
import unittest

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.server.published import PublishingServer

# The server's types, with their names in the protocol and in numpy.
DATATYPES = (
    ("FLOAT32", "FP32", np.float32),
    ("FLOAT64", "FP64", np.float64),
    ("FLOAT16", "FP16", np.float16),
    ("BFLOAT16", "BF16", ml_dtypes.bfloat16),
    ("INT32", "INT32", np.int32),
    ("INT64", "INT64", np.int64),
    ("INT8", "INT8", np.int8),
    ("UINT8", "UINT8", np.uint8),
    ("BOOL", "BOOL", np.bool_),
)
DATA = np.arange(8, dtype=np.float32).reshape(2, 4) / 8 - 0.3


def given(name, datatype, values):
    values = np.asarray(values)
    tensor = triton.InferInput(name, values.shape, datatype)
    tensor.set_data_from_numpy(values)
    return tensor


def data(values=DATA):
    return [given("data", "FP32", values)]


def patient():
    return [given("x", "FP32", DATA[:, :3])]


class TritonCase(unittest.TestCase):
    """`dense` has two versions of other weights: 1 is `stable`, 2 `canary`. `patient` answers when a second is over."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(PublishingServer())
        cls.weights = {}
        for version, label in (1, "stable"), (2, "canary"):
            weight = np.random.RandomState(version).randn(3, 4).astype(np.float32)
            bias = np.float32([0.5, -0.25, version])
            cls.server.define_dense("dense", weight.tolist(), bias.tolist())
            cls.server.publish(
                "dense", [label], max_batch_size=8, priority_levels=2, default_priority=2, allow_timeout_override=True
            )
            cls.weights[version] = weight, bias
        cls.server.define_echo("patient")
        cls.server.publish("patient", max_batch_size=8, max_queue_delay_us="1000000", allow_timeout_override=True)

    def setUp(self):
        self.client = triton.InferenceServerClient(self.server.address)
        self.addCleanup(self.client.close)

    def expect(self, result, version=1, values=DATA):
        """A dense layer's answer, by numpy."""
        weight, bias = self.weights[version]
        self.assertEqual(result.get_response().model_version, str(version))
        np.testing.assert_allclose(result.as_numpy("output"), values @ weight.T + bias, rtol=1e-5, atol=1e-6)

    def expect_refused(self, status, says, call, *arguments, **named):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.status(), f"StatusCode.{status}", caught.exception)
        self.assertIn(says, caught.exception.message())

    def future(self):
        """A future, and the callback that gives it (result, error)."""
        future = concurrent.futures.Future()
        return future, lambda result, error: future.set_result((result, error))
