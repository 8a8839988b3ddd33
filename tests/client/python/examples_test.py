"""The quickstart's example learns from a few images, and Ctrl-C at any moment of it leaves no process behind. A training
that is left goes on in the next run."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

from tests import case_runner
from tests.server.running_server import RunningServer

SERVER = os.environ.get("GLUOND_SERVER", "server/gluond-server")
LEAVE = pathlib.Path("client/python/examples/leave_and_come_back.py").absolute()
LENET = pathlib.Path("client/python/examples/lenet.py").absolute()


class LenetTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments):
        # A program that is started with SIGINT ignored, as a shell does in the background, ignores it, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Every process that it starts has the folder in its environment, and so is found.
        return subprocess.Popen(
            [sys.executable, LENET, f"--out={self.folder}/out", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "TMPDIR": str(self.folder)},
        )

    def left(self):
        """The started processes that have not ended."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"TMPDIR={self.folder}".encode() in path.read_bytes().split(b"\0"):
                    found.append(path.with_name("cmdline").read_bytes())
            except OSError:
                continue  # It has just ended, or is another user's.
        return found

    def ends_within(self, seconds):
        end = time.monotonic() + seconds
        while self.left() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.left(), [])

    def test_it_learns_and_shows_what(self):
        program = self.start("--images=1280", "--epochs=2")
        words, _ = program.communicate(timeout=240)
        self.assertEqual(program.returncode, 0, words)
        self.assertRegex(words, r"epoch 2 of 2  \[#{24}\] 20/20 .* loss [01]\.\d")
        self.assertEqual(words.count("is said to be"), 10)
        accuracy = re.fullmatch(r"test accuracy: (0\.\d{4})", words.splitlines()[-1])
        self.assertGreater(float(accuracy.group(1)), 0.4)
        lines = ElementTree.parse(self.folder / "out" / "lenet-curve.svg").getroot().iter("{http://www.w3.org/2000/svg}polyline")
        self.assertGreaterEqual(len(list(lines)[-1].get("points").split()), 2)
        self.ends_within(10)

    def test_ctrl_c_leaves_nothing_behind(self):
        for seconds in (0.3, 0.6, 1.0, 2.0, 4.0):
            program = self.start()
            time.sleep(seconds)
            os.killpg(program.pid, signal.SIGINT)
            words, _ = program.communicate(timeout=60)
            self.assertNotEqual(program.returncode, 0)
            self.ends_within(10)
        self.assertIn("KeyboardInterrupt", words)


class LeaveTest(unittest.TestCase):
    def setUp(self):
        self.server = RunningServer(binary=SERVER)
        self.addCleanup(self.server.__exit__)

    def run_it(self, *arguments):
        result = subprocess.run(
            [sys.executable, LEAVE, "--images=1280", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            env={
                **os.environ,
                "PYTHONPATH": ":".join(sys.path),
                "GLUOND_ADDRESS": self.server.address,
                "XDG_CONFIG_HOME": str(self.server.folder),
            },
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_each_run_goes_on_where_the_last_one_has_ended(self):
        first = self.run_it()
        self.assertRegex(first, r"epoch 1  \[#{24}\] 20/20")
        self.server.process.kill()
        self.server.process.communicate()
        self.server.start()
        second = self.run_it()
        self.assertIn("trainer  Trainer, SGD after 20 updates", second)
        self.assertRegex(second, r"epoch 2  \[#{24}\] 20/20")
        reached = [float(re.search(r"test accuracy after epoch \d: (0\.\d{4})$", words.strip())[1]) for words in (first, second)]
        self.assertGreater(min(reached), 0.4)
        self.assertEqual(self.run_it("--forget"), "")
        self.assertIn("epoch 1 ", self.run_it())


if __name__ == "__main__":
    case_runner.main()
