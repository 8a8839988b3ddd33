"""Whatever happens, each line of a server on stderr is an event: JSON with its time, its level and a word for what it is."""

import datetime
import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import grpc

from tests import case_runner
from tests.server.running_server import BINARY, RunningServer, Waits
from tests.server.watched_server import WatchedServer

REFUSED = {
    "--max_models=-1": "--max_models is -1",
    "stray": "'stray' is no flag",
    "--no_such_flag": "no_such_flag",
    "--max_models=many": "max_models",
    "--address=127.0.0.1:http": "is no address",
    "--devices=tpu": "tpu",
    "--passes=-simplify,-plan_memory": "'-plan_memory' is no optional pass",
}


def events(text):
    """The lines of stderr, each as what it says."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert line["level"] in ("info", "warning", "error"), line
        assert line["event"].replace("_", "").islower(), line
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
        assert abs(age.total_seconds()) < 3600, line
    return lines


def levels(text):
    return {line["event"]: line["level"] for line in events(text)}


class EventsTest(Waits, unittest.TestCase):
    def test_a_busy_run_that_cannot_save(self):
        with WatchedServer(
            "--devices=auto", "--cuda_plugin=/no/such/file", "--checkpoint_every=1steps", "--max_models=1", "--log_level=info"
        ) as server:
            shutil.rmtree(server.folder / "store" / ".live", ignore_errors=True)
            (server.folder / "store" / ".live").write_text("a file in the place of a folder")
            server.define()
            server.step()
            with self.assertRaises(grpc.RpcError):
                server.define("another")
            server.process.send_signal(signal.SIGHUP)
            self.until(lambda: server.value("gluond_failed_saves_total") > 0)
            code, _, err = server.stop()
        self.assertEqual(code, 5, err)
        self.assertEqual(
            levels(err),
            {
                "no_gpu": "warning",
                "request_failed": "warning",
                "serve_not_read": "warning",
                "model_not_saved": "error",
                "models_not_saved": "error",
            },
        )

    def test_files_that_are_broken_while_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            identities, serve, log = (os.path.join(folder, name) for name in ("identities", "serve.yaml", "logs/access"))
            os.mkdir(os.path.dirname(log))
            for path, text in ((identities, f"ann train sha256:{'0' * 64}\n"), (serve, "models: {}\n")):
                with open(path, "w") as file:
                    file.write(text)
            with RunningServer(f"--identities={identities}", f"--serve={serve}", f"--access_log={log}") as server:
                with grpc.insecure_channel(server.address) as channel, self.assertRaises(grpc.RpcError):
                    channel.unary_unary("/gluond.v1.ModelService/DeleteModel")(b"", timeout=20)
                server.process.send_signal(signal.SIGHUP)
                time.sleep(1)
                for path in (identities, serve):
                    with open(path, "w") as file:
                        file.write("no line of such a file: ][\n")
                shutil.rmtree(os.path.dirname(log))
                server.process.send_signal(signal.SIGHUP)
                time.sleep(3)  # The files are looked at every second.
                code, _, err = server.stop()
        self.assertEqual(code, 0, err)
        told = levels(err)
        self.assertEqual(
            {event: told.get(event) for event in ("serve_read", "serve_not_read", "file_not_taken_up", "log_not_followed")},
            {"serve_read": "info", "serve_not_read": "error", "file_not_taken_up": "error", "log_not_followed": "error"},
        )
        self.assertEqual(told["request_failed"], "warning")

    def test_a_promise_of_a_better_processor(self):
        with WatchedServer() as server:
            server.define(trainer=False)
            try:
                server.client.call(
                    "gluond.v1.ServingService",
                    "PublishModel",
                    {"model": "m", "options": {"max_batch_size": 4, "batch_invariant": True}},
                )
            except grpc.RpcError as error:
                self.assertIn("this processor has no AVX-512", error.details())
                return
            server.stop()
            with mock.patch.dict(os.environ, DNNL_MAX_CPU_ISA="AVX2"):
                server.start()
            _, _, err = server.stop()
        self.assertEqual(levels(err)["batch_invariance_lost"], "warning", err)

    def test_a_version_that_computes_its_models_graph_as_it_is(self):
        with WatchedServer() as server:
            graph = {
                "nodes": [
                    {"name": "e", "op": "exp", "inputs": ["w"]},
                    {"name": "y", "op": "broadcast_add", "inputs": ["x", "e"]},
                ],
                "outputs": ["y"],
            }
            variables = [{"name": "x", "kind": "INPUT", "shape": [-1, 2]}, {"name": "w", "kind": "PARAMETER", "shape": [1, 2]}]
            models = "gluond.v1.ModelService"
            server.client.call(models, "DefineModel", {"model": "m", "graph": graph, "variables": variables})
            for value, number in ((1.0, "1"), (1000.0, "2")):
                values = {"w": {"shape": [1, 2], "floatData": [value, value]}}
                server.client.call(models, "SetParameters", {"model": "m", "parameters": values})
                answer = server.client.call("gluond.v1.ServingService", "PublishModel", {"model": "m"})
                self.assertEqual(answer["version"]["version"], number)
            _, _, err = server.stop()
        (line,) = [each for each in events(err) if each["event"] == "version_not_rewritten"]
        self.assertEqual(line["level"], "warning")
        self.assertIn("version 2 of 'm'", line["message"])
        self.assertIn("not finite", line["message"])

    def test_a_start_that_is_refused_is_one(self):
        for flag, why in REFUSED.items():
            result = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", flag], capture_output=True, text=True, timeout=60, check=False
            )
            self.assertNotEqual(result.returncode, 0, flag)
            (line,) = events(result.stderr)
            self.assertEqual((line["event"], line["level"]), ("start_refused", "error"))
            self.assertIn(why, line["message"])

    def test_on_a_terminal_that_is_a_sentence(self):
        for flag, why in REFUSED.items():
            ours, its = pty.openpty()
            with subprocess.Popen([BINARY, "--devices=cpu", "--address=127.0.0.1:0", flag], stderr=its) as process:
                os.close(its)
                self.assertNotEqual(process.wait(timeout=60), 0, flag)
            text = os.read(ours, 1 << 16).decode()
            os.close(ours)
            self.assertRegex(text, r"\Agluond-server: [^\r\n]+\r\n\Z")
            self.assertIn(why, text)


if __name__ == "__main__":
    case_runner.main()
