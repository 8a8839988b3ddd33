"""The drawings and the table of the rooms are those that the layers' table gives."""

import os
import pathlib
import re
import unittest

from docs import draw_rooms
from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent


def stated(page):
    """{room: the rooms that it may import}, by the rows of the table in docs/architecture.md."""
    found = {}
    for names, cell in re.findall(
        r"^\| (`[\w/]+`(?:, `[\w/]+`)*) \| .+ \| ([^|]+) \|$", page.partition("\n## Words")[0], re.MULTILINE
    ):
        of_each, *of_some = cell.split("; ")
        for room in re.findall(r"[\w/]*\w", names):
            found[room] = set(of_each.split(", ")) - {"nothing", "runs binaries"}
        for names, more in (words.split(" also ") for words in of_some):
            for room in re.findall(r"`(.+?)`", names):
                found[room] = found.get(room, set()) | set(more.split(", "))
    return found


class RoomsTest(unittest.TestCase):
    def test_the_drawings_are_the_tables(self):
        table = draw_rooms.table(ROOT)
        for name, drawing in ("rooms", draw_rooms.rooms(table)), ("imports", draw_rooms.imports(table)):
            self.assertTrue(
                (ROOT / f"docs/{name}.svg").read_text() == drawing, f"docs/{name}.svg is out of date: run docs/draw_rooms.py"
            )
            self.assertIn(f"({name}.svg)", (ROOT / "docs/architecture.md").read_text())

    def test_the_page_has_the_same_table(self):
        expected = {"tests": {"everything"}, "server": set()}
        for room, names in draw_rooms.table(ROOT).items():
            if not room.startswith("server"):
                expected[room] = names
                continue
            # The page has one row for the server, with the folders that all its rooms may import beside each other.
            folders = {name.split("/")[0] for name in names} - {"server"}
            expected["server"] |= folders - {"bazel"}
            if "bazel" in folders:
                expected[room.split("/")[1]] = {"bazel"}
        del expected["docs"]
        page = (ROOT / "docs/architecture.md").read_text()
        self.assertEqual(stated(page), expected)
        self.assertNotEqual(stated(page.replace("| engine/core, engine/passes |", "| engine/core |", 1)), expected)

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
