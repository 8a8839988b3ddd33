"""What a server shows of itself over HTTP: metrics, and whether it is ready."""

import concurrent.futures
import contextlib
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest

import grpc

from tests import case_runner
from tests.server import exposition
from tests.server.running_server import BINARY, RunningServer, Waits
from tests.server.square_operators import SquareOperators, define_and_train, step_json
from tests.server.watched_server import MODELS, WatchedServer, get

SERVING, INFERENCE = "gluond.v1.ServingService", "inference.GRPCInferenceService"


def send(port, data):
    """What the server answers to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        with connection.makefile("rb") as reply, contextlib.suppress(ConnectionResetError):
            return reply.read()
    return b""


class MetricsTest(Waits, unittest.TestCase):
    def test_calls_are_counted_once_by_method_and_code(self):
        info, model, nothing = "/gluond.v1.ServerService/GetServerInfo", f"/{MODELS}/GetModel", "/gluond.v1.No/Thing"
        with WatchedServer() as server:
            for method, times, code in ((info, 7, "OK"), (model, 3, "NOT_FOUND"), (nothing, 2, "UNIMPLEMENTED")):
                for _ in range(times):
                    try:
                        server.channel.unary_unary(method)(b"\n\x06nobody" if method == model else b"", timeout=20)
                        self.assertEqual(code, "OK")
                    except grpc.RpcError as error:
                        self.assertEqual(error.code().name, code)
            families = server.scrape()
            for method, times, code in ((info, 7, "OK"), (model, 3, "NOT_FOUND"), ("unknown", 2, "UNIMPLEMENTED")):
                self.assertEqual(exposition.value(families, "gluond_requests_total", method=method, code=code), times)
                self.assertEqual(exposition.value(families, "gluond_request_seconds_count", method=method), times)
                self.assertGreater(exposition.value(families, "gluond_request_seconds_sum", method=method), 0)
            self.assertEqual(exposition.value(families, "gluond_requests_total", method=model, code="OK"), 0)
            self.assertEqual(exposition.value(families, "gluond_requests_in_flight"), 0)
            self.assertGreaterEqual(exposition.value(families, "gluond_connections"), 1)

    def test_a_refusal_names_its_limit(self):
        with WatchedServer("--max_models=1") as server:
            server.define("one", trainer=False)
            self.assertEqual(server.value("gluond_refusals_total", limit="--max_models"), 0)
            for _ in range(2):
                with self.assertRaises(grpc.RpcError):
                    server.define("two", trainer=False)
            self.assertEqual(server.value("gluond_refusals_total", limit="--max_models"), 2)

    def test_queues_memory_and_the_process_are_shown(self):
        with WatchedServer() as server:
            server.define()
            families = server.scrape()
            for queue in ("worker", "disk", "cpu", "cpu-beside", "serving", "serving-beside"):
                self.assertEqual(exposition.value(families, "gluond_dispatch_queue_length", queue=queue), 0)
            self.assertGreater(exposition.value(families, "gluond_dispatch_works_total", queue="cpu"), 0)
            self.assertGreater(exposition.value(families, "gluond_dispatch_busy_seconds_total", queue="cpu"), 0)
            for owner in ("process", "cpu"):
                self.assertGreater(exposition.value(families, "gluond_memory_bytes", owner=owner), 0)
                self.assertGreater(exposition.value(families, "gluond_memory_limit_bytes", owner=owner), 0)
            for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "gluond_store_bytes"):
                self.assertIsNotNone(exposition.value(families, name), name)
            self.assertLess(abs(exposition.value(families, "process_start_time_seconds") - time.time()), 60)

    def test_two_builds_of_a_release_are_told_apart(self):
        told = re.fullmatch(
            r"gluond-server (\S+) \((\S+)\)\n",
            subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout,
        )
        with WatchedServer() as server:
            self.assertEqual(server.value("gluond_build_info", version=told[1], commit=told[2]), 1)

    def test_training_is_shown_until_the_model_goes(self):
        with WatchedServer() as server:
            server.define()
            self.assertEqual(server.value("gluond_model_steps_total", model="m"), 0)
            for _ in range(5):
                answer = server.step(rows=2)
            families = server.scrape()
            self.assertEqual(exposition.value(families, "gluond_model_steps_total", model="m"), 5)
            self.assertEqual(exposition.value(families, "gluond_model_samples_total", model="m"), 10)
            self.assertAlmostEqual(exposition.value(families, "gluond_model_loss", model="m"), answer["loss"], places=5)
            self.assertAlmostEqual(
                exposition.value(families, "gluond_model_gradient_norm", model="m"), answer["report"]["gradientNorm"], places=5
            )
            self.assertEqual(exposition.value(families, "gluond_model_queue_depth", model="m"), 0)
            self.assertEqual(exposition.value(families, "gluond_phase_seconds_count", phase="compute"), 5)
            server.client.call(MODELS, "DeleteModel", {"model": "m"})
            families = server.scrape()
            self.assertEqual(exposition.series(families, model="m"), set())
            self.assertEqual(exposition.value(families, "gluond_models"), 0)

    def test_the_age_of_a_models_checkpoint_is_shown_while_the_model_has_changed(self):
        with WatchedServer("--checkpoint_every=2steps") as server:
            age = lambda: server.value("gluond_model_checkpoint_age_seconds", model="m")
            server.define()
            self.until(lambda: age() == 0)
            server.step()
            self.assertGreater(age(), 0)
            server.step()
            self.until(lambda: age() == 0)

    def test_callbacks_are_counted_when_they_are_answered(self):
        with WatchedServer() as server:
            operators = SquareOperators(server.channel, server.client)
            self.assertEqual(server.value("gluond_callback_clients"), 1)
            define_and_train(server.client)
            step = server.client.start("gluond.v1.TrainingService", "TrainStep", step_json())
            operators.wait_for_forward()
            families = server.scrape()
            self.assertEqual(exposition.value(families, "gluond_callbacks_waiting"), 1)
            asked = exposition.value(families, "gluond_callback_seconds_count")
            operators.answer_forward()
            callbacks = step.result().timing.callbacks
            families = server.scrape()
            self.assertEqual(exposition.value(families, "gluond_callbacks_waiting"), 0)
            self.assertEqual(exposition.value(families, "gluond_callback_seconds_count"), operators.answers)
            self.assertGreaterEqual(operators.answers, asked + callbacks)
            self.assertEqual(exposition.value(families, "gluond_phase_seconds_count", phase="callbacks"), 1)

    def test_what_a_client_has_brought_about_is_no_fault_of_the_server(self):
        with WatchedServer() as server:
            operators = SquareOperators(server.channel, server.client)
            define_and_train(server.client)
            step = server.client.start("gluond.v1.TrainingService", "TrainStep", step_json())
            operators.wait_for_forward()
            operators.answer_forward(failure={"type": "ValueError", "message": "no"})
            self.assertEqual(step.exception().code(), grpc.StatusCode.FAILED_PRECONDITION)
            operators.leave()
            with self.assertRaises(grpc.RpcError) as gone:
                server.client.call("gluond.v1.TrainingService", "TrainStep", step_json())
            self.assertEqual(gone.exception.code(), grpc.StatusCode.UNAVAILABLE)
            families = server.scrape()
            for kind in ("call", "session_command"):
                for code in ("UNKNOWN", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"):
                    self.assertEqual(exposition.value(families, "gluond_server_faults_total", kind=kind, code=code), 0, code)

    def test_a_checkpoint_that_the_disk_has_lost_is_one(self):
        with WatchedServer() as server:
            server.define()
            server.client.call(MODELS, "SaveCheckpoint", {"model": "m", "checkpoint": "c"})
            for file in (server.folder / "store" / "c").rglob("*.safetensors"):
                file.write_bytes(file.read_bytes()[:-1] + b"!")
            with self.assertRaises(grpc.RpcError) as lost:
                server.client.call(MODELS, "LoadCheckpoint", {"model": "m", "checkpoint": "c"})
            self.assertEqual(lost.exception.code(), grpc.StatusCode.DATA_LOSS)
            self.assertEqual(server.value("gluond_server_faults_total", kind="call", code="DATA_LOSS"), 1)

    def test_serving_is_shown_until_the_version_goes(self):
        with WatchedServer() as server:
            server.define()
            server.client.call(SERVING, "PublishModel", {"model": "m", "labels": ["stable"], "options": {"maxBatchSize": 8}})
            for rows in (1, 3, 3):
                server.client.call(
                    INFERENCE,
                    "ModelInfer",
                    {
                        "modelName": "m",
                        "inputs": [
                            {"name": "data", "datatype": "FP32", "shape": [rows, 4], "contents": {"fp32Contents": [0] * 4 * rows}}
                        ],
                    },
                )
            families = server.scrape()
            of = {"model": "m", "version": "1"}
            self.assertEqual(exposition.value(families, "gluond_inference_requests_total", result="success", **of), 3)
            for bound, count in (("1", 1), ("2", 1), ("4", 3), ("+Inf", 3)):
                self.assertEqual(exposition.value(families, "gluond_inference_batch_size_bucket", le=bound, **of), count)
            self.assertEqual(exposition.value(families, "gluond_inference_batch_size_sum", **of), 7)
            self.assertEqual(exposition.value(families, "gluond_inference_queue_length", **of), 0)
            for phase in ("queue", "input", "infer", "output"):
                self.assertEqual(exposition.value(families, "gluond_inference_phase_seconds_count", phase=phase, **of), 3)
            self.assertGreater(exposition.value(families, "gluond_inference_phase_seconds_sum", phase="infer", **of), 0)
            server.client.call(SERVING, "RouteVersions", {"served": "m", "labels": {"stable": 0}})
            server.client.call(SERVING, "RetireVersion", {"served": "m", "version": 1})
            self.assertEqual(exposition.series(server.scrape(), version="1"), set())

    def test_documents_rules_and_dashboard_name_the_metrics_that_there_are(self):
        with WatchedServer("--max_models=1") as server:
            server.define()
            server.step()
            server.client.call(SERVING, "PublishModel", {"model": "m"})
            with self.assertRaises(grpc.RpcError):
                server.define("another")
            families = server.scrape()
            with WatchedServer(f"--follow={server.address}") as follower, WatchedServer(
                "--group=127.0.0.1:0", "--group_role=leader"
            ) as leader:
                families = {**follower.scrape(), **leader.scrape(), **families}
        names = lambda path: set(re.findall(r"\b(?:gluond|process)[_:][a-z_:0-9]+", pathlib.Path(path).read_text()))
        # There is none without certificates, and without a model in the store.
        elsewhere = {"gluond_certificate_expiry_timestamp_seconds", "gluond_model_checkpoint_age_seconds"}
        self.assertEqual(names("docs/reference.md") - elsewhere, set(families))
        recorded = set(re.findall(r"record: (\S+)", pathlib.Path("deploy/prometheus/rules.yml").read_text()))
        samples = {name for family in families.values() for name, _ in family.samples}
        for path in ("deploy/prometheus/rules.yml", "deploy/grafana/gluond.json"):
            self.assertGreater(len(names(path)), 5)
            self.assertEqual(names(path) - samples - recorded - elsewhere, set(), path)

    def test_the_document_says_what_to_do_at_each_alert(self):
        alerts = re.findall(r"alert: (\S+)", pathlib.Path("deploy/prometheus/rules.yml").read_text())
        told = re.findall(r"^\| (Gluond[\w, ]+) \|", pathlib.Path("docs/reference.md").read_text(), re.M)
        self.assertEqual([name for names in told for name in names.split(", ")], alerts)

    def test_a_flood_of_scrapes_waits_in_line(self):
        with WatchedServer() as server, concurrent.futures.ThreadPoolExecutor(32) as pool:
            scrapes = [pool.submit(server.scrape) for _ in range(400)]
            for _ in range(20):
                server.client.call("gluond.v1.ServerService", "GetServerInfo", {})
            for scrape in scrapes:
                self.assertEqual(exposition.value(scrape.result(), "gluond_models"), 0)


class PagesTest(unittest.TestCase):
    def test_by_default_nothing_listens(self):
        with RunningServer() as server:
            _, out, _ = server.stop()
            self.assertNotIn("metrics", out)

    def test_all_but_a_get_of_three_pages_is_refused(self):
        with WatchedServer() as server:
            self.assertEqual(get(server.port, "/healthz"), (200, "ok\n"))
            for expected, request in (
                (404, {"path": "/"}),
                (404, {"path": "/metrics/"}),
                (404, {"path": "/../etc/passwd"}),
                (405, {"method": "POST", "body": b"x"}),
                (405, {"method": "HEAD"}),
                (405, {"path": "/readyz", "method": "DELETE"}),
                (413, {"body": b"x" * 10}),
            ):
                with self.subTest(**request):
                    status, text = get(server.port, **request)
                    self.assertEqual(status, expected)
                    self.assertLess(len(text), 100)
            self.assertEqual(get(server.port, "/metrics?name=x")[0], 200)

    def test_rubbish_harms_nobody(self):
        with WatchedServer() as server:
            for data in (
                b"\r\n\r\n",
                b"\0" * 100,
                b"GET\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET " + b"/" * 20000 + b" HTTP/1.1\r\n\r\n",
                b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
                b"GET /metrics HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==\r\n"
                b"Sec-WebSocket-Version: 13\r\n\r\n",
            ):
                with self.subTest(data=data[:60]):
                    answer = send(server.port, data)
                    self.assertNotIn(b"101 Switching", answer)
                    self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 "), answer[:100])
            self.assertEqual(get(server.port, "/healthz")[0], 200)

    def test_a_body_without_an_end_is_not_read(self):
        with WatchedServer() as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                for _ in range(100):
                    connection.sendall(b"1\r\nx\r\n")
                    time.sleep(0.1)

    def test_silent_connections_make_a_scrape_wait_for_seconds_only(self):
        with WatchedServer() as server, contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            begun = time.monotonic()
            server.scrape()
            self.assertLess(time.monotonic() - begun, 15)

    def test_a_token_guards_the_metrics_and_may_change(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("first-secret\n")
            with WatchedServer(f"--metrics_token_file={token}") as server:
                ask = lambda told: get(server.port, Authorization=told)[0]
                for wrong in (
                    "",
                    "Bearer",
                    "Bearer ",
                    "Bearer first",
                    "Bearer first-secret2",
                    "first-secret",
                    "Basic first-secret",
                ):
                    self.assertEqual(ask(wrong), 401, wrong)
                self.assertEqual(get(server.port)[0], 401)
                self.assertEqual(ask("Bearer first-secret"), 200)
                token.write_text("second-secret")
                self.assertEqual([ask("Bearer first-secret"), ask("Bearer second-secret")], [401, 200])
                for lost in ("", "\n"):
                    token.write_text(lost)
                    self.assertEqual([ask("Bearer "), ask("Bearer"), ask("Bearer second-secret")], [401] * 3)
                self.assertEqual(get(server.port, "/readyz"), (200, "ready\n"))

    def test_an_address_for_others_needs_a_token_or_to_be_allowed(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = pathlib.Path(folder, "token")
            empty.write_text("\n")
            for flags, expected in (
                (["--metrics_address=0.0.0.0:0"], "--metrics_token_file"),
                (["--metrics_address=10.0.0.1:0"], "--insecure_public=metrics"),
                (["--metrics_address=9100"], "IP:PORT"),
                (["--metrics_address=unix:/tmp/s"], "IP:PORT"),
                (["--metrics_address=127.0.0.1:9100s"], "IP:PORT"),
                (["--metrics_address=127.0.0.1:0", f"--metrics_token_file={empty}"], "no token"),
                (["--metrics_address=127.0.0.1:0", "--metrics_token_file=/no/such"], "no token"),
            ):
                result = subprocess.run(
                    [BINARY, "--devices=cpu", "--address=127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60
                )
                self.assertEqual(result.returncode, 1, flags)
                self.assertIn(expected, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_an_address_that_is_taken_is_refused(self):
        with WatchedServer() as server:
            result = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--metrics_address=127.0.0.1:{server.port}"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, re.escape(f"--metrics_address=127.0.0.1:{server.port}"))

    def test_a_server_that_stops_is_healthy_but_not_ready(self):
        with WatchedServer("--lame_duck_seconds=5") as server:
            self.assertEqual(get(server.port, "/readyz"), (200, "ready\n"))
            server.process.terminate()
            end = time.monotonic() + 4
            while (answer := get(server.port, "/readyz"))[0] == 200 and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(answer, (503, "the server is stopping\n"))
            self.assertEqual(get(server.port, "/healthz"), (200, "ok\n"))
            self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    case_runner.main()
