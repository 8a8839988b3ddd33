"""The benchmarks say what is missing in one sentence, before they build or measure anything."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests import case_runner

HERE = pathlib.Path("tests/bench")


class NeedsTest(unittest.TestCase):
    def run_without(self, module, script, *arguments):
        """The error text of a program whose Python has no such module."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, module + ".py").write_text(f"raise ModuleNotFoundError('no {module}')")
            run = subprocess.run(
                [sys.executable, HERE / script, *arguments],
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": folder},
            )
        self.assertEqual(run.returncode, 1, run)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        return run.stderr

    def test_a_module_that_is_not_installed_is_named_with_its_package(self):
        for module, package, command in (
            ("grpc", "grpcio", ("run.py", "--only", "python")),
            ("numpy", "numpy", ("run.py",)),
            ("torch", "torch", ("run.py", "--only", "lenet", "--torch", sys.executable)),
            ("numpy", "numpy", ("run.py", "--only", "mlp", "--mxnet", sys.executable)),
            ("grpc", "grpcio", ("gluon_bench.py", "gluond")),
            ("mxnet", "mxnet==1.9.1 'numpy<1.24'", ("gluon_bench.py", "mxnet")),
            ("mxnet", "mxnet==1.9.1 'numpy<1.24'", ("peer_mxnet.py", "lenet", "1")),
            ("torch", "torch", ("peer_torch.py", "lenet", "1")),
            ("mxnet", "mxnet==1.9.1 'numpy<1.24'", ("spatial_mxnet.py",)),
            ("torch", "torch", ("spatial_torch.py",)),
            ("torch", "torch", ("gluon_torch.py",)),
            ("onnxruntime", "onnxruntime", ("peer_onnxruntime.py",)),
            ("grpc", "grpcio", ("run.py", "--only", "hybrid:adam")),
            ("torch", "torch", ("run.py", "--only", "hybrid:encoder", "--torch", sys.executable)),
            ("numpy", "numpy", ("run.py", "--only", "hybrid:encoder", "--mxnet", sys.executable)),
            ("onnxruntime", "onnxruntime", ("run.py", "--only", "hybrid:encoder", "--ort", sys.executable)),
            ("onnxruntime", "onnxruntime", ("run.py", "--only", "serving:peer", "--ort", sys.executable)),
            ("onnxruntime", "onnxruntime", ("peer_onnxruntime.py", "lenet")),
            ("torch", "torch", ("run.py", "--only", "spatial:3D", "--torch", sys.executable)),
        ):
            with self.subTest(module=module, command=command):
                text = self.run_without(module, *command)
                self.assertIn(f"cannot import {module} (ModuleNotFoundError: no {module})", text)
                self.assertIn(f"-m pip install {package}", text)

    def test_an_interpreter_or_a_program_that_is_not_there_is_named(self):
        for arguments, environment, says in (
            (("--torch", "/no/python"), {}, "/no/python is no Python"),
            (("--only", "lenet"), {"GLUOND_BIN": "/no/folder"}, "/no/folder/server/gluond-server"),
            (("--only", "lenet"), {"PATH": "/no/folder"}, "bazel is not on PATH"),
            (("--only", "before"), {}, "--server NAME=PATH, twice or more"),
            (("--server", "new=/no/file"), {}, "--server new=/no/file: name a gluond-server"),
            (("--only", "hybrid"), {"GLUOND_BIN": "/no/folder"}, "/no/folder/server/gluond-server"),
        ):
            with self.subTest(says):
                run = subprocess.run(
                    [sys.executable, HERE / "run.py", *arguments],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={**os.environ, **environment},
                )
                self.assertEqual(run.returncode, 1, run)
                self.assertIn(says, run.stderr)
                self.assertNotIn("Traceback", run.stderr)


if __name__ == "__main__":
    case_runner.main()
