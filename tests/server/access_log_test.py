"""The logs of a running server: a line for each call, traces, levels, files that are moved, readers that do not read."""

import json
import os
import pathlib
import resource
import tempfile
import time
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer
from tests.server.watched_server import MODELS, WatchedServer

INFO, GET_MODEL = "/gluond.v1.ServerService/GetServerInfo", f"/{MODELS}/GetModel"
INFERENCE, SERVING = "inference.GRPCInferenceService", "gluond.v1.ServingService"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ALWAYS = {
    "time",
    "event",
    "level",
    "method",
    "code",
    "peer",
    "seconds",
    "bytes_in",
    "bytes_out",
    "messages_in",
    "messages_out",
    "request_id",
    "trace_id",
    "span_id",
}


def ask(channel, method, request=b"", metadata=()):
    """The code, and the trailing metadata as a dict."""
    call = channel.unary_unary(method)
    try:
        _, ended = call.with_call(request, metadata=metadata, timeout=60)
    except grpc.RpcError as error:
        ended = error
    return ended.code(), dict(ended.trailing_metadata())


class AccessLogTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "access.log")

    def lines(self, count=1, path=None):
        """The log's lines, when there are so many."""
        path, end = path or self.path, time.monotonic() + 30
        while True:
            lines = path.read_text().splitlines(keepends=True) if path.exists() else []
            whole = [json.loads(line) for line in lines if line.endswith("\n")]
            if len(whole) >= count:
                return whole
            self.assertLess(time.monotonic(), end, whole)
            time.sleep(0.02)

    def test_a_line_tells_of_each_call(self):
        with RunningServer(f"--access_log={self.path}") as server, grpc.insecure_channel(server.address) as channel:
            before = time.time()
            ask(channel, INFO)
            ask(channel, GET_MODEL, b"\n\x06nobody", (("x-request-id", "mine"),))
            ask(channel, "/no.Such/Method")
            server.stop()
            by_code = {line["code"]: line for line in self.lines(3)}
        good, failed, unknown = (by_code[code] for code in ("OK", "NOT_FOUND", "UNIMPLEMENTED"))
        self.assertEqual(set(good), ALWAYS)
        self.assertEqual((good["event"], good["level"], good["method"], good["code"]), ("call", "info", INFO, "OK"))
        self.assertEqual((good["bytes_in"], good["messages_in"], good["messages_out"]), (0, 1, 1))
        self.assertGreater(good["bytes_out"], 10)
        self.assertRegex(good["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
        self.assertRegex(good["request_id"], "^[0-9a-f]{16}$")
        self.assertRegex(good["trace_id"], "^[0-9a-f]{32}$")
        self.assertRegex(good["span_id"], "^[0-9a-f]{16}$")
        self.assertTrue(0 < good["seconds"] < 60, good)
        told = time.strptime(good["time"][:19], "%Y-%m-%dT%H:%M:%S")
        self.assertRegex(good["time"][19:], r"^\.\d{3}Z$")
        self.assertLess(abs(time.mktime(told) - time.mktime(time.gmtime(before))), 60)
        facts = ("level", "method", "code", "target", "request_id", "bytes_in", "bytes_out")
        self.assertEqual(
            {key: failed[key] for key in facts},
            {
                "level": "warning",
                "method": GET_MODEL,
                "code": "NOT_FOUND",
                "target": "nobody",
                "request_id": "mine",
                "bytes_in": 8,
                "bytes_out": 0,
            },
        )
        self.assertEqual((unknown["method"], unknown["code"]), ("unknown", "UNIMPLEMENTED"))

    def test_phases_models_and_streams_are_told(self):
        with WatchedServer(f"--access_log={self.path}") as server:
            server.define("digits")
            step = server.step("digits")["timing"]
            server.client.call(SERVING, "PublishModel", {"model": "digits"})
            server.client.call(
                INFERENCE,
                "ModelInfer",
                {
                    "modelName": "digits",
                    "inputs": [{"name": "data", "datatype": "FP32", "shape": [1, 4], "contents": {"fp32Contents": [1, 2, 3, 4]}}],
                },
            )
            server.stop()
        by_method = {line["method"].rsplit("/", 1)[1]: line for line in self.lines()}
        train = by_method["TrainStep"]
        self.assertEqual(train["target"], "digits")
        self.assertAlmostEqual(train["compute_seconds"], float(step["compute"].rstrip("s")), places=5)
        self.assertAlmostEqual(train["queue_seconds"], float(step["queue"].rstrip("s")), places=5)
        self.assertEqual(train["callback_seconds"], 0)
        infer = by_method["ModelInfer"]
        self.assertEqual(infer["target"], "digits")
        self.assertGreater(infer["compute_seconds"], 0)
        self.assertLessEqual(infer["queue_seconds"] + infer["compute_seconds"], infer["seconds"] + 2e-6)
        self.assertNotIn("compute_seconds", by_method["DefineModel"])
        reflection = by_method["ServerReflectionInfo"]
        self.assertGreaterEqual(reflection["messages_in"], 1)
        self.assertGreater(reflection["bytes_out"], 1000)

    def test_a_trace_goes_on_and_comes_back(self):
        with RunningServer(f"--access_log={self.path}") as server, grpc.insecure_channel(server.address) as channel:
            sent = f"00-{TRACE}-{PARENT}-01"
            good = ask(channel, INFO, metadata=(("traceparent", sent), ("x-request-id", "r-1")))[1]
            failed = ask(channel, GET_MODEL, b"\n\x06nobody", (("traceparent", sent),))[1]
            malformed = ask(channel, INFO, metadata=(("traceparent", sent.upper()), ("x-request-id", "r-2")))[1]
            without = ask(channel, INFO)[1]
            by_id = {line["request_id"]: line for line in self.lines(4)}
        self.assertEqual(good["x-request-id"], "r-1")
        of_good, of_failed, of_malformed = by_id["r-1"], by_id[failed["x-request-id"]], by_id["r-2"]
        self.assertEqual(of_failed["code"], "NOT_FOUND")
        for line, given in ((of_good, good), (of_failed, failed)):
            self.assertEqual((line["trace_id"], line["parent_id"]), (TRACE, PARENT))
            self.assertNotIn(line["span_id"], (PARENT, "0" * 16))
            self.assertEqual(given["traceparent"], f"00-{TRACE}-{line['span_id']}-01")
        self.assertNotEqual(of_good["span_id"], of_failed["span_id"])
        self.assertNotEqual(of_malformed["trace_id"], TRACE)
        self.assertNotIn("parent_id", of_malformed)
        self.assertEqual(malformed["traceparent"], f"00-{of_malformed['trace_id']}-{of_malformed['span_id']}-00")
        self.assertNotIn("traceparent", without)
        self.assertNotIn("x-request-id", without)

    def test_a_level_and_a_part_of_what_went_well(self):
        for flags, expected in (
            (("--access_log_every=3",), ["NOT_FOUND"] + ["OK"] * 3),
            (("--log_level=warning",), ["NOT_FOUND"]),
            (("--log_level=error",), []),
        ):
            path = self.path.with_name(flags[0])
            with RunningServer(f"--access_log={path}", *flags) as server, grpc.insecure_channel(server.address) as channel:
                for _ in range(7):
                    ask(channel, INFO)
                ask(channel, GET_MODEL, b"\n\x06nobody")
                err = server.stop()[2]
            self.assertEqual(sorted(line["code"] for line in self.lines(0, path)), expected)
            self.assertEqual("request_failed" in err, flags[0] != "--log_level=error")

    def test_failures_have_a_file_of_their_own(self):
        with RunningServer(f"--error_log={self.path}") as server, grpc.insecure_channel(server.address) as channel:
            ask(channel, INFO)
            ask(channel, GET_MODEL, b"\n\x06nobody")
            self.assertEqual(server.stop()[2], "")
        self.assertEqual([(line["event"], line["code"]) for line in self.lines()], [("request_failed", "NOT_FOUND")])

    def test_an_operator_changes_the_level_while_it_runs(self):
        with RunningServer(f"--access_log={self.path}") as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            set_to = lambda **settings: client.call(
                INFERENCE, "LogSettings", {"settings": {name: {"boolParam": value} for name, value in settings.items()}}
            )["settings"]
            told = set_to(log_info=False)
            self.assertEqual(
                {name: told[name].get("boolParam", False) for name in ("log_info", "log_warning", "log_error")},
                {"log_info": False, "log_warning": True, "log_error": True},
            )
            ask(channel, INFO)
            ask(channel, GET_MODEL, b"\n\x06nobody")
            end = time.monotonic() + 30
            while not any(line["method"] == GET_MODEL for line in self.lines(0)):
                self.assertLess(time.monotonic(), end, "no line")
                time.sleep(0.02)
            set_to(log_warning=False)
            ask(channel, GET_MODEL, b"\n\x06nobody")
            self.assertTrue(set_to(log_info=True)["log_info"]["boolParam"])
            ask(channel, INFO)
            err = server.stop()[2]
        lines = [line for line in self.lines() if line["method"] in (INFO, GET_MODEL)]
        self.assertCountEqual([(line["method"], line["code"]) for line in lines], [(GET_MODEL, "NOT_FOUND"), (INFO, "OK")])
        self.assertEqual(err.count("request_failed"), 1, err)

    def test_a_file_that_is_moved_away_is_begun_anew(self):
        moved = self.path.with_suffix(".1")
        with RunningServer(f"--access_log={self.path}") as server, grpc.insecure_channel(server.address) as channel:
            for number in range(3):
                ask(channel, INFO, metadata=(("x-request-id", f"old-{number}"),))
            self.lines(3)
            self.path.rename(moved)
            end = time.monotonic() + 30
            while not self.path.exists():  # Lines until then go to the file that was moved.
                self.assertLess(time.monotonic(), end, "no new file")
                time.sleep(0.05)
            for number in range(3):
                ask(channel, INFO, metadata=(("x-request-id", f"new-{number}"),))
            server.stop()
        self.assertEqual(sorted(line["request_id"] for line in self.lines(3, moved)), ["old-0", "old-1", "old-2"])
        self.assertEqual(sorted(line["request_id"] for line in self.lines(3)), ["new-0", "new-1", "new-2"])
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o640 & ~_umask())

    def test_lines_that_nobody_reads_are_counted(self):
        with WatchedServer("--access_log=-") as server:  # Nobody reads the standard output from here on.
            big = (("x-request-id", "i" * 128),)
            calls = 0
            while server.value("gluond_log_lines_dropped_total", log="stdout") == 0:
                for _ in range(500):
                    ask(server.channel, INFO, metadata=big)
                calls += 500
                self.assertLess(calls, 20_000)
            dropped = server.value("gluond_log_lines_dropped_total", log="stdout")
            self.assertLessEqual(dropped, calls)
            self.assertEqual(server.value("gluond_log_lines_dropped_total", log="stderr"), 0)
            _, out, _ = server.stop()
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        told = sum(line["lines"] for line in lines if line["event"] == "log_lines_dropped")
        self.assertGreaterEqual(told, dropped)
        self.assertEqual(sum(line.get("request_id") == "i" * 128 for line in lines) + told, calls)

    def test_a_full_disk_costs_lines_and_nothing_else(self):
        with WatchedServer(f"--access_log={self.path}") as server:
            ask(server.channel, INFO)
            self.lines(1)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600, 600))
            for _ in range(20):
                self.assertEqual(ask(server.channel, INFO)[0], grpc.StatusCode.OK)
            end = time.monotonic() + 30
            while server.value("gluond_log_lines_dropped_total", log="access") == 0:
                self.assertLess(time.monotonic(), end)
            self.assertEqual(server.stop()[0], 0)

    def test_wrong_flags_are_refused(self):
        for flag, expected in (
            (f"--access_log={self.path.parent}/no/such/folder", "cannot be written"),
            ("--access_log_every=0", "--access_log_every"),
            ("--log_level=loud", "info, warning or error"),
        ):
            with self.assertRaises(AssertionError) as refused:
                RunningServer(flag)
            self.assertIn(expected, str(refused.exception))


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    case_runner.main()
