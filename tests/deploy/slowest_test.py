"""bazel/slowest.sh reads Bazel's profile: the slowest files, and sums by room."""

import gzip
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from tests import case_runner


class SlowestTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bazel = self.folder / "bazel"
        self.bazel.write_text(f"#!/bin/sh\necho {self.folder}\n")
        self.bazel.chmod(0o755)

    def slowest(self, *arguments):
        return subprocess.run(
            ["bazel/slowest.sh", *arguments],
            env={**os.environ, "BAZEL": str(self.bazel)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_the_slowest_come_first_and_each_room_has_its_sum(self):
        took = {"server/rpc/a.cc": 4, "server/rpc/b.cc": 2.5, "ops/kernel/cpu/c.cc": 5, "proto/gluond/v1/d.pb.cc": 1}
        events = [{"cat": "action processing", "name": f"Compiling {name}", "dur": seconds * 1e6} for name, seconds in took.items()]
        events += [
            {"cat": "action processing", "name": "Linking server/gluond-server", "dur": 9e6},
            {"name": "Compiling", "ph": "M"},
        ]
        with gzip.open(self.folder / "command.profile.gz", "wt") as profile:
            json.dump({"traceEvents": events}, profile)
        told = self.slowest("1")
        self.assertEqual(
            told.stdout.split("\n"),
            [
                "    5.0 s  Compiling ops/kernel/cpu/c.cc",
                "by room:",
                "    6.5 s  server/rpc, 2 compilations",
                "    5.0 s  ops/kernel, 1 compilations",
                "    1.0 s  proto/gluond, 1 compilations",
                "   12.5 s  in all, 4 compilations",
                "",
            ],
            told.stderr,
        )

    def test_without_a_build_it_says_so(self):
        told = self.slowest()
        self.assertEqual((told.returncode, told.stdout), (1, ""))
        self.assertIn("build something first", told.stderr)


if __name__ == "__main__":
    case_runner.main()
