"""Model.publish: what is trained here is served, version by version, to clients of the open inference protocol."""

import gluond as mx
import grpc
import numpy as np
from gluond import gluon
from gluond._wire import connect
from gluond.gluon import nn
from proto.inference import grpc_service_pb2
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def infer(name, data, version=""):
    """The version that answers, and its first output."""
    request = grpc_service_pb2.ModelInferRequest(model_name=name, model_version=version)
    request.inputs.add(name="data", datatype="FP32", shape=data.shape)
    request.raw_input_contents.append(data.tobytes())
    method = connect.current().channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer", grpc_service_pb2.ModelInferRequest.SerializeToString,
        grpc_service_pb2.ModelInferResponse.FromString)
    response = method(request, timeout=60)
    values = np.frombuffer(response.raw_output_contents[0], np.float32)
    return int(response.model_version), values.reshape(list(response.outputs[0].shape))


class VersionsTest(ArrayCase):

    def setUp(self):
        net = nn.HybridSequential()
        net.add(nn.Dense(16, activation="relu"), nn.BatchNorm(), nn.Dense(3))
        net.initialize(mx.init.Xavier())
        net.hybridize()
        self.data = np.random.RandomState(3).randn(12, 5).astype("float32")
        self.label = np.arange(12) % 3
        net(mx.nd.array(self.data))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        self.model = net.save_as_model("digits", loss=gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, replace=True)

    def test_a_version_answers_as_its_model_did(self):
        first = self.model.publish("stable", served="a", max_batch_size=8, max_queue_delay=0.001, instances=2)
        self.assertEqual((first.served, first.version, first.state, first.labels, first.source, first.max_batch_size),
                         ("a", 1, "READY", ["stable"], "digits", 8))
        before = self.model.predict(self.data[:4])
        number, values = infer("a", self.data[:4])
        self.assertEqual(number, 1)
        np.testing.assert_array_equal(values, before)
        self.model.fit(self.data, self.label, epochs=2, batch_size=4, progress=False)
        second = self.model.publish(["canary"], served="a")
        self.assertEqual((second.version, second.labels), (2, ["canary"]))
        np.testing.assert_array_equal(infer("a", self.data[:4])[1], before)
        np.testing.assert_array_equal(infer("a", self.data, "canary")[1], self.model.predict(self.data))
        with self.assertRaises(grpc.RpcError) as caught:
            infer("a", self.data)
        self.assertIn("12 rows", caught.exception.details())

    def test_routes_lead_forward_and_back(self):
        for _ in range(3):
            self.model.publish(served="b")
        self.assertEqual([each.version for each in mx.remote.versions("b")], [1, 2, 3])
        self.assertEqual(infer("b", self.data)[0], 3)
        routed = mx.remote.route("b", labels={"stable": 1})
        self.assertEqual(routed[0].labels, ["stable"])
        self.assertEqual(infer("b", self.data)[0], 1)
        mx.remote.route("b", labels={"stable": None}, weights={2: 1})
        self.assertEqual(infer("b", self.data)[0], 2)
        mx.remote.route("b", weights={})
        mx.remote.retire("b", 3)
        self.assertEqual(infer("b", self.data)[0], 2)
        self.assertIn(("b", 2), [(each.served, each.version) for each in mx.remote.versions()])
        with self.assertRaisesRegex(mx.MXNetError, "no version '3'"):
            mx.remote.route("b", labels={"stable": 3})


if __name__ == "__main__":
    case_runner.main()
