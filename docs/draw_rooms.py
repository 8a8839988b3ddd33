#!/usr/bin/python3
"""Draws docs/rooms.svg and docs/imports.svg from the table that tests/layers_test.py holds.

    docs/draw_rooms.py     writes both; tests/docs/rooms_test.py fails while they differ from what the table says

`rooms` draws frames of rooms. A room stands above all rooms of its frame that it may import. Within a frame a line is left out
where a way over other rooms leads to the same room. A line from a frame is one from each room in that frame, a line to a frame
one to each room there. `imports` draws a square for each pair of rooms of which the first may import the second.
"""

import pathlib
import runpy
import sys
from xml.sax import saxutils

# The frames: their place (column, from the left), and their colours (fill, line). A frame stands above those that come after it
# in the same column.
FRAMES = {
    "client": (0, "#eef4fb", "#1f77b4"),
    "proto": (0, "#f3f3f3", "#777777"),
    "server": (1, "#d9efd9", "#2ca02c"),
    "server/": (1, "#edf7ed", "#2ca02c"),
    "engine": (2, "#fdf3e7", "#ff7f0e"),
    "ops": (3, "#f4f0f9", "#9467bd"),
}
BOX_HEIGHT, LEVEL, GAP, PAD, TITLE = 26, 48, 12, 14, 24
COLUMN_GAP, FRAME_GAP, EDGE = 48, 30, 20
CELL = 18


def frame_of(room):
    """The frame that has a room, or None for rooms that are not drawn: bazel, deploy, docs."""
    if room.startswith("server/"):
        return "server/"
    top = room.split("/")[0]
    return top if top in FRAMES else None


def label(room):
    return room.partition("/")[2] or room


def width(text):
    """Of a box with this text, in pixels."""
    return 8 * len(text) + 22


def reduced(edges):
    """These edges without those that a way over others replaces."""
    below = {}

    def reach(room):
        if room not in below:
            below[room] = set(edges[room]).union(*(reach(other) for other in edges[room]))
        return below[room]

    return {room: [to for to in sorted(edges[room]) if not any(to in reach(other) for other in edges[room])] for room in edges}


class Frame:
    """Rooms at their levels. `places` has (centre, top, width) of each room's box, from the frame's own corner."""

    def __init__(self, rooms, may_import):
        self.rooms = rooms
        self.lines = reduced({room: may_import[room] & set(rooms) for room in rooms})
        levels = {}
        for room in rooms:
            self._level(room, levels)
        count = max(levels.values()) + 1
        # A line that passes a level has a place there, (from, to), so that no box lies in its way.
        self.rows = [[room for room in rooms if levels[room] == level] for level in range(count)]
        self.ways = {}
        for room in rooms:
            for to in self.lines[room]:
                passed = [(room, to, level) for level in range(levels[room] - 1, levels[to], -1)]
                self.ways[room, to] = [room, *passed, to]
                for _, _, level in passed:
                    self.rows[level].append((room, to, level))
        self._order()
        self._place()

    def _level(self, room, levels):
        if room not in levels:
            levels[room] = max([self._level(to, levels) + 1 for to in self.lines[room]], default=0)
        return levels[room]

    def _order(self):
        """Orders each level by where its neighbours stand, so that few lines cross; the best of some rounds."""
        beside = {}
        for way in self.ways.values():
            for one, other in zip(way, way[1:]):
                beside.setdefault(one, []).append(other)
                beside.setdefault(other, []).append(one)
        best = None
        for turn in range(24):
            rows = list(range(len(self.rows)))
            for level in rows if turn % 2 else reversed(rows):
                at = {one: (index + 0.5) / len(row) for row in self.rows for index, one in enumerate(row)}
                mean = lambda one: sum(at[other] for other in beside.get(one, [one])) / len(beside.get(one, [one]))
                self.rows[level] = sorted(self.rows[level], key=mean)
            crossings = self._crossings()
            if best is None or crossings < best[0]:
                best = crossings, [list(row) for row in self.rows]
        self.rows = best[1]

    def _crossings(self):
        at = {one: index for row in self.rows for index, one in enumerate(row)}
        by_level = {}
        for room, way in self.ways.items():
            for one, other in zip(way, way[1:]):
                level = next(level for level, row in enumerate(self.rows) if one in row)
                by_level.setdefault(level, []).append((at[one], at[other]))
        return sum((a - c) * (b - d) < 0 for lines in by_level.values() for a, b in lines for c, d in lines) // 2

    def _place(self):
        wide = lambda one: width(label(one)) if isinstance(one, str) else 10
        rows = [sum(map(wide, row)) + GAP * (len(row) - 1) for row in self.rows]
        self.width = max(*rows, width(label(self.rooms[0]))) + 2 * PAD
        self.height = TITLE + PAD + LEVEL * (len(self.rows) - 1) + BOX_HEIGHT
        if len(self.rooms) == 1:  # Its frame is its box.
            self.height = TITLE + PAD
        self.places = {}
        for level, row in enumerate(self.rows):
            # The boxes share the rest of the width between them.
            between = GAP + (self.width - 2 * PAD - rows[level]) / (len(row) + 1)
            x = PAD + between - GAP
            for one in row:
                self.places[one] = x + wide(one) / 2, TITLE + LEVEL * (len(self.rows) - 1 - level), wide(one)
                x += wide(one) + between


