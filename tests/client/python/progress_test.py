"""The progress of a loop: its line, and the curve that it keeps."""

import contextlib
import io
import pathlib
import tempfile
import time
import types
import unittest
from unittest import mock
from xml.etree import ElementTree

from gluond.progress import Progress
from tests import case_runner


class Terminal(io.StringIO):
    """Remembers each state of the line."""

    def isatty(self):
        return True

    def lines(self):
        return self.getvalue().replace("\x1b[K", "").split("\r")[1:]


class ProgressTest(unittest.TestCase):
    def run_epoch(self, batches, seconds=0.0, surface=None, **arguments):
        surface = surface or Terminal()
        with mock.patch("sys.stderr", surface):
            progress = Progress(batches, "epoch 1", **arguments)
            for number in progress:
                time.sleep(seconds)
                progress.show(loss=1.0 / (number + 1))
        return progress, surface

    def test_the_line_shows_how_far_it_is(self):
        _, terminal = self.run_epoch(range(4), every=0.0)
        self.assertRegex(terminal.lines()[0], r"^epoch 1  \[#{6}\.{18}\] 1/4  .*/s, \d+ s left  loss 1$")
        self.assertRegex(terminal.lines()[-1], r"^epoch 1  \[#{24}\] 4/4  [\d.]+ s  loss 0.25\n$")

    def test_work_that_is_no_loop_tells_how_far_it_is(self):
        terminal = Terminal()
        with mock.patch("sys.stderr", terminal):
            progress = Progress((), "epoch 1", total=8, every=0.0)
            progress.begin()
            progress.reach(3)
            progress.reach(8, last=True)
            progress.leave()
        self.assertRegex(terminal.lines()[0], r"^epoch 1  \[#{9}\.{15}\] 3/8 ")
        self.assertRegex(terminal.lines()[-1], r" 8/8 ")

    def test_it_is_drawn_as_often_as_asked_for(self):
        _, terminal = self.run_epoch(range(100), seconds=0.01, every=0.2)
        self.assertLess(len(terminal.lines()), 20)
        self.assertGreater(len(terminal.lines()), 3)

    def test_a_log_has_the_last_line_only(self):
        _, log = self.run_epoch(range(4), surface=io.StringIO(), every=0.0)
        self.assertRegex(log.getvalue(), r"^epoch 1  \[#+\] 4/4 [^\n]*\n$")

    def test_a_notebook_has_one_picture_that_grows(self):
        shown = []
        handle = types.SimpleNamespace(update=shown.append)

        def display(content, display_id):
            shown.append(content)
            return handle

        shell = type("ZMQInteractiveShell", (), {})
        notebook = types.SimpleNamespace(get_ipython=shell, display=types.SimpleNamespace(display=display))
        with mock.patch.dict("sys.modules", {"IPython": notebook}):
            self.run_epoch(range(4), every=0.0)
        self.assertRegex(repr(shown[0]), "^epoch 1 .* 1/4")
        self.assertIsNone(shown[0]._repr_svg_(), "a point is no curve")
        picture = ElementTree.fromstring(shown[-1]._repr_svg_())
        self.assertIn("4/4", "".join(picture.itertext()))

    def test_after_an_interruption_a_new_line_begins(self):
        terminal = Terminal()
        with mock.patch("sys.stderr", terminal), contextlib.suppress(KeyboardInterrupt):
            for number in Progress(range(4), every=0.0):
                if number == 2:
                    raise KeyboardInterrupt
        self.assertTrue(terminal.getvalue().endswith("\n"))

    def test_the_curve_goes_on_in_the_next_epoch(self):
        first, _ = self.run_epoch(range(4), every=0.0)
        second, _ = self.run_epoch(range(4), every=0.0, after=first)
        third, _ = self.run_epoch(range(4), every=0.0, after=second)
        self.assertEqual(third.history["loss"][0], (1, 1.0))
        self.assertEqual(third.history["loss"][-1], (12, 0.25))

    def test_it_is_saved_as_a_picture(self):
        progress, _ = self.run_epoch(range(4), every=0.0)
        progress.show(nothing=float("nan"))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "curve.svg")
            progress.save(path)
            picture = ElementTree.parse(path).getroot()
        curve = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))[-1]
        x, y = zip(*(map(float, point.split(",")) for point in curve.get("points").split()))
        self.assertEqual(list(x), sorted(x))
        self.assertEqual(list(y), sorted(y))  # The loss falls; y grows downwards.
        self.assertIn("loss", [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")])


if __name__ == "__main__":
    case_runner.main()
