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
        "/inference.GRPCInferenceService/ModelInfer",
        grpc_service_pb2.ModelInferRequest.SerializeToString,
        grpc_service_pb2.ModelInferResponse.FromString,
    )
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

    def assert_near(self, values, expected):
        """Neither a version and its model nor rows in other company have equal bits: docs/decisions.md has what has them."""
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)

    def test_a_version_answers_as_its_model_did(self):
        first = self.model.publish("stable", served="a", max_batch_size=8, max_queue_delay=0.001, instances=2)
        self.assertEqual(
            (first.served, first.version, first.state, first.labels, first.source, first.max_batch_size),
            ("a", 1, "READY", ["stable"], "digits", 8),
        )
        before = self.model.predict(self.data[:4])
        number, values = infer("a", self.data[:4])
        self.assertEqual(number, 1)
        self.assert_near(values, before)
        self.model.fit(self.data, self.label, epochs=2, batch_size=4, progress=False)
        second = self.model.publish(["canary"], served="a")
        self.assertEqual((second.version, second.labels), (2, ["canary"]))
        np.testing.assert_array_equal(infer("a", self.data[:4])[1], values)
        self.assert_near(infer("a", self.data, "canary")[1], self.model.predict(self.data))
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

    def test_infer_asks_a_version_in_pieces_of_its_size(self):
        self.model.publish(served="c", max_batch_size=8)  # It gets the label `stable`.
        before = self.model.predict(self.data)
        self.model.fit(self.data, self.label, epochs=2, batch_size=4, progress=False)
        self.model.publish("canary", served="c")
        served = mx.remote.Model("c")
        self.assert_near(served.infer(self.data), before)  # 12 rows.
        self.assert_near(served.infer(self.data, version=2), self.model.predict(self.data))
        self.assertIsInstance(served.infer(mx.nd.array(self.data), "stable"), mx.nd.NDArray)
        self.assert_near(served.infer({"data": self.data.astype("float64")}, 1, batch_size=5), before)
        with self.assertRaisesRegex(mx.MXNetError, "no version '3'; there are 1, 2, canary, stable"):
            served.infer(self.data, 3)
        with self.assertRaisesRegex(mx.MXNetError, r"has shape \[12,2\], expected \[\?,5\]"):
            served.infer(self.data[:, :2], 2)
        with self.assertRaisesRegex(TypeError, "takes 'data', got 'date'"):
            served.infer({"date": self.data})

    def test_infer_takes_and_gives_each_dtype(self):
        for dtype in ("float64", "float16", "uint8", "int32", "int8", "int64", "bool"):
            with self.subTest(dtype):
                x = mx.sym.var("x")
                net = gluon.SymbolBlock([mx.sym.identity(x, name="y"), mx.sym.identity(x, name="z")], [x])
                values = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
                model = mx.remote.Model.define("echo", net, inputs=values, replace=True)
                version = model.publish().version
                found = model.infer(values, version)
                self.assertEqual([each.dtype for each in found], [values.dtype] * 2)
                for each in found:
                    np.testing.assert_array_equal(each, values)

    def test_all_pieces_of_an_array_have_one_version(self):
        for _ in range(2):
            self.model.publish(served="e", max_batch_size=1)
            self.model.fit(self.data, self.label, epochs=1, batch_size=4, progress=False)
        mx.remote.route("e", weights={1: 1, 2: 1})
        wanted = [mx.remote.Model("e").infer(self.data, version) for version in (1, 2)]
        seen = set()
        for _ in range(40):
            found = mx.remote.Model("e").infer(self.data)
            seen.add([np.array_equal(found, each) for each in wanted].index(True))
        self.assertEqual(seen, {0, 1})


if __name__ == "__main__":
    case_runner.main()