def svg(wide, high, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="{wide:.0f}" height="{high:.0f}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def text(x, y, words, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{saxutils.escape(words)}</text>'


def curve(points, colour):
    """Through the points, upright at each."""
    path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x, y), (to_x, to_y) in zip(points, points[1:]):
        path += f"C{x:.0f} {(y + to_y) / 2:.0f} {to_x:.0f} {(y + to_y) / 2:.0f} {to_x:.0f} {to_y:.0f}"
    return f'<path d="{path}" stroke="{colour}" fill="none"/>'


def arrow(points):
    path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
    return f'<path d="{path}" stroke="#555" fill="none" marker-end="url(#to)"/>'


def shared(source, target, may_import):
    """(what all rooms of a frame may import of another, pairs beyond that)."""
    common = set.intersection(*(may_import[room] for room in source)) & set(target)
    return common, [(room, to) for room in source for to in sorted(may_import[room] & set(target) - common)]


def rooms(may_import):
    """The drawing of the rooms, as SVG."""
    frames = {name: Frame([room for room in may_import if frame_of(room) == name], may_import) for name in FRAMES}
    columns = [[name for name in FRAMES if FRAMES[name][0] == column] for column in sorted({at for at, _, _ in FRAMES.values()})]
    tallest = max(sum(frames[name].height for name in column) + FRAME_GAP * (len(column) - 1) for column in columns)
    bottom, at, x = EDGE + tallest, {}, EDGE
    for column in columns:
        wide = max(frames[name].width for name in column)
        y = bottom
        for name in reversed(column):
            frame = frames[name]
            y -= frame.height
            at[name] = x + (wide - frame.width) / 2, y
            y -= FRAME_GAP
        # The highest frame of the first column is as high as all.
        if len(column) > 1 and column is columns[0]:
            at[column[0]] = at[column[0]][0], EDGE
        x += wide + COLUMN_GAP
    wide, high = x - COLUMN_GAP + EDGE, bottom + 2 * EDGE + 12
    body = [
        '<defs><marker id="to" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>'
    ]
    for name, frame in frames.items():
        left, top = at[name]
        _, fill, stroke = FRAMES[name]
        body.append(
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{frame.width:.0f}" height="{frame.height:.0f}" rx="8" '
            f'fill="{fill}" stroke="{stroke}"/>'
        )
        if len(frame.rooms) == 1:
            body.append(text(left + frame.width / 2, top + frame.height / 2 + 5, name, ' font-weight="bold" text-anchor="middle"'))
        else:
            body.append(text(left + PAD, top + 17, "server/..." if name == "server/" else name, ' font-weight="bold"'))
    for name, frame in frames.items():
        left, top = at[name]
        _, _, stroke = FRAMES[name]
        for way in frame.ways.values():
            points = []
            for one in way:
                centre, y, _ = frame.places[one]
                points += [(left + centre, top + y), (left + centre, top + y + BOX_HEIGHT)]
            body.append(curve(points[1:-1], stroke))
        for room in frame.rooms if len(frame.rooms) > 1 else ():
            centre, y, box = frame.places[room]
            body.append(
                f'<rect x="{left + centre - box / 2:.0f}" y="{top + y:.0f}" width="{box:.0f}" height="{BOX_HEIGHT}" rx="5" '
                f'fill="white" stroke="{stroke}"/>'
            )
            body.append(text(left + centre, top + y + 17, label(room), ' text-anchor="middle"'))
    body += _between(frames, at, may_import, bottom)
    words = "A line leads down, or along an arrow, to what may be imported. tests may import all rooms, and no room imports tests."
    body.append(text(EDGE, high - 9, words, ' fill="#555" font-size="12"'))
    return svg(wide, high, body)


