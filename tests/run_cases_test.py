"""How tests/run.sh counts: each case once, and nothing that failed goes uncounted."""

import collections
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tests import case_runner
from tests import run_cases

GTEST = """<testsuites><testsuite name="Shape">
  <testcase name="Adds" status="run" result="completed" classname="Shape"/>
  <testcase name="Fails" status="run" result="completed" classname="Shape">
    <failure message="a.cc:3&#x0A;Expected equality"/><failure message="and again"/></testcase>
  <testcase name="Skips" status="run" result="skipped" classname="Shape"><skipped message="no GPU"/></testcase>
  <testcase name="DISABLED_Rests" status="notrun" result="suppressed" classname="Shape"/>
</testsuite></testsuites>"""
BAZEL_OF_A_CRASH = """<testsuites><testsuite name="tests/a" tests="1" failures="0" errors="1">
  <testcase name="tests/a" status="run"><error message="exited with error code 134"></error></testcase>
</testsuite></testsuites>"""
UNITTEST = """
import unittest
from tests import case_runner
class Case(unittest.TestCase):
  def test_passes(self): pass
  def test_fails(self): self.assertEqual(1, 2, "not \\x01 printable")
  def test_raises(self): raise KeyError("k")
  def test_part_fails(self):
    for i in range(3):
      with self.subTest(i=i): self.assertEqual(i, 0)
  @unittest.skip("later")
  def test_skips(self): pass
class Broken(unittest.TestCase):
  @classmethod
  def setUpClass(cls): raise OSError("no port")
  def test_never_runs(self): pass
case_runner.main()
"""


class RunCasesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def judge(self, status, xml=None, log=None):
        files = {}
        for name, text in (("test.xml", xml), ("test.log", log)):
            if text is not None:
                files[name] = str(self.folder / name)
                pathlib.Path(files[name]).write_text(text)
        return [(case.name, case.state) for case in run_cases.judge("//a", status, {(1, 0): files} if files else {})]

    def test_each_gtest_case_counts_once_and_a_disabled_one_not_at_all(self):
        self.assertEqual(
            self.judge("FAILED", GTEST), [("Shape.Adds", "passed"), ("Shape.Fails", "failed"), ("Shape.Skips", "skipped")]
        )

    def test_a_crash_names_the_case_that_was_running(self):
        log = "[ RUN      ] A.Good\n[       OK ] A.Good (0 ms)\n[ RUN      ] A.Bad\nSegmentation fault\n"
        self.assertEqual(self.judge("FAILED", BAZEL_OF_A_CRASH, log), [("A.Bad", "failed")])

    def test_a_crash_outside_cases_counts(self):
        self.assertEqual(self.judge("FAILED", BAZEL_OF_A_CRASH, "abort\n"), [("tests/a", "failed")])

    def test_a_leak_reported_at_exit_counts(self):
        passed = '<testsuite><testcase name="Adds" classname="Shape"/></testsuite>'
        self.assertEqual(self.judge("FAILED", passed), [("Shape.Adds", "passed"), ("(whole target)", "failed")])

    def test_a_failed_build_and_a_missing_or_torn_report_count(self):
        for status, xml in (("NO_STATUS", None), ("FAILED_TO_BUILD", None), ("TIMEOUT", ""), ("FAILED", GTEST[:200])):
            with self.subTest(status=status):
                self.assertEqual(self.judge(status, xml), [("(whole target)", "failed")])

    def test_an_event_that_a_full_disk_has_cut_off_is_left_out(self):
        bazel = self.folder / "bazel"
        bazel.write_text(
            """#!/bin/sh
for flag; do
  case "$flag" in --build_event_json_file=*) printf '{"id": {}}\\n{"id": {"te' > "${flag#*=}" ;; esac
done
exit 1
"""
        )
        bazel.chmod(0o755)
        with mock.patch.object(run_cases, "BAZEL", [str(bazel)]):
            self.assertEqual(run_cases.run([], ["//a"]), (1, {}, {}))

    def test_without_a_package_index_others_programs_are_skipped_by_name(self):
        for code, told, status in ((75, "skipped: //a (no package index)\n0 passed, 0 failed\n", 0), (1, "", "0 passed, 1 failed")):
            out = io.StringIO()
            with self.subTest(code=code), mock.patch.object(run_cases.subprocess, "run", return_value=mock.Mock(returncode=code)):
                with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
                    run_cases.install_peers({"//a": "py_test"})
                self.assertEqual((out.getvalue(), str(end.exception.code).splitlines()[-1]), (told, str(status)))

    def test_a_target_that_ran_nothing_gives_no_case(self):
        self.assertEqual(self.judge("PASSED", "<testsuites/>"), [])

    def unittest_cases(self, test_filter=None, **more):
        report = self.folder / "test.xml"
        environment = dict(os.environ, XML_OUTPUT_FILE=str(report), PYTHONPATH=os.pathsep.join(sys.path), **more)
        environment.pop("TESTBRIDGE_TEST_ONLY", None)
        if test_filter:
            environment["TESTBRIDGE_TEST_ONLY"] = test_filter
        ended = subprocess.run([sys.executable, "-c", UNITTEST], env=environment, stdout=subprocess.DEVNULL)
        return ended.returncode, list(run_cases.read_cases(report))

    def test_case_runner_reports_every_unittest_case(self):
        code, cases = self.unittest_cases()
        self.assertEqual(code, 1)
        self.assertEqual(collections.Counter(case.state for case in cases), {"passed": 1, "failed": 4, "skipped": 1})
        self.assertIn("Case.test_part_fails", [case.name for case in cases])
        self.assertIn("OSError: no port", [case.message for case in cases])

    def test_case_runner_honours_the_filter(self):
        code, cases = self.unittest_cases("*test_passes*")
        self.assertEqual((code, [case.name for case in cases]), (0, ["Case.test_passes"]))

    def test_the_shards_of_a_target_share_out_its_cases(self):
        _, whole = self.unittest_cases()
        parts = []
        for index in range(3):
            status = self.folder / f"status{index}"
            parts += self.unittest_cases(TEST_TOTAL_SHARDS="3", TEST_SHARD_INDEX=str(index), TEST_SHARD_STATUS_FILE=str(status))[1]
            self.assertTrue(status.exists(), "Bazel would run every case in every shard")
        self.assertEqual(sorted(parts), sorted(whole))

    def test_the_cases_of_all_shards_count(self):
        shards = {}
        for index, text in enumerate((GTEST, GTEST.replace("Adds", "Subtracts").replace("Fails", "Breaks"))):
            shards[1, index] = {"test.xml": str(self.folder / f"{index}.xml")}
            pathlib.Path(shards[1, index]["test.xml"]).write_text(text)
        self.assertEqual(
            [case.name for case in run_cases.judge("//a", "FAILED", shards)],
            ["Shape.Adds", "Shape.Fails", "Shape.Skips", "Shape.Subtracts", "Shape.Breaks", "Shape.Skips"],
        )


if __name__ == "__main__":
    case_runner.main()
