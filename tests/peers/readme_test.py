"""README.md, played as it stands but for the port: from a server's start to a rollback, real grpcurl, and a group of servers."""

from tests.peers import installed  # The first import: it goes on in another Python.
import os
import pathlib
import subprocess
import tempfile
import unittest

from tests import case_runner
from tests.docs import played
from tests.server.free_ports import free_ports

PROGRAMS = ("client/cli", "server")


class ReadmeTest(unittest.TestCase):
    def test_a_first_hour(self):
        script = played.script(pathlib.Path("README.md").read_text())
        self.assertIn("50051", script)
        port = str(free_ports(1)[0])
        script = script.replace("50051", port)
        path = os.pathsep.join([str(installed.FOLDER / "venv/bin"), *map(os.path.abspath, PROGRAMS), os.environ["PATH"]])
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "deploy").symlink_to(os.path.abspath("deploy"))
            ran = subprocess.run(
                ["bash", "-mx", "-c", script],
                cwd=folder,
                timeout=280,
                capture_output=True,
                text=True,
                check=False,
                env={
                    **os.environ,
                    "PATH": path,
                    "PYTHONPATH": os.path.abspath("client/python"),
                    "GLUOND_ADDRESS": f"127.0.0.1:{port}",
                },
            )
            log = "".join(path.read_text() for path in sorted(pathlib.Path(folder).glob("*.log")))
            curves = [(pathlib.Path(folder) / each).exists() for each in ("curve.svg", "group.svg")]
        said = f"{ran.stdout}\n{ran.stderr}\n{log}"
        self.assertEqual(ran.returncode, 0, said)
        self.assertEqual(curves, [True, True])
        self.assertRegex(ran.stdout, r"\[0\.8\d+, 0\.8\d+, 0\.8\d+\]\n1\n", said)
        self.assertRegex(ran.stdout, r"\n0\.[89]\d*\n", "the loop learns")
        self.assertIn("\n(1, 10)\n", ran.stdout)
        self.assertIn("all documents were answered", ran.stdout)
        self.assertIn(": 2 processes are there, steps run with 1 to 2\n", ran.stdout, "the member was there when it was killed")
        self.assertRegex(ran.stdout, r"\ntest accuracy: 0\.[89]\d+\n", "the training of the group went on")


if __name__ == "__main__":
    case_runner.main()
