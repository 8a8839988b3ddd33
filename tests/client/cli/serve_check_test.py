"""`gluond serve --check` tells by its exit status, and by a line, whether a server could start by its flags and files."""

import pathlib
import subprocess
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond")
_MODELS = "gluond.v1.ModelService"


class ServeCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.store = f"--store_dir={cls.folder}/store"
        with RunningServer(cls.store) as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            client.call(
                _MODELS,
                "DefineModel",
                {
                    "model": "negate",
                    "graph": {"nodes": [{"name": "y", "op": "negative", "inputs": ["x"]}], "outputs": ["y"]},
                    "variables": [{"name": "x", "kind": "INPUT", "shape": [-1, 1]}],
                },
            )
            client.call(_MODELS, "InitializeParameters", {"model": "negate"})
            client.call(_MODELS, "SaveCheckpoint", {"model": "negate", "checkpoint": "first"})
            assert server.stop()[0] == 0

    def check(self, text, *flags):
        """The exit status of a check of a file with the text, None being none; and what it says."""
        file = self.folder / "serve.yaml"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        done = subprocess.run(
            [_BIN, "serve", "--check", "--devices=cpu", self.store, f"--serve={file}", *flags],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def test_a_good_file_is_summed_up(self):
        status, said, errors = self.check("models: {a: {versions: {1: {checkpoint: first}}, labels: {stable: 1}}}\n")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("the flags and files are good", said)
        self.assertIn("1 model, 1 version", said)

    def test_a_mistake_is_told_by_its_line(self):
        for line, says in (
            ("    labels: {stable: 2}", "models.a.labels.stable"),
            ("    label: {stable: 1}", "did you mean 'labels'?"),
            ("    versions: {2: {checkpoint: first}}", "stands here again"),
            ("  b: {versions: {1: {checkpoint: frist}}}", "did you mean 'first'?"),
        ):
            status, said, errors = self.check(f"models:\n  a:\n    versions: {{1: {{checkpoint: first}}}}\n{line}\n")
            self.assertEqual((status, said), (1, ""), line)
            self.assertIn("serve.yaml", errors)
            self.assertIn("line 4", errors)
            self.assertIn(says, errors)

    def test_a_file_that_is_not_there_is_told_by_its_name(self):
        status, said, errors = self.check(None)
        self.assertEqual((status, said), (1, ""))
        self.assertIn(f"{self.folder}/serve.yaml", errors)
        self.assertIn("cannot be read", errors)

    def test_a_flag_that_there_is_not_is_another_status(self):
        self.assertEqual(self.check("models: {}", "serve.yaml")[0], 2)


if __name__ == "__main__":
    case_runner.main()
