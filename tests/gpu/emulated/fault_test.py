"""A GPU that fails for good: its calls end with one sentence, other devices go on, and health says which it is."""

import subprocess
import tempfile
import time
import unittest

import gluond as mx
import grpc
from gluond import nd
from proto.health.v1 import health_pb2, health_pb2_grpc
from tests import case_runner

SERVER = "tests/gpu/emulated/gluond_server.sh"


class FaultTest(unittest.TestCase):
    def start(self, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.address = f"unix:{folder.name}/socket"
        self.server = subprocess.Popen(
            [SERVER, f"--address={self.address}", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(self.server.kill)
        channel = grpc.insecure_channel(self.address)
        self.addCleanup(channel.close)
        grpc.channel_ready_future(channel).result(timeout=60)
        self.health = health_pb2_grpc.HealthStub(channel)
        mx.connect(self.address)

    def status(self, service):
        return self.health.Check(health_pb2.HealthCheckRequest(service=service)).status

    def compute_until_it_fails(self):
        with self.assertRaises(mx.MXNetError) as failure:
            for _ in range(100):
                nd.ones((4,), ctx=mx.gpu(0)).sum().asscalar()
        return str(failure.exception)

    def test_other_devices_go_on(self):
        self.start()
        serving, broken = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        self.assertEqual([self.status(name) for name in ("", "gpu:0", "gpu:1", "cpu")], [serving] * 4)
        self.assertIn("an illegal memory access was encountered", self.compute_until_it_fails())
        for _ in range(2):
            with self.assertRaisesRegex(mx.MXNetError, r"gpu:0: the device .* has failed, .*restart the server"):
                nd.ones((4,), ctx=mx.gpu(0)).asnumpy()
        self.assertEqual(nd.ones((4,), ctx=mx.gpu(1)).sum().asscalar(), 4)
        self.assertEqual(nd.ones((4,), ctx=mx.cpu()).sum().asscalar(), 4)
        for _ in range(100):
            if self.status("gpu:0") == broken:
                break
            time.sleep(0.1)
        self.assertEqual([self.status(name) for name in ("", "gpu:0", "gpu:1", "cpu")], [broken, broken, serving, serving])

    def test_the_process_ends_where_that_is_wanted(self):
        self.start("--exit_on_device_error")
        self.compute_until_it_fails()
        output = self.server.communicate(timeout=60)[0]
        self.assertEqual(self.server.returncode, 4)
        self.assertRegex(output, r"gpu:0: the device .* has failed")


if __name__ == "__main__":
    case_runner.main()
