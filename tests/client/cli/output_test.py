"""A command that could not write what it was asked for has failed; a reader that has seen enough has not."""

import pathlib
import re
import subprocess
import time
import unittest

from tests import case_runner
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond")
_FULL = "gluond: the standard output could not be written"


def run(*arguments, stdout=subprocess.PIPE):
    return subprocess.run([_BIN, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


class OutputTest(unittest.TestCase):
    def commands(self):
        return re.findall(r"^  (\w+) ", run("--help").stdout, re.M)

    def test_a_full_disk_is_told_by_each_command(self):
        self.assertGreater(len(self.commands()), 10)
        with open("/dev/full", "w") as full:
            for arguments in (("--help",), ("--version",), *((command, "--help") for command in self.commands())):
                result = run(*arguments, stdout=full)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertTrue(result.stderr.startswith(_FULL), result.stderr)

    def test_so_it_is_by_what_they_list(self):
        with RunningServer() as server, open("/dev/full", "w") as full:
            for arguments in (
                ("operators",),
                ("operators", "dot"),
                ("models",),
                ("checkpoints",),
                ("datasets",),
                ("sessions",),
                ("versions",),
                ("health",),
                ("load", "--duration=100ms"),
            ):  # Some of them are too long for one write.
                result = run(*arguments, f"--address={server.address}", stdout=full)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertTrue(result.stderr.startswith(_FULL), result.stderr)

    def test_a_closed_output_is_as_good_as_a_full_one(self):
        result = subprocess.run(["/bin/sh", "-c", f"{_BIN} --help >&-"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the standard output could not be written", result.stderr)

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        with RunningServer() as server:
            for before in ("", "trap '' PIPE; "):
                result = subprocess.run(
                    f"{before}{_BIN} operators --address={server.address} | head -1",
                    shell=True,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual((result.stdout.count("\n"), result.stderr), (1, ""))


class LoadTest(unittest.TestCase):
    def test_load_ends_with_a_status_where_requests_failed(self):
        with RunningServer() as server:
            flags = ("load", f"--address={server.address}", "--concurrency=2", "--json")
            went_well = run(*flags, "--duration=300ms")
            self.assertEqual((went_well.returncode, went_well.stderr), (0, ""))
            with subprocess.Popen(
                [_BIN, *flags, "--duration=4s", "--timeout_ms=500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as load:
                time.sleep(2)  # The first requests are answered, and others will not be.
                server.process.kill()
                out, err = load.communicate(timeout=120)
            self.assertEqual(load.returncode, 1)
            self.assertRegex(err, r"\Agluond load: [1-9]\d* of [1-9]\d* requests failed; the report says how\.\n\Z")
            self.assertIn('"failed":', out.replace(" ", ""))


if __name__ == "__main__":
    case_runner.main()
