"""docs/walkthrough.md, played as it stands but for the ports."""

from tests.peers import installed  # The first import: it goes on in another Python.
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests import case_runner
from tests.docs import played
from tests.server.free_ports import free_ports

DOCUMENT = pathlib.Path("docs/walkthrough.md")
PROGRAMS = ("client/cli", "server")


class WalkthroughTest(unittest.TestCase):
    def test_a_day_of_an_operator(self):
        script = "set -x\n" + played.script(DOCUMENT.read_text())
        for was, port in zip(("50051", "9100"), free_ports(2)):
            self.assertIn(was, script)
            script = script.replace(was, str(port))
        path = os.pathsep.join(
            [str(installed.FOLDER / "venv/bin"), *(os.path.abspath(each) for each in PROGRAMS), os.environ["PATH"]]
        )
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                ["bash", "-m", "-c", script],
                cwd=folder,
                env={**os.environ, "PATH": path},
                timeout=280,
                capture_output=True,
                text=True,
            )
            log = (pathlib.Path(folder) / "serve.log").read_text()
        self.assertEqual(ran.returncode, 0, f"{ran.stdout}\n{ran.stderr}\n{log}")
        self.assertRegex(ran.stdout, r"mlp +1 +READY +stable .*\nmlp +2 +READY +canary ")
        right = dict(re.findall(r"version (\d): (0\.\d\d) are right", ran.stdout))
        self.assertEqual(set(right), {"1", "2"})
        self.assertGreater(float(right["1"]), 0.8)
        self.assertGreater(float(right["2"]), 0.5)  # It may be of a training that has just begun.
        asked = dict(re.findall(r'gluond_inference_requests_total{model="mlp",version="(\d)",result="success"} (\d+)', ran.stdout))
        self.assertEqual((set(asked), asked["1"]), ({"1", "2"}, "32"))
        self.assertGreater(int(asked["2"]), 32, "`gluond predict` has asked the canary, too")
        self.assertIn("nobody has this bearer token", ran.stderr)
        self.assertRegex(ran.stdout, r"(?s)\nmlp +1 +READY +stable[^\n]*\n$")


if __name__ == "__main__":
    case_runner.main()
