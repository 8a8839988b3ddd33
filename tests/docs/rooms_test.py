"""The drawings of the rooms are those that the layers' table gives."""

import os
import pathlib
import unittest

from docs import draw_rooms
from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent


class RoomsTest(unittest.TestCase):
    def test_the_drawings_are_the_tables(self):
        table = draw_rooms.table(ROOT)
        for name, drawing in ("rooms", draw_rooms.rooms(table)), ("imports", draw_rooms.imports(table)):
            self.assertTrue(
                (ROOT / f"docs/{name}.svg").read_text() == drawing, f"docs/{name}.svg is out of date: run docs/draw_rooms.py"
            )
            self.assertIn(f"({name}.svg)", (ROOT / "docs/architecture.md").read_text())

    def test_a_room_more_or_an_import_less_is_another_drawing(self):
        table = draw_rooms.table(ROOT)
        more = {**table, "engine/new": {"engine/core"}}
        less = {**table, "server/net": table["server/net"] - {"server/start"}}
        for draw in draw_rooms.rooms, draw_rooms.imports:
            self.assertIn(">new<" if draw is draw_rooms.rooms else ">engine/new<", draw(more))
            self.assertNotEqual(draw(less), draw(table))

    def test_a_longer_way_replaces_a_line(self):
        self.assertEqual(draw_rooms.reduced({"a": set(), "b": {"a"}, "c": {"a", "b"}}), {"a": [], "b": ["a"], "c": ["b"]})


if __name__ == "__main__":
    case_runner.main()
