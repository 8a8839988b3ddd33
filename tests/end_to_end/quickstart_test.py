"""Ctrl-C during the quickstart, at any point, leaves none of its processes behind.

The script runs as it is, in a folder of its own, with the real server and client. Only Bazel, which cannot run within
a test, is replaced by a program that takes as long as the test wants; and training takes fewer images.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tests import case_runner
from tests.end_to_end import fashion_subset


def of_session(session):
    """Command lines of the session's processes that have not ended."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append((stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # It has just ended.
    return found


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        (self.folder / "deploy").mkdir()
        for script in ("quickstart.sh", "quickstart_server.sh", "setup.sh"):
            shutil.copy(pathlib.Path("deploy", script), self.folder / "deploy" / script)
        data = self.folder / "fashion-mnist"
        data.mkdir()
        fashion_subset.write(data, {"train": 6000, "t10k": 100})
        self.write("bazel-bin/server/gluond-server", f'exec {pathlib.Path("server/gluond-server").absolute()} "$@"')
        self.write("bazel-bin/client/cli/gluond", f'exec {pathlib.Path("client/cli/gluond").absolute()} "$@" --data={data}')

    def write(self, path, command):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{command}\n")
        path.chmod(0o755)

    def start(self, bazel="exit 0", **environment):
        """Starts the quickstart; its output goes to the file `log`."""
        self.write("bin/bazel", bazel)
        with open(self.folder / "log", "wb") as out:
            quickstart = subprocess.Popen(
                [self.folder / "deploy/quickstart.sh"],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", **environment},
            )
        self.addCleanup(lambda: of_session(quickstart.pid) and os.killpg(quickstart.pid, signal.SIGKILL))
        return quickstart

    def ended(self, quickstart):
        """The quickstart's exit status, when it has left no process behind."""
        code = quickstart.wait(timeout=60)
        for _ in range(100):  # The last of a pipe may end a moment after the script.
            if not of_session(quickstart.pid):
                break
            time.sleep(0.05)
        self.assertEqual(of_session(quickstart.pid), [])
        return code

    def interrupt(self, at, signals, bazel="exit 0"):
        """Sends `signals` to the quickstart's group, as a terminal does, when its output holds `at`."""
        quickstart = self.start(bazel)
        log = self.folder / "log"
        deadline = time.monotonic() + 120
        while at not in log.read_text(errors="replace"):
            self.assertIsNone(quickstart.poll(), log.read_text(errors="replace"))
            self.assertLess(time.monotonic(), deadline, f"no {at!r} in\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        self.assertGreater(len(of_session(quickstart.pid)), 0)
        for sign in signals:
            os.killpg(quickstart.pid, sign)
            time.sleep(0.02)
        return self.ended(quickstart)

    def test_while_it_builds(self):
        self.assertEqual(self.interrupt("2/5", [signal.SIGINT], bazel="sleep 100"), 130)

    def test_while_the_server_starts(self):
        # Then it ignores the signal still, as all that a script starts in the background; the script must end it.
        self.assertEqual(self.interrupt("3/5", [signal.SIGINT]), 130)

    def test_just_after_the_server_began(self):
        # Before the script's next command: the shell alone knows of the server then.
        moment = self.folder / "moment"
        moment.write_text("set -T\ntrap 'if [[ -n ${!:-} ]]; then trap - DEBUG; kill -INT $$; fi' DEBUG\n")
        self.assertEqual(self.ended(self.start(BASH_ENV=str(moment))), 130)

    def test_while_it_trains(self):
        self.assertEqual(self.interrupt("images/s", [signal.SIGINT]), 130)

    def test_while_it_trains_twice(self):
        self.assertNotEqual(self.interrupt("images/s", [signal.SIGINT, signal.SIGINT]), 0)

    def test_while_it_trains_by_a_polite_kill(self):
        self.assertEqual(self.interrupt("images/s", [signal.SIGTERM]), 143)

    def test_while_it_restarts_the_server(self):
        self.assertEqual(self.interrupt("4/5", [signal.SIGINT]), 130)


if __name__ == "__main__":
    case_runner.main()
