"""A server that begins with the models of its store: it is not ready before all are there."""

import socket
import subprocess
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer

_MODELS = "gluond.v1.ModelService"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponses.


def _connected(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


class RestartTest(unittest.TestCase):
    def test_it_is_not_serving_until_its_models_are_there(self):
        with RunningServer() as first:
            with grpc.insecure_channel(first.address) as channel:
                client = Reflection(channel)
                client.find(_MODELS)
                client.call(
                    _MODELS,
                    "DefineModel",
                    {
                        "model": "big",
                        "block": {"block": "Dense", "attributes": {"units": 30000}},
                        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1000]}],
                    },
                )
                client.call(_MODELS, "InitializeParameters", {"model": "big"})
            code, _, err = first.stop()
            self.assertEqual((code, err), (0, ""))
            second = subprocess.Popen(
                [BINARY, f"--address={first.address}", "--devices=cpu", f"--store_dir={first.folder}/store"],
                stdout=subprocess.DEVNULL,
            )
            try:
                port = int(first.address.rpartition(":")[2])
                while not _connected(port):
                    self.assertIsNone(second.poll())
                seen = []
                with grpc.insecure_channel(first.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                    health = channel.unary_unary("/grpc.health.v1.Health/Check")
                    get_model = channel.unary_unary(f"/{_MODELS}/GetModel")
                    while not seen or seen[-1] != _SERVING:
                        seen.append(health(b"", timeout=20))
                        if len(seen) == 1:
                            with self.assertRaises(grpc.RpcError) as refused:
                                get_model(b"\x0a\x03big", timeout=20)
                            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
                            self.assertIn("loading", refused.exception.details())
                    self.assertEqual(set(seen), {_NOT_SERVING, _SERVING})
                    self.assertIn(b"big", get_model(b"\x0a\x03big", timeout=20))
            finally:
                second.kill()
                second.wait()

    def test_a_store_is_one_servers_at_a_time(self):
        with RunningServer() as first:
            store = f"--store_dir={first.folder}/store"
            run = lambda *flags: subprocess.run(
                [BINARY, "--address=127.0.0.1:0", "--devices=cpu", store, *flags], capture_output=True, text=True, timeout=60
            )
            second = run()
            self.assertEqual(second.returncode, 1)
            self.assertRegex(second.stderr, r'\A[^\n]+"message":"--store_dir=\S+ is another server\'s[^\n]+\n\Z')
            self.assertEqual(run("--check").returncode, 0)
            first.process.kill()  # The next one need not wait for its end.
            with RunningServer(store) as next_one:
                self.assertEqual(next_one.stop()[0], 0)


if __name__ == "__main__":
    case_runner.main()
