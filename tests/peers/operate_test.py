"""docs/operate.md, played as it stands but for the ports."""

from tests.peers import installed  # The first import: it goes on in another Python.
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

from tests import case_runner

DOCUMENT = pathlib.Path("docs/operate.md")
PROGRAMS = ("client/cli", "server")
LANGUAGES = {"sh": lambda code: code, "python": lambda code: f"python - <<'END'\n{code}END\n"}


def free_ports(count):
  """Ports that nobody has, different ones."""
  sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
  ports = [each.getsockname()[1] for each in sockets]
  for each in sockets:
    each.close()
  return ports


class OperateTest(unittest.TestCase):

  def test_a_day_of_an_operator(self):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
    script = "set -euxo pipefail\n" + "".join(LANGUAGES[language](code) for language, code in blocks)
    for was, port in zip(("50051", "9100"), free_ports(2)):
      self.assertIn(was, script)
      script = script.replace(was, str(port))
    path = os.pathsep.join([str(installed.FOLDER / "venv/bin"), *(os.path.abspath(each) for each in PROGRAMS),
                            os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
      ran = subprocess.run(["bash", "-m", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, timeout=280,
                           capture_output=True, text=True)
      log = (pathlib.Path(folder) / "serve.log").read_text()
    self.assertEqual(ran.returncode, 0, f"{ran.stdout}\n{ran.stderr}\n{log}")
    self.assertRegex(ran.stdout, r"mlp +1 +READY +stable .*\nmlp +2 +READY +canary ")
    right = dict(re.findall(r"version (\d): (0\.\d\d) are right", ran.stdout))
    self.assertEqual(set(right), {"1", "2"})
    self.assertGreater(float(right["1"]), 0.8)
    self.assertGreater(float(right["2"]), 0.5)  # It may be of a training that has just begun.
    asked = dict(re.findall(r'gluond_inference_requests_total{model="mlp",version="(\d)",result="success"} (\d+)', ran.stdout))
    self.assertEqual(asked, {"1": "32", "2": "32"})
    self.assertIn("nobody has this bearer token", ran.stderr)
    self.assertRegex(ran.stdout, r"(?s)\nmlp +1 +READY +stable[^\n]*\n$")


if __name__ == "__main__":
  case_runner.main()
