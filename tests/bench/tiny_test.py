"""Every row of hybrid.py, group.py, library.py and cpp.py works, at sizes that take no time, and without peers: a second gluond stands in for MXNet."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from tests import case_runner

HERE = pathlib.Path("tests/bench")
sys.path.insert(0, str(HERE))

import comparison  # noqa: E402
import cpp  # noqa: E402
import group  # noqa: E402
import hybrid  # noqa: E402
import library  # noqa: E402

SERVER = pathlib.Path("server/gluond-server").absolute()


class TinyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The client's modules are compiled once: a sandbox keeps nothing beside them."""
        cls.compiled = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.compiled.cleanup)

    def rows(self, *arguments):
        """The table's rows as lists of cells."""
        run = subprocess.run(
            [sys.executable, HERE / "run.py", "--tiny", "--rounds", "1", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "GLUOND_BIN": os.getcwd(),
                "GLUOND_PACKAGE": os.path.abspath("client/python"),
                "PYTHONPYCACHEPREFIX": self.compiled.name,
            },
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = [line.strip("|").split("|") for line in run.stdout.splitlines() if line.startswith("| ")]
        return [[cell.strip() for cell in line] for line in lines if line[0].strip() not in ("what", "---")]

    def program(self, text):
        """An executable file, in place of a peer's Python."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "python")
        path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(text))
        path.chmod(0o700)
        return path

    def test_every_row_has_two_figures_with_their_spread(self):
        rows = self.rows("--only", "hybrid")
        titles = [row[0] for row in rows]
        for name, row in hybrid.ROWS.items():
            self.assertIn(row.what, titles, name)
        for row in rows:
            what, ours, against, ratio, _, processor = row
            self.assertRegex(ours, r"^[0-9.]+ (ms|MiB) \([0-9.]+ to [0-9.]+\)$", what)
            self.assertRegex(against, r"[0-9.]+ (ms|MiB) \([0-9.]+ to [0-9.]+\)$", what)
            self.assertRegex(ratio, r"^[0-9.]+ \([0-9.]+ to [0-9.]+\)$", what)
            self.assertIn("processors", processor)

    def test_every_row_of_a_group_has_two_figures_and_a_limit(self):
        rows = self.rows("--only", "group")
        self.assertEqual(["1.2", "1.15", "1.15", "1.02", "1.0"], [row[4] for row in rows])
        self.assertEqual(len(group.ROWS), len(rows))
        for what, ours, against, ratio, _, _ in rows:
            self.assertRegex(ours, r"^[0-9.]+ ms \([0-9.]+ to [0-9.]+\)$", what)
            self.assertRegex(against, r"[0-9.]+ ms \([0-9.]+ to [0-9.]+\)$", what)
            self.assertRegex(ratio, r"^[0-9.]+ \([0-9.]+ to [0-9.]+\)$", what)

    def test_every_row_of_cpp_has_two_figures_and_a_limit(self):
        rows = self.rows("--only", "cpp")
        self.assertEqual([title for _, title, _, _ in cpp.ROWS], [row[0] for row in rows])
        for _, ours, other, ratio, most in rows:
            self.assertRegex(ours, r"^[0-9.]+ us$")
            self.assertRegex(other, r"^(TrainStep|Python) [0-9.]+ us$")
            self.assertGreater(float(ratio), 0)
            self.assertGreater(float(most), 0)

    def test_every_row_of_a_library_has_two_figures_and_a_limit(self):
        rows = self.rows("--only", "library")
        self.assertEqual(len(library.SIZES), len(rows))
        for what, ours, against, ratio, limit in rows:
            self.assertRegex(what, r"^abs of [0-9,]+ numbers by a library's kernel$")
            self.assertRegex(ours, r"^[0-9.]+ us$", what)
            self.assertRegex(against, r"^built in [0-9.]+ us$", what)
            self.assertRegex(ratio, r"^[0-9.]+$", what)
            self.assertEqual(limit, "1.02")

    def test_a_row_is_chosen_by_its_name_or_a_part_of_it(self):
        for wanted, names in (
            ("hybrid:encoder", ["encoder"]),
            ("hybrid:4_training,8_training,clock", ["dense1024_training", "dense2048_training", "adam_clock"]),
            ("hybrid", list(hybrid.ROWS)),
            ("", list(hybrid.ROWS)),
        ):
            self.assertEqual(names, comparison.chosen(hybrid.ROWS, wanted))
        with self.assertRaisesRegex(SystemExit, "no row of recurrent, "):
            comparison.chosen(hybrid.ROWS, "hybrid:nothing")

    def test_servers_of_several_builds_take_turns(self):
        rows = self.rows("--only", "hybrid:recurrent,encoder_published", "--server", f"new={SERVER}", "--server", f"old={SERVER}")
        self.assertEqual(
            ["an echo", "old's", "the same published", "old's"], [re.sub(" [0-9.]+ ms .*", "", row[2]) for row in rows]
        )
        self.assertEqual(["report", "1.02", "1.05", "1.02"], [row[4] for row in rows])
        (row,) = self.rows("--only", "before:python_round_trip", "--server", f"new={SERVER}", "--server", f"old={SERVER}")
        self.assertEqual(("python_round_trip", "1.02"), (row[0], row[4]))
        self.assertRegex(row[2], "^old's [0-9.]+ us")

    def test_a_peer_gets_the_time_of_an_echo_and_must_compute_the_same(self):
        stand_in = self.program(
            """
            import os, sys
            if sys.argv[1].endswith("needs.py"):
                sys.exit()
            os.environ["PYTHONPATH"] = os.environ["GLUOND_PACKAGE"]
            os.execv(sys.executable, [sys.executable, sys.argv[1], "gluond"])
            """
        )
        for case, limit in (("recurrent_training", "0.9"), ("encoder", "report")):
            (row,) = self.rows("--only", f"hybrid:{case}", "--mxnet", stand_in)
            self.assertIn("MXNet 1.9.1 and an echo", row[2])
            self.assertEqual(row[4], limit)
        other = self.program(
            """
            import sys
            if not sys.argv[1].endswith("needs.py"):
                for line in sys.stdin:
                    print("1 2 3 4" if line.startswith("agree") else "1.0", flush=True)
            """
        )
        disagreeing, row = self.rows("--only", "hybrid:encoder", "--ort", other)
        self.assertIn("onnxruntime computes [1.0, 2.0, 3.0, 4.0]", disagreeing[2])
        self.assertTrue(row[2].startswith("an echo"), row)


if __name__ == "__main__":
    case_runner.main()
