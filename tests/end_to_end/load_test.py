"""`gluond load`: what it tells is what a real server counts."""

import json
import pathlib
import subprocess
import unittest

from tests import case_runner
from tests.server.published import PublishingServer

_BIN = pathlib.Path("client/cli/gluond")


def load(*arguments):
    return subprocess.run([_BIN, "load", *arguments], capture_output=True, text=True, timeout=120, check=False)


class LoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(PublishingServer())
        cls.server.define_echo("echo")
        cls.server.publish("echo", ["canary"], max_batch_size=8)

    def load(self, *arguments):
        """The figures of a run, which are checked against one another and against the server's counts."""
        before = self.server.count("echo")
        run = load("echo", f"--address={self.server.address}", "--json", *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        told = json.loads(run.stdout)
        after = self.server.count("echo")
        self.assertEqual(told["requests"], told["succeeded"] + told["failed"] + told["not_sent"])
        self.assertEqual(told["failed"], sum(error["count"] for error in told["errors"].values()))
        self.assertEqual(after["success"] - before["success"], told["succeeded"] + 1, "all and the first one, which warms up")
        for of in told["latency_ms"], told.get("lateness_ms", {}):
            percentiles = [of[name] for name in ("p50", "p90", "p95", "p99", "p99.9", "max") if of]
            self.assertEqual(percentiles, sorted(percentiles))
        self.assertGreater(told["latency_ms"]["p50"], 0)
        self.assertAlmostEqual(told["throughput"], told["succeeded"] / told["seconds"], delta=1e-6 * told["throughput"])
        return told

    def test_callers_ask_one_after_the_other(self):
        told = self.load("--concurrency=3", "--duration=500ms")
        self.assertGreaterEqual(told["succeeded"], 3)
        self.assertEqual((told["failed"], told["not_sent"], told["errors"]), (0, 0, {}))
        self.assertNotIn("lateness_ms", told, "nothing is due in a closed loop")

    def test_requests_of_a_rate_are_due_at_moments_that_the_seed_chooses(self):
        arguments = "--rate=200", "--duration=2s"
        told = [self.load(*arguments, f"--seed={seed}")["requests"] for seed in (1, 1, 2)]
        self.assertEqual(told[0], told[1])
        self.assertNotEqual(told[0], told[2])
        for requests in told:
            self.assertTrue(300 < requests < 500, told)  # 400 on average, and 20 more or fewer.

    def test_each_request_has_the_batch(self):
        before = self.server.count("echo")["inferences"]
        told = self.load("--version=canary", "--batch=5", "--concurrency=1", "--duration=200ms")
        self.assertEqual(self.server.count("echo")["inferences"] - before, 5 * (told["succeeded"] + 1))

    def test_those_beyond_the_most_in_flight_are_not_sent(self):
        told = self.load("--rate=20000", "--max_in_flight=1", "--duration=500ms")
        self.assertGreater(told["not_sent"], 0)
        self.assertEqual(told["failed"], 0)

    def test_errors_are_told_by_code_with_the_first_message(self):
        self.server.define_echo("full")
        # One request waits for others; those that come meanwhile are refused.
        self.server.publish("full", max_batch_size=8, max_queue_size=1, max_queue_delay_us="100000")
        run = load("full", f"--address={self.server.address}", "--rate=500", "--duration=1s", "--json")
        told, counted = json.loads(run.stdout), self.server.count("full")
        self.assertEqual(list(told["errors"]), ["UNAVAILABLE"])
        self.assertEqual(told["errors"]["UNAVAILABLE"]["count"], told["failed"])
        self.assertIn("max_queue_size", told["errors"]["UNAVAILABLE"]["message"])
        self.assertEqual((counted["success"], counted["fail"]), (told["succeeded"] + 1, told["failed"]))
        self.assertGreater(told["failed"], 0)

    def test_a_request_has_its_own_deadline(self):
        self.server.define_echo("slow")
        self.server.publish("slow", max_batch_size=8, max_queue_delay_us="300000")
        run = load("slow", f"--address={self.server.address}", "--concurrency=1", "--duration=200ms", "--timeout_ms=20", "--json")
        self.assertEqual(list(json.loads(run.stdout)["errors"]), ["DEADLINE_EXCEEDED"])

    def test_without_json_it_is_a_table(self):
        run = load("echo", f"--address={self.server.address}", "--rate=100", "--duration=300ms")
        self.assertEqual(
            [line.split("  ")[0] for line in run.stdout.splitlines()],
            ["requests", "succeeded", "failed", "p50", "p90", "p95", "p99", "p99.9", "longest", "sent late by"],
        )

    def test_what_cannot_work_is_told_in_one_sentence(self):
        for arguments, says in (
            (["none"], "none"),
            (["echo", "--version=7"], "version"),
            (["echo", "--version=gold"], "gold"),
            (["echo", "--batch=9"], "9 rows"),
            (["echo", "--method=gluond.v1.ModelService/Predict"], "want one of them"),
            (["--version=1"], "--version is a MODEL's"),
            (["--method=a.B/C"], "'a.B/C' is no unary method"),
            (["--request=@/nowhere"], "cannot be read"),
            (['--request={"opp": 1}'], "--request is no InvokeRequest in JSON"),
            (["echo", "--rate=5", "--concurrency=5"], "want one of them"),
            (["echo", "--rate=-1"], "--rate must be"),
            (["echo", "--rate=nan"], "--rate must be"),
            (["echo", "--concurrency=-1"], "--concurrency must be"),
            (["echo", "--duration=0s"], "--duration must be"),
            (["echo", "--duration=inf"], "--duration must be"),
            (["echo", "--batch=0"], "--batch must be"),
            (["echo", "--batch=100000000000"], "more than 1 GiB"),
            (["echo", "--max_integer=-1"], "--max_integer must"),
            (["echo", "--timeout_ms=-1"], "--timeout_ms must"),
            (["echo", "--max_in_flight=0"], "--max_in_flight must"),
            (["echo", "mlp"], "unexpected argument"),
        ):
            with self.subTest(arguments=arguments):
                run = load(*arguments, f"--address={self.server.address}")
                status = 2 if says == "unexpected argument" else 1  # A command line that cannot be read has the status 2.
                self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (status, "", 1), run.stderr)
                self.assertIn(says, run.stderr)


if __name__ == "__main__":
    case_runner.main()
