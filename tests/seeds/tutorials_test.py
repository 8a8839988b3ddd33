"""Each tutorial runs to its end, with its own assertions, and stands in docs/ as it is."""

import pathlib
import re
import runpy
import subprocess
import unittest

from tests import case_runner

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = sorted(path.stem for path in HERE.glob("*.cc"))
TUTORIALS = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.endswith("_test"))


class Tutorials(unittest.TestCase):
    def test_the_readme_names_each(self):
        self.assertGreater(len(TUTORIALS), 5)
        readme = (HERE.parent.parent / "README.md").read_text(encoding="utf-8")
        for name in TUTORIALS:
            self.assertIn(f"(docs/tutorials/{name}.md)", readme)

    def test_docs_hold_the_code_that_runs(self):
        for name in TUTORIALS:
            rendered = (HERE.parent.parent / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
            code = re.sub(r"# %% \[markdown\]\n(#.*\n)*", "", (HERE / f"{name}.py").read_text(encoding="utf-8"))
            for line in code.splitlines():
                if line.strip() and not line.startswith("# %%"):
                    self.assertIn(line, rendered, f"{name}: run docs/render_tutorials.py")

    def test_docs_hold_the_programs_in_cpp(self):
        self.assertGreater(len(PROGRAMS), 3)
        for name in PROGRAMS:
            rendered = (HERE.parent.parent / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
            self.assertIn(
                (HERE / f"{name}.cc").read_text(encoding="utf-8").strip(), rendered, f"{name}: run docs/render_tutorials.py"
            )

    def test_the_programs_in_cpp_run_to_their_ends(self):
        for name in PROGRAMS:
            with self.subTest(name=name):
                ran = subprocess.run([pathlib.Path("tests/seeds", name)], capture_output=True, text=True, timeout=300, check=False)
                self.assertEqual(ran.returncode, 0, f"{ran.stdout}\n{ran.stderr}")


def _add(name):
    def test(self):
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")

    setattr(Tutorials, f"test_{name}", test)


for _name in TUTORIALS:
    _add(_name)

if __name__ == "__main__":
    case_runner.main()
