"""Triton's perf_analyzer, unmodified, measures the real server: each of its ways to send load."""

from tests.peers import installed  # The first import: it goes on in another Python.
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

from tests import case_runner
from tests.server.published import PublishingServer


class PerfAnalyzerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(PublishingServer())
        cls.server.define_echo("echo")
        cls.server.publish("echo", max_batch_size=8)

    def analyze(self, *arguments):
        """What it prints, after a run without errors of whose inferences the server knows."""
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder, "table.csv")
            before = self.server.count("echo")
            # A measurement counts however noisy the machine is: two windows of 50 requests, of any spread.
            run = subprocess.run(
                [
                    installed.PERF_ANALYZER,
                    "-m",
                    "echo",
                    "-i",
                    "grpc",
                    "-u",
                    self.server.address,
                    "-f",
                    table,
                    "--measurement-mode=count_windows",
                    "--measurement-request-count=50",
                    "--stability-percentage=100000",
                    "--max-trials=5",
                    *arguments,
                ],
                env={**os.environ, "LD_LIBRARY_PATH": str(installed.CUDA_RUNTIME)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertNotRegex(run.stdout, "(?i)error|failed")
            [row] = csv.DictReader(table.read_text().splitlines())
            self.assertGreater(float(row["Inferences/Second"]), 0)
            counted = self.server.count("echo")
            self.assertEqual(counted["fail"], before["fail"], run.stdout)
            self.assertGreaterEqual(counted["success"] - before["success"], 50)
            self.assertIn("Successful request count", run.stdout, "it reads the server's statistics")
            return run.stdout

    def test_callers_at_once(self):
        for each in (["--concurrency-range=2"], ["--concurrency-range=4", "--async"], ["--concurrency-range=2", "-b", "4"]):
            with self.subTest(each):
                self.analyze(*each)

    def test_a_rate_of_requests(self):
        for distribution in "constant", "poisson":
            with self.subTest(distribution):
                told = self.analyze("--request-rate-range=100", "--async", f"--request-distribution={distribution}")
                self.assertIn("Request Rate: 100", told)

    def test_a_stream(self):
        self.analyze("--concurrency-range=2", "--async", "--streaming")


if __name__ == "__main__":
    case_runner.main()
