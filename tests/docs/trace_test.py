"""The traced requests of docs/architecture.md: each function is defined in the file that its row names, and the ways stay short."""

import os
import pathlib
import re
import unittest

from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent
ROW = re.compile(r"^\| `([\w:]+)` \| `([\w/.]+)` \| .+ \|$", re.MULTILINE)
# Files of server/ that a request passes, at most. ModelInfer's begin with those that TrainStep shares with it. docs/decisions.md says
# what each is for.
MOST = {"TrainStep": 11, "ModelInfer": 14}
SHARED = "Owners::May"  # The last step that both go through.


def traces(text):
    """{request: [(function, file), ...]} of the tables in a section that traces requests."""
    section = text.partition(" requests, traced\n")[2].partition("\n## ")[0]
    found = {}
    for paragraph in re.split(r"\n\n(?=`)", section):
        rows = ROW.findall(paragraph)
        if rows:
            found[re.match(r"\s*`(\w+)`", paragraph)[1]] = rows
    return found


def defines(text, function):
    """Whether a C++ file defines the function: it stands before its parameters, at the beginning of a line or after a type."""
    return re.search(rf"^(?:  )?(?:[\w:<>*&,]+ )+[*&]?{re.escape(function)}\(", text, re.MULTILINE) is not None


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.traces = traces((ROOT / "docs" / "architecture.md").read_text())

    def test_each_function_is_in_its_file(self):
        self.assertEqual(sorted(self.traces), sorted(MOST))
        for request, rows in self.traces.items():
            self.assertGreater(len(rows), 10, request)
            for function, path in rows:
                with self.subTest(request=request, function=function):
                    self.assertTrue(defines((ROOT / path).read_text(), function), f"{path} does not define {function}")

    def test_a_function_that_is_elsewhere_is_found(self):
        self.assertFalse(defines("void A::Go() { B::Stay(); }\n  Stay();\n", "B::Stay"))
        self.assertTrue(defines("absl::StatusOr<int> B::Stay(int x) {\n", "B::Stay"))
        self.assertTrue(defines("  void Run(int x) {\n", "Run"))

    def test_the_ways_are_short(self):
        step = [path for _, path in self.traces["TrainStep"]]
        shared = step[: [function for function, _ in self.traces["TrainStep"]].index(SHARED) + 1]
        ways = {"TrainStep": step, "ModelInfer": shared + [path for _, path in self.traces["ModelInfer"]]}
        for request, paths in ways.items():
            of_server = {path for path in paths if path.startswith("server/")}
            self.assertLessEqual(len(of_server), MOST[request], f"{request}: {sorted(of_server)}")


if __name__ == "__main__":
    case_runner.main()
