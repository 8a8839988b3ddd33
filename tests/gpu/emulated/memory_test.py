"""A GPU of 64 MiB: a client that asks for more gets RESOURCE_EXHAUSTED, and other clients go on."""

import subprocess
import tempfile
import unittest

import gluond as mx
import grpc
from gluond import nd
from gluond._proto import server_pb2
from tests import case_runner

SERVER = "tests/gpu/emulated/gluond_server.sh"
MIB = 1 << 18  # Elements of float32.


class MemoryTest(unittest.TestCase):
    def test_refuses_what_is_too_much_and_goes_on(self):
        kept = nd.full((MIB,), 3, ctx=mx.gpu(0))
        for _ in range(3):
            with self.assertRaisesRegex(mx.MXNetError, r"memory of the server's gpu:0: \d+ bytes wanted, .* in use \(the session"):
                nd.zeros((70 * MIB,), ctx=mx.gpu(0)).asnumpy()
        arrays = []
        with self.assertRaisesRegex(mx.MXNetError, r"in use \(the session \d+\.\d MiB\b.*; free some, or raise --max_tensor_bytes"):
            for _ in range(100):
                arrays.append(nd.ones((MIB,), ctx=mx.gpu(0)))
                arrays[-1].wait_to_read()
        self.assertGreater(len(arrays), 40)
        self.assertEqual(float(kept.asnumpy()[5]), 3)
        arrays.clear()
        self.assertEqual(float(nd.ones((20 * MIB,), ctx=mx.gpu(0)).sum().asscalar()), 20 * MIB)

    def test_hurts_no_other_client_and_is_told(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        address = f"unix:{folder.name}/socket"
        server = subprocess.Popen([SERVER, f"--address={address}"], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        channel = grpc.insecure_channel(address)
        self.addCleanup(channel.close)
        grpc.channel_ready_future(channel).result(timeout=60)
        self.addCleanup(mx.connect)  # To a server of the process's own, as before.
        mx.connect(address)
        other = nd.full((10 * MIB,), 3, ctx=mx.gpu(0))
        other.wait_to_read()
        mx.connect(address)
        arrays = []
        with self.assertRaisesRegex(mx.MXNetError, r"in use \(.*the session of another connection 10\.\d MiB"):
            for _ in range(100):
                arrays.append(nd.ones((MIB,), ctx=mx.gpu(0)))
                arrays[-1].wait_to_read()
        self.assertEqual(float((other[7:9] + 1).sum().asscalar()), 8)
        ask = channel.unary_unary(
            "/gluond.v1.ServerService/GetServerInfo",
            request_serializer=server_pb2.GetServerInfoRequest.SerializeToString,
            response_deserializer=server_pb2.GetServerInfoResponse.FromString,
        )
        info = ask(server_pb2.GetServerInfoRequest())
        by_name = {device.name: device for device in info.devices}
        gpu, idle = by_name["gpu:0"], by_name["gpu:1"]
        self.assertEqual(gpu.memory_bytes, 64 << 20)
        self.assertGreaterEqual(gpu.memory_peak_bytes, gpu.tensor_bytes)
        self.assertGreaterEqual(gpu.memory_peak_bytes, 50 << 20)
        self.assertGreaterEqual(gpu.memory_used_bytes, 40 << 20)
        self.assertEqual((idle.tensor_bytes, idle.memory_used_bytes), (0, 0))
        self.assertGreater(by_name["cpu"].memory_used_bytes, 1 << 20)

    def test_a_convolution_whose_workspace_is_refused_takes_another_way(self):
        x, w = nd.ones((1, 2, 6, 6), ctx=mx.gpu(0)), nd.ones((3, 2, 3, 3), ctx=mx.gpu(0))
        for _ in range(2):
            y = nd.Convolution(x, w, no_bias=True, kernel=(3, 3), num_filter=3)
            self.assertEqual(float(y.min().asscalar()), 18)
            self.assertEqual(float(y.max().asscalar()), 18)


if __name__ == "__main__":
    case_runner.main()