def _between(frames, at, may_import, bottom):
    """The arrows from frame to frame."""
    used = {}  # How many arrows begin or end at each side of a frame.

    def frame_box(name):
        left, top = at[name]
        return left, top, frames[name].width, frames[name].height

    def room_box(name, room):
        centre, y, box = frames[name].places[room]
        left, top = at[name]
        return left + centre - box / 2, top + y, box, BOX_HEIGHT

    def way(source, source_box, target, target_box):
        first, last = FRAMES[source][0], FRAMES[target][0]
        x, y, wide, high = source_box
        to_x, to_y, to_wide, to_high = target_box
        if first == last:  # Straight down.
            middle = max(x, to_x) / 2 + min(x + wide, to_x + to_wide) / 2
            return [(middle, y + high), (middle, to_y)]
        if abs(first - last) == 1 and (y < to_y + to_high and to_y < y + high):  # Across.
            level = max(y, to_y) / 2 + min(y + high, to_y + to_high) / 2
            return [(x + wide, level), (to_x, level)] if last > first else [(x, level), (to_x + to_wide, level)]
        lane = used[source] = used.get(source, 0) + 1
        if y + high > bottom - 2 * BOX_HEIGHT:  # Along the floor.
            floor = bottom + 10 * lane
            return [
                (x + wide / 2, y + high),
                (x + wide / 2, floor),
                (to_x + to_wide / 2, floor),
                (to_x + to_wide / 2, to_y + to_high),
            ]
        level = y + high * lane / 3  # Along the roof, and down.
        side = x + wide if last > first else x
        return [(side, level), (to_x + to_wide / 2, level), (to_x + to_wide / 2, to_y)]

    drawn = []
    for source in frames:
        for target in frames:
            if source == target:
                continue
            common, others = shared(frames[source].rooms, frames[target].rooms, may_import)
            if common == set(frames[target].rooms):
                drawn.append(way(source, frame_box(source), target, frame_box(target)))
            else:
                for room in sorted(common):
                    drawn.append(way(source, frame_box(source), target, room_box(target, room)))
            for room, to in others:
                drawn.append(way(source, room_box(source, room), target, room_box(target, to)))
    return [arrow(points) for points in drawn]


def imports(may_import):
    """The table of imports, as SVG: a row for each room, a square in it for each room that it may import."""
    frames = "proto", "engine", "ops", "server/", "server", "client"
    order, waiting = [], [room for name in frames for room in may_import if frame_of(room) == name]
    while waiting:
        room = next(room for room in waiting if not may_import[room] & set(waiting))
        order.append(room)
        waiting.remove(room)
    left, top = 8 + 7 * max(map(len, order)), 8 + 6 * max(map(len, order))
    size = CELL * len(order)
    body = []
    for index, room in enumerate(order):
        y, x = top + CELL * index, left + CELL * index
        _, fill, stroke = FRAMES[frame_of(room)]
        body.append(f'<rect x="0" y="{y}" width="{left + size}" height="{CELL}" fill="{fill}"/>')
        body.append(text(left - 8, y + 13, room, ' text-anchor="end" font-size="12"'))
        body.append(f'<text transform="translate({x + 13} {top - 6}) rotate(-60)" font-size="12">{saxutils.escape(room)}</text>')
        for other, to in enumerate(order):
            if to in may_import[room]:
                body.append(
                    f'<rect x="{left + CELL * other + 3}" y="{y + 3}" width="{CELL - 6}" height="{CELL - 6}" rx="2" '
                    f'fill="{FRAMES[frame_of(to)][2]}"/>'
                )
        body.append(f'<rect x="{x + 7}" y="{y + 7}" width="{CELL - 14}" height="{CELL - 14}" fill="{stroke}" opacity="0.5"/>')
    return svg(left + size + top // 2, top + size + 6, body)


def table(root):
    """The rooms of a checkout, each with those that it may import."""
    return runpy.run_path(str(root / "tests/layers_test.py"))["MAY_IMPORT"]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))
    may_import = table(root)
    (root / "docs/rooms.svg").write_text(rooms(may_import))
    (root / "docs/imports.svg").write_text(imports(may_import))


if __name__ == "__main__":
    main()
