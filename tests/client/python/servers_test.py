"""Private servers end when nobody needs them, and a program's end tells of a call that has failed unheard."""

import os
import pathlib
import subprocess
import sys
import unittest

import gluond as mx
from tests import case_runner


def servers():
    """The processes that this one has started, and that have not ended."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # It has just ended.
        if int(parent) == os.getpid() and state != "Z":
            found.add(path.parent.name)
    return found


class ServersTest(unittest.TestCase):
    def tearDown(self):
        mx.disconnect()

    def test_a_server_without_arrays_ends_at_the_next_connect(self):
        for _ in range(4):
            mx.connect()
            mx.nd.ones(3).asnumpy()
            self.assertEqual(len(servers()), 1)

    def test_a_server_whose_arrays_are_in_use_goes_on(self):
        mx.connect()
        kept = mx.nd.ones(3)
        mx.connect()
        self.assertEqual(len(servers()), 2)
        self.assertEqual(kept.asnumpy().sum(), 3)
        del kept
        mx.connect()
        self.assertEqual(len(servers()), 1)

    def test_disconnect_ends_it_and_the_next_array_begins_another_one(self):
        mx.connect()
        x = mx.nd.ones(3)
        first = servers()
        mx.disconnect()
        mx.disconnect()
        self.assertEqual(servers(), set())
        with self.assertRaises(mx.MXNetError):
            x.asnumpy()
        self.assertEqual(mx.nd.ones(3).asnumpy().sum(), 3)
        self.assertEqual(len(servers() - first), 1)


class EndTest(unittest.TestCase):
    def run_it(self, program):
        ran = subprocess.run(
            [sys.executable, "-c", "import gluond as mx\n" + program],
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            check=False,
        )
        return ran.stderr

    def test_a_call_that_failed_unheard_is_told_at_the_end_with_its_line(self):
        said = self.run_it("z = mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((4, 5)))\n")
        self.assertIn("gluond: a call of this program has failed, and the program has not asked for its result:\n", said)
        self.assertIn("Error in operator dot", said)
        self.assertIn('File "<string>", line 2', said)

    def test_an_error_that_was_raised_is_not_told_again(self):
        said = self.run_it(
            "z = mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((4, 5))) + 1\n" "try: z.asnumpy()\n" "except mx.MXNetError: pass\n"
        )
        self.assertEqual(said, "")
        self.assertEqual(self.run_it("mx.nd.ones(3).asnumpy()\n"), "")


if __name__ == "__main__":
    case_runner.main()
