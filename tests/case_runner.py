"""Runs a file's unittest cases; under Bazel, counts them one by one for tests/run.sh.

    from tests import case_runner
    ...
    if __name__ == "__main__":
      case_runner.main()

Bazel wants JUnit XML at $XML_OUTPUT_FILE, passes --test_filter in $TESTBRIDGE_TEST_ONLY, and gives each of a target's
$TEST_TOTAL_SHARDS processes its $TEST_SHARD_INDEX, as gtest knows: every n-th case, in the order of their names.
Without Bazel this is unittest.main().
"""

import fnmatch
import os
import pathlib
import re
import sys
import time
import unittest
from xml.etree import ElementTree

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Recorder(unittest.TextTestResult):
    """Keeps one XML element per case, whatever becomes of it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.suite = ElementTree.Element("testsuite", name="unittest")
        self._cases = {}
        self._begin = 0.0

    def _case(self, test):
        suite, _, name = test.id().rpartition(".")
        if test.id() not in self._cases:
            self._cases[test.id()] = ElementTree.SubElement(self.suite, "testcase", classname=suite.rpartition(".")[2], name=name)
        return self._cases[test.id()]

    def _note(self, test, kind, text):
        lines = text.strip().splitlines() or [kind]
        note = ElementTree.SubElement(self._case(test), kind, message=_NOT_XML.sub("?", lines[-1]))
        note.text = _NOT_XML.sub("?", text)

    def startTest(self, test):
        super().startTest(test)
        self._case(test)
        self._begin = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self._case(test).set("time", f"{time.monotonic() - self._begin:.3f}")

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "failure", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failure", f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._note(test, "failure", "passed, though it is marked as an expected failure")


def _cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _cases(test)
        else:
            yield test


def _of_this_shard(cases):
    """The cases that this process runs of those that all processes of the target run. $TEST_SHARD_STATUS_FILE tells Bazel that
    they are shared out."""
    status = os.environ.get("TEST_SHARD_STATUS_FILE")
    if status:
        pathlib.Path(status).touch()
    index, shards = int(os.environ.get("TEST_SHARD_INDEX", 0)), int(os.environ.get("TEST_TOTAL_SHARDS", 1))
    return sorted(cases, key=lambda test: test.id())[index::shards]


def main():
    report = os.environ.get("XML_OUTPUT_FILE")
    if not report:
        unittest.main(module="__main__")
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    pattern = os.environ.get("TESTBRIDGE_TEST_ONLY", "*")
    chosen = [test for test in _cases(suite) if fnmatch.fnmatchcase(".".join(test.id().split(".")[-2:]), pattern)]
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Recorder).run(
        unittest.TestSuite(_of_this_shard(chosen))
    )
    ElementTree.ElementTree(result.suite).write(report, encoding="utf-8", xml_declaration=True)
    sys.exit(not result.wasSuccessful())
