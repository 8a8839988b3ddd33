"""The snippets of README and docs run as they stand: each is played by a test, or says why not."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from tests import case_runner
from tests.docs import played
from tests.server.running_server import RunningServer

# The others are run by a test of their own: tests/peers plays README and the walkthrough, tests/seeds the tutorials.
ELSEWHERE = ("README.md", "docs/walkthrough.md")
DOCUMENTS = (
    "README.md",
    "client/cpp/README.md",
    "client/python/README.md",
    "docs/architecture.md",
    "docs/decisions.md",
    "docs/operator_library.md",
    "docs/operators.md",
    "docs/performance.md",
    "docs/reference.md",
    "docs/walkthrough.md",
)


class PlayedTest(unittest.TestCase):
    def test_each_snippet_is_played_or_says_why_not(self):
        for name in DOCUMENTS:
            text = pathlib.Path(name).read_text()
            blocks = len(re.findall(r"^```(?:sh|python)$", text, re.M))
            self.assertEqual(len(played.blocks(text)) + len(played.left_out(text)), blocks, name)
            if name not in (*ELSEWHERE, "client/python/README.md"):
                self.assertEqual(played.blocks(text), [], f"{name}: no test plays these")
            for reason in played.left_out(text):
                self.assertRegex(reason, r"\w+ .*\.$", name)

    def test_cpp_in_the_readme_is_a_part_of_the_cpp_clients_program(self):
        parts = re.findall(r"^```cpp\n(.*?)^```", pathlib.Path("README.md").read_text(), re.M | re.S)
        self.assertEqual(len(parts), 1)
        self.assertIn(parts[0], pathlib.Path("client/cpp/README.md").read_text())

    def test_the_python_packages_readme(self):
        text = pathlib.Path("client/python/README.md").read_text()
        with RunningServer() as server, tempfile.TemporaryDirectory() as home:
            ran = subprocess.run(
                ["bash", "-c", played.script(text).replace("python -", f"{sys.executable} -")],
                cwd=home,
                env={
                    **os.environ,
                    "PYTHONPATH": ":".join(map(os.path.abspath, sys.path)),
                    "HOME": home,
                    "GLUOND_ADDRESS": server.address,
                },
                capture_output=True,
                text=True,
                timeout=200,
            )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("[[2. 4.]\n [6. 8.]]", ran.stdout)

    def test_blocks_are_found_in_order(self):
        text = "```sh\na\n```\n<!-- not played: it is long. -->\n```sh\nb\n```\n```\noutput\n```\n```python\nc\n```\n"
        self.assertEqual(played.blocks(text), [("sh", "a\n"), ("python", "c\n")])
        self.assertEqual(played.left_out(text), ["it is long."])
        begin = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
        self.assertEqual(played.script(text), begin + "a\npython - <<'END'\nc\nEND\n")
        self.assertEqual(
            played.script("<!-- one program -->\n" + text + "```python\nd\n```\n"),
            begin + "a\npython - <<'END'\nc\n\nd\nEND\n",
        )

    def test_the_shell_waits_for_what_a_document_leaves_running(self):
        leaves = """```sh
bash -c 'trap "sleep 0.3; touch ended; exit" TERM; touch ready; while :; do sleep 0.01; done' &
until [ -e ready ]; do sleep 0.01; done
```
"""
        for last, status in (("", 0), ("```sh\nkill %1\n```\n", 0), ("```sh\nfalse\n```\n", 1)):
            with tempfile.TemporaryDirectory() as folder:
                ran = subprocess.run(
                    ["bash", "-m", "-c", played.script(leaves + last)], cwd=folder, check=False, capture_output=True, timeout=60
                )
                self.assertEqual(ran.returncode, status, ran.stderr)
                self.assertTrue((pathlib.Path(folder) / "ended").exists(), last)


if __name__ == "__main__":
    case_runner.main()
