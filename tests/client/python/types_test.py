"""The package's types: they agree with each other, and with the server's operators, and a user's checker sees them."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gluond as mx
from tests import case_runner

ROOT = pathlib.Path(mx.__file__).resolve().parent.parent

RIGHT = """
from typing import List
import gluond as mx
from gluond import nd, sym
x: nd.NDArray = nd.relu(nd.ones((2, 3)))
y: nd.NDArray = x.sum(axis=1, keepdims=True) + 1
z: nd.NDArray = nd.Convolution(x, x, x, kernel=(3, 3), num_filter=8)
s: sym.Symbol = sym.FullyConnected(sym.Variable("x"), num_hidden=3)
parts: List[nd.NDArray] = nd.split(x, num_outputs=2)
"""
WRONG = {
    "number: int = nd.ones(3).sum()": "NDArray",
    "nd.relu(nd.ones(3), inplace=True)": 'Unexpected keyword argument "inplace"',
    "nd.Convolution(nd.ones(3), kernel=(3, 3), num_filter='eight')": 'expected "int"',
    "symbol: int = sym.relu(sym.Variable('x'))": "Symbol",
    "nd.ones(3).summ()": 'no attribute "summ"',
}


def checked(*arguments):
    """mypy's output and status, as a project with the package's own settings has it."""
    mypy = [sys.executable, "-m", "mypy", f"--config-file={ROOT}/pyproject.toml", "--cache-dir=/dev/null"]
    return subprocess.run([*mypy, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)


class TypesTest(unittest.TestCase):
    def test_the_package_s_types_agree(self):
        run = checked("gluond")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_a_user_s_checker_sees_arrays_and_symbols(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(RIGHT + "".join(f"{line}\n" for line in WRONG))
            run = checked("--follow-imports=silent", str(program))
        first = RIGHT.count("\n") + 1
        for number, (line, words) in enumerate(WRONG.items(), first):
            told = [each for each in run.stdout.splitlines() if each.startswith(f"{program}:{number}: error")]
            self.assertTrue(any(words in each for each in told), f"{line}\n{run.stdout}")
        self.assertEqual(run.stdout.count(": error"), len(WRONG), run.stdout)

    def test_the_rendered_types_are_those_of_the_operators(self):
        spec = importlib.util.spec_from_file_location("render_types", ROOT / "render_types.py")
        render_types = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(render_types)
        for path, text in render_types.rendered():
            self.assertEqual(
                path.read_text(encoding="utf-8"), text, f"{path.name} is old; run /usr/bin/python3 client/python/render_types.py"
            )


if __name__ == "__main__":
    case_runner.main()
