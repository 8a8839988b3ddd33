"""How long connections live, and the status with which the process ends."""

import queue
import subprocess
import time
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer, Waits
from tests.server.square_operators import SquareOperators, define_and_train, step_json
from tests.server.watched_server import WatchedServer
from tests.server.watched_server import WatchedServer

INFO = "/gluond.v1.ServerService/GetServerInfo"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


class ConnectionLifeTest(unittest.TestCase):
    def _connections(self, *flags, seconds=3):
        """How many connections a client makes that calls again and again, and the server's own count."""
        with WatchedServer(*flags) as server:
            call = server.channel.unary_unary(INFO)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                call(b"", timeout=20)  # A call that meets the end of a connection goes on with the next one.
                time.sleep(0.01)
            return server.value("gluond_connections_accepted_total")

    def test_an_old_connection_gives_way_to_a_new_one_without_an_error(self):
        self.assertEqual(self._connections(seconds=1), 1)
        self.assertGreater(self._connections("--max_connection_age_seconds=1", "--max_connection_age_grace_seconds=1"), 2)

    def test_a_call_that_outlives_its_connections_age_has_the_grace(self):
        for grace, expected in (("1", grpc.StatusCode.UNAVAILABLE), ("3600", None)):
            with RunningServer("--max_connection_age_seconds=1", f"--max_connection_age_grace_seconds={grace}") as server:
                with grpc.insecure_channel(server.address) as channel:
                    stream = channel.stream_stream(STREAM)(iter(queue.Queue().get, None))
                    try:
                        code = stream.exception(timeout=6).code()
                    except grpc.FutureTimeoutError:
                        code = None
                    self.assertEqual(code, expected, grace)
                    stream.cancel()


class ExitStatusTest(Waits, unittest.TestCase):
    """The statuses of docs/reference.md; 4 wants a GPU that fails (tests/gpu), 128 and more are the drain test's."""

    def test_a_start_that_is_refused(self):
        run = lambda *flags: subprocess.run([BINARY, "--devices=cpu", *flags], capture_output=True, text=True, timeout=60)
        self.assertEqual(run("--address=127.0.0.1:0", "--max_models=0").returncode, 1)
        self.assertEqual(run("--address=127.0.0.1:0", "--keepalive_seconds=-1").returncode, 1)
        self.assertEqual(run("stray").returncode, 2)
        self.assertEqual(run("--no_such_flag").returncode, 1)

    def test_a_clean_end_and_one_that_cut_a_call(self):
        with RunningServer() as server:
            self.assertEqual(server.stop()[0], 0)
        with RunningServer("--drain_seconds=0") as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            operators = SquareOperators(channel, client)
            define_and_train(client)
            step = client.start("gluond.v1.TrainingService", "TrainStep", step_json())
            operators.wait_for_forward()
            code, _, err = server.stop()
            self.assertEqual(code, 3, err)
            self.assertIn("were cut", err)
            self.assertIn(step.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE))
            operators.answer_forward()

    def test_an_end_that_could_not_save_its_models(self):
        with WatchedServer("--checkpoint_every=1steps") as server:
            (server.folder / "store/.live/.lock-m").mkdir()  # In the place of a file.
            server.define(trainer=False)
            self.until(lambda: server.value("gluond_failed_saves_total") > 0)
            code, _, err = server.stop()
        self.assertEqual(code, 5, err)
        self.assertEqual(err.count("the live checkpoint of model 'm' was not saved: "), 1, err)
        self.assertIn("1 models were not saved", err)


if __name__ == "__main__":
    case_runner.main()
