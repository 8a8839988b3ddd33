"""Program: what the server compiles a model to, as a table and as a picture."""

from __future__ import annotations

import html
import pathlib
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._files import write_whole
from .._proto import explain_pb2
from ..base import MXNetError
from . import calls, methods

_PLACES = explain_pb2.ProgramTensor
_MOST_CHANGES = 10  # Lines of a pass in the table.


def explain(model: str, inputs: Optional[Mapping[str, Sequence[int]]], mode: str, version: Optional[Union[str, int]]) -> Program:
    """As Model.program."""
    if mode.upper() not in explain_pb2.ExplainRequest.Mode.keys():
        raise MXNetError(f"there is no mode '{mode}'; want 'predict' or 'train_step'")
    request = explain_pb2.ExplainRequest(mode=explain_pb2.ExplainRequest.Mode.Value(mode.upper()))
    if version is None:
        request.model = model
    else:
        request.served, request.version = model, str(version)
    for name, shape in (inputs or {}).items():
        request.inputs.add(name=name, shape=shape)
    return Program(calls.current().call(methods.EXPLAIN, request))


class Program:
    """A model's program: a table for `print`, a picture in a notebook. proto: all that the server tells, the ExplainResponse of
    docs/wire.md."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto

    def __str__(self) -> str:
        return "\n".join([*_head(self.proto), "", *_steps(self.proto), "", *_passes(self.proto)])

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return _svg(self.proto)

    def save(self, path: Union[str, pathlib.Path]) -> None:
        """Draws the program into a picture in SVG: steps from top to bottom, and beside them their places in the arena."""
        write_whole(path, [_svg(self.proto).encode()])


def _amount(number: float) -> str:
    """`1.2M`."""
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000 or unit == "T":
            break
        number /= 1000
    return f"{number:.3g}{unit}" if number < 1000 else f"{number:.0f}{unit}"


def _bytes(number: float) -> str:
    """`1.2 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"


def _shape(tensor: Any) -> str:
    return f"({','.join(str(each) for each in tensor.shape)})"


def _short(text: str, most: int) -> str:
    """The text, or its beginning and its end."""
    return text if len(text) <= most else f"{text[: (most - 2) // 2]}..{text[-((most - 1) // 2):]}"


def _head(proto: Any) -> List[str]:
    totals = proto.totals
    name = f"{proto.name}:{proto.version}" if proto.version else proto.name
    mode = "training step" if proto.mode == explain_pb2.ExplainRequest.TRAIN_STEP else "prediction"
    inputs = ", ".join(f"{each.name} {_shape(each)}" for each in proto.inputs)
    once = len(proto.steps) - len(_shown(proto))
    return [
        _short(f"{name} on {proto.device}: {mode} of {inputs}", 120),
        f"{len(proto.steps) - once} steps, {_amount(totals.flop)} FLOP, {_bytes(totals.bytes_read)} read, "
        f"{_bytes(totals.bytes_written)} written{f'; before, once, {once} steps that compute constants' if once else ''}",
        f"memory {_bytes(totals.peak_bytes)}: arena {_bytes(totals.arena_bytes)} "
        f"({_bytes(totals.unshared_bytes)} unshared), variables {_bytes(totals.variable_bytes)}, "
        f"outputs {_bytes(totals.output_bytes)}, constants {_bytes(totals.constant_bytes)}",
    ]


def _aligned(rows: List[Tuple[str, ...]]) -> List[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _place(tensor: Any) -> str:
    if tensor.place == _PLACES.ARENA:
        return str(tensor.offset) if tensor.offset < 10**9 else _bytes(tensor.offset)
    return {_PLACES.CALLER: "outside", _PLACES.CONSTANT: "kept"}.get(tensor.place, "-")


def _shown(proto: Any) -> List[Tuple[int, Any]]:
    """The steps of each run, with their numbers: those that compute constants are many, small, and done once."""
    return [(number, step) for number, step in enumerate(proto.steps) if not step.computes_constants]


def _steps(proto: Any) -> List[str]:
    rows: List[Tuple[str, ...]] = [("", "step", "operator", "output", "FLOP", "moved", "at", "chain", "pass")]
    for number, step in _shown(proto):
        output = step.outputs[0] if step.outputs else explain_pb2.ProgramTensor()
        flop = _amount(step.flop) if step.has_product else f"~{_amount(step.flop)}"
        moved, chain = _bytes(step.bytes_read + step.bytes_written), str(step.chain) if step.HasField("chain") else ""
        row = (
            _short(step.name, 17),
            _short(step.op, 20),
            _short(_shape(output), 17),
            flop,
            moved,
            _place(output),
            chain,
            step.made_by,
        )
        rows.append((str(number), *row))
    return _aligned(rows)


def _passes(proto: Any) -> List[str]:
    turns = {explain_pb2.ProgramPass.LEFT_OUT: "left out", explain_pb2.ProgramPass.OF_OTHER_PROGRAMS: "for other programs"}
    rows: List[Tuple[str, ...]] = [("pass", "calls", "what it did")]
    for run in proto.passes:
        rows.append(
            (
                run.name + (", once" if run.once else ""),
                f"{run.calls_before} > {run.calls_after}",
                turns.get(run.turn) or run.effect or "no change",
            )
        )
        shown = run.changes[:_MOST_CHANGES]
        for change in shown:
            before, after = _short(change.before or "new", 20), _short(change.after or "gone", 20)
            rows.append(("", "", f"  {_short(change.node, 36)}: {before} > {after}"))
        if run.num_changes > len(shown):
            rows.append(("", "", f"  and {run.num_changes - len(shown)} more"))
    return _aligned(rows)


# The picture.

_KINDS = {
    "products": "#2f6db3",
    "pooling": "#3a9a5b",
    "normalization": "#d9822b",
    "softmax, loss": "#c2476b",
    "moves data": "#8b8f98",
    "other": "#7a5fb0",
}
_WORDS = {
    "pooling": ("pool", "upsampl", "resize"),
    "normalization": ("norm", "lrn"),
    "softmax, loss": ("softmax", "loss", "pick", "ctc"),
    "moves data": (
        "reshape", "transpose", "concat", "slice", "copy", "cast", "blocked", "flatten", "stack", "take", "pad", "swap",
        "embedding", "gather", "split", "repeat", "tile", "expand_dims", "_zeros", "_ones", "broadcast_like", "broadcast_to",
    ),
}  # fmt: skip
_NAME, _OPERATOR, _OUTPUT, _FLOP, _MOVED, _MEMORY = 46, 216, 404, 540, 708, 900
_BAR, _ARENA, _WIDTH, _TOP = 110, 420, 1340, 128


class _RowHeight(NamedTuple):
    """Heights: text is left out where it could not be read."""

    height: float
    font: int

    @staticmethod
    def of(steps: int) -> _RowHeight:
        return _RowHeight(18, 11) if steps <= 200 else _RowHeight(12, 9) if steps <= 800 else _RowHeight(3, 0)


def _kind(step: Any) -> str:
    if step.has_product:
        return "products"
    op = step.op.lower()
    return next((kind for kind, words in _WORDS.items() if any(word in op for word in words)), "other")


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:g}' y='{y:.1f}'{more}>{html.escape(text)}</text>"


def _box(x: float, y: float, width: float, height: float, colour: str, title: str = "", more: str = "") -> str:
    inside = f"<title>{html.escape(title)}</title>" if title else ""
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0.5):.1f}' height='{height:.1f}' fill='{colour}'{more}>{inside}</rect>"
    )


def _svg(proto: Any) -> str:
    shown = len(_shown(proto))
    rows = _RowHeight.of(shown)
    height = _TOP + shown * rows.height + 24
    first, *others = _head(proto)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height:g}' viewBox='0 0 {_WIDTH} {height:g}' "
        f"font-family='sans-serif' font-size='11' fill='#222'>",
        "<style>.head{font-weight:bold}.light{fill:#666}</style>",
        "<rect width='100%' height='100%' fill='#fff'/>",
        _text(16, 26, first, " font-size='16' class='head'"),
        *(_text(16, 46 + 16 * i, line, " font-size='12' class='light'") for i, line in enumerate(others)),
    ]
    for i, (kind, colour) in enumerate(_KINDS.items()):
        parts += [_box(16 + 130 * i, 76, 10, 10, colour), _text(31 + 130 * i, 85, kind)]
    titles = {_NAME: "step", _OPERATOR: "operator", _OUTPUT: "output", _FLOP: "FLOP", _MOVED: "bytes read, written"}
    parts += [_text(x, _TOP - 12, title, " class='head'") for x, title in titles.items()]
    parts += [*_arena(proto, rows), *_rows(proto, rows), "</svg>\n"]
    return "\n".join(parts)


def _row_of(proto: Any) -> List[int]:
    """By step, and after the last: the shown steps before it."""
    rows = [0]
    for step in proto.steps:
        rows.append(rows[-1] + (not step.computes_constants))
    return rows


def _rows(proto: Any, rows: _RowHeight) -> List[str]:
    shown, row_of = _shown(proto), _row_of(proto)
    most_flop = max([step.flop for _, step in shown] + [1])
    most_moved = max([step.bytes_read + step.bytes_written for _, step in shown] + [1])
    parts = []
    for row, (number, step) in enumerate(shown):
        y, kind = _TOP + row * rows.height, _kind(step)
        middle, bar, line = y + rows.height / 2, rows.height * 0.6, y + rows.height * 0.72
        title = f"{number} {step.name}: {step.op}{', ' + step.made_by if step.made_by else ''}"
        if row % 2:
            parts.append(_box(16, y, _MEMORY - 32, rows.height, "#f5f6f8"))
        if rows.font:
            output = _shape(step.outputs[0]) if step.outputs else ""
            texts = {_NAME: (step.name, 26), _OPERATOR + 14: (step.op, 28), _OUTPUT: (output, 22)}
            size = f" font-size='{rows.font}'"
            parts.append(_text(_NAME - 8, line, str(number), f"{size} text-anchor='end' class='light'"))
            parts += [_text(x, line, _short(text, most), size) for x, (text, most) in texts.items()]
        parts.append(_box(_OPERATOR, middle - bar / 2, 9, bar, _KINDS[kind], title))
        flop, read, written = (
            _BAR * part for part in (step.flop / most_flop, step.bytes_read / most_moved, step.bytes_written / most_moved)
        )
        parts.append(_box(_FLOP, middle - bar / 2, flop, bar, _KINDS[kind], f"{step.name}: {step.flop:,.0f} FLOP"))
        moved = f"{step.name}: {step.bytes_read:,} bytes read, {step.bytes_written:,} written"
        parts.append(_box(_MOVED, middle - bar / 2, read, bar, "#7c8596", moved))
        parts.append(_box(_MOVED + read, middle - bar / 2, written, bar, "#c3c9d4", moved))
        if rows.font:
            about = "" if step.has_product else "~"
            parts.append(_text(_FLOP + flop + 5, line, about + _amount(step.flop), f"{size} class='light'"))
            parts.append(
                _text(_MOVED + read + written + 5, line, _bytes(step.bytes_read + step.bytes_written), f"{size} class='light'")
            )
    for chain in proto.chains:
        y, end = _TOP + row_of[chain.first] * rows.height, _TOP + row_of[chain.end] * rows.height
        title = f"{chain.rows} rows in {chain.chunks} parts, each through all these steps"
        parts.append(_box(6, y + 1, 4, end - y - 2, "#222", title))
    return parts


def _arena(proto: Any, rows: _RowHeight) -> List[str]:
    """The places in the arena, from left to right, while they are needed, from top to bottom."""
    total, row_of = proto.totals.arena_bytes, _row_of(proto)
    height = row_of[-1] * rows.height
    parts = [_text(_MEMORY, _TOP - 28, f"memory plan: an arena of {_bytes(total)}", " class='head'")]
    parts.append(_box(_MEMORY, _TOP, _ARENA, height, "#f5f6f8"))
    for i in range(5):
        x, anchor = _MEMORY + _ARENA * i / 4, ("start", "middle", "middle", "middle", "end")[i]
        parts.append(_box(x, _TOP, 0.5, height, "#d5d9e0"))
        parts.append(_text(x, _TOP - 12, _bytes(total * i / 4), f" text-anchor='{anchor}' class='light'"))
    for number, step in _shown(proto):
        for output in step.outputs:
            if output.place != _PLACES.ARENA or not output.bytes or not total:
                continue
            x, width = _MEMORY + _ARENA * output.offset / total, _ARENA * output.bytes / total
            y, end = _TOP + row_of[number] * rows.height, _TOP + row_of[output.last_step + 1] * rows.height
            title = (
                f"{output.name} {_shape(output)}: {output.bytes:,} bytes at {output.offset:,}, steps {number} to {output.last_step}"
            )
            look = " fill-opacity='0.75' stroke='#fff' stroke-width='0.8'"
            parts.append(_box(x, y, width, end - y, _KINDS[_kind(step)], title, look))
            letters = int((width - 6) / 6)
            if rows.font and letters > 7:
                parts.append(
                    _text(x + 4, y + rows.height * 0.72, _short(output.name, letters), f" font-size='{rows.font}' fill='#fff'")
                )
    return parts
