"""How a server stops, whatever is under way."""

import contextlib
import signal
import time
import unittest

from google.protobuf import json_format
import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer
from tests.server.square_operators import SquareOperators, define_and_train, step_json


class DrainTest(unittest.TestCase):
    """SIGTERM: NOT_SERVING, then no new calls; finish and exit with 0, or cut and exit with 3."""

    def _watch(self, channel, client):
        client.find("grpc.health.v1.Health")
        request = client.prototype("grpc.health.v1.HealthCheckRequest")
        reply = client.prototype("grpc.health.v1.HealthCheckResponse")
        return channel.unary_stream("/grpc.health.v1.Health/Watch", request.SerializeToString, reply.FromString)(request())

    @contextlib.contextmanager
    def _stopping(self, flag):
        """A server that has just told those who watch its health that it stops, and a client of it."""
        with RunningServer(flag) as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            watch = self._watch(channel, client)
            self.assertEqual(next(watch).status, 1)
            server.process.terminate()
            self.assertEqual(next(watch).status, 2)
            yield server, client

    def test_watchers_are_told_and_the_server_exits_with_0(self):
        with self._stopping("--drain_seconds=1") as (server, _):
            out, err = server.process.communicate(timeout=60)  # A second signal might cut it short.
            self.assertEqual(server.process.returncode, 0, err)
            self.assertIn("stopped", out)

    def test_a_call_under_way_ends_or_is_cancelled(self):
        for drain, expected, exits in (("60", grpc.StatusCode.OK, (0,)), ("0", None, (0, 3))):
            with RunningServer(f"--drain_seconds={drain}") as server, grpc.insecure_channel(server.address) as channel:
                client = Reflection(channel)
                found = client.find("gluond.v1.OperatorService").methods_by_name["CheckGradient"]
                request = client.prototype(found.input_type.full_name)()
                json_format.ParseDict(
                    {
                        "op": "dot",
                        "inputs": [
                            {"shape": [50, 100], "fill": {"normal": {"seed": "1"}}},
                            {"shape": [100, 50], "fill": {"normal": {"seed": "2"}}},
                        ],
                    },
                    request,
                )
                stub = channel.unary_unary("/gluond.v1.OperatorService/CheckGradient", type(request).SerializeToString, bytes)
                call = stub.future(request, timeout=120)
                while not call.running():
                    pass
                client.call("gluond.v1.ServerService", "GetServerInfo", {})  # By then the call has arrived.
                server.process.terminate()
                code, _, err = server.stop(timeout=100)
                self.assertIn(code, exits, err)
                if code == 3:
                    self.assertIn("1 calls or sessions had not ended", err)
                if expected is not None:
                    self.assertEqual(call.code(), expected)
                else:
                    self.assertIn(call.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK))

    def test_for_the_lame_ducks_time_calls_are_taken_as_before(self):
        with self._stopping("--lame_duck_seconds=3600") as (_, client):
            self.assertIn("version", client.call("gluond.v1.ServerService", "GetServerInfo", {}))

    def test_a_second_signal_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with RunningServer("--lame_duck_seconds=3600") as server:
                while server.process.poll() is None:  # The first of them; for a moment those that follow are the same one.
                    server.process.send_signal(number)
                    time.sleep(0.05)
                self.assertEqual(server.process.returncode, 128 + number)

    def test_a_step_that_needs_its_clients_operator_ends(self):
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            operators = SquareOperators(channel, client)
            define_and_train(client)
            watch = self._watch(channel, client)
            next(watch)
            step = client.start("gluond.v1.TrainingService", "TrainStep", step_json())
            operators.wait_for_forward()
            server.process.terminate()
            self.assertEqual(next(watch).status, 2)
            self.assertIn("stopping", self._refusal(client))
            operators.answer_forward()
            self.assertEqual(step.exception(timeout=60), None)
            operators.join()  # Its stream ends, after the calls that needed it.
            self.assertEqual(server.process.wait(timeout=60), 0)  # A second signal would cut it short.

    def _refusal(self, client):
        """The text with which a draining server refuses a call; who watches over it is answered."""
        while True:
            self.assertEqual(client.call("grpc.health.v1.Health", "Check", {}), {"status": "NOT_SERVING"})
            self.assertIn("version", client.call("gluond.v1.ServerService", "GetServerInfo", {}))
            try:
                client.call("gluond.v1.ModelService", "ListModels", {})
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return error.details()


if __name__ == "__main__":
    case_runner.main()
