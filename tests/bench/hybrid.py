"""The rows of run.py about networks in a session, as `net.hybridize()` makes them (--only hybrid).

Most are against the fastest of the peers that are there, whose process gets the time of an echo of the same bytes added: nothing
crosses a wire there. Others are against the same network as a model of the server. `--server NAME=PATH`, given twice or more,
adds a row for each further server, and alternates all sides round by round.

Every side computes the same numbers from the same weights, which is looked at before a figure is taken.
"""

import contextlib
import os
import pathlib
import statistics
from typing import NamedTuple, Optional, Tuple

import comparison
import network_cases as cases
from python_rows import gluon_side
from sides import ROOT, Side, alternate

# The share of the fastest peer's time that a case may take.
_AT_MOST = {
    "recurrent": 1.1,
    "recurrent_training": 0.9,
    **{f"dense{width}": 1.1 for width in cases.DENSE},
    **{f"dense{width}_training": 1.0 for width in cases.DENSE},
}


class Row(NamedTuple):
    """what: its name in the table. line: the case of gluon_bench.py. against: a name and a case of the same program; None: the
    peers."""

    what: str
    line: str
    limit: object
    against: Optional[Tuple[str, str]] = None


def _published(name, title):
    return Row(f"{title}, inference of 1 in a session", name, 1.05, ("the same published", f"{name}_published"))


ROWS = {
    **{name: Row(case.what, name, _AT_MOST.get(name, "report")) for name, case in cases.CASES.items() if name != "mobilenet"},
    "resnet50_published": _published("resnet50", "ResNet-50"),
    "encoder_published": _published("encoder", "Transformer encoder"),
    "mobilenet_published": _published("mobilenet", "MobileNet"),
    "memory": Row(
        "peak of tensors, ResNet-50, steps of 8 in a session", "resnet50_training", 1.1, ("TrainStep", "resnet50_train_step")
    ),
    "adam": Row("Adam step of 60 small parameters, a client's loop, executed", "adam_executed", 1.2, ("fit()", "adam_fit")),
    "adam_clock": Row("the same by the clock", "adam", "report", ("fit()", "adam_fit")),
    "first_step": Row("first step of a new signature, encoder", "first_step", 3, ("a later step", "later_step")),
    "second_step": Row("second step of a new signature, encoder", "second_step", 3, ("a later step", "later_step")),
}


def wanted(options):
    return options.only in "hybrid" or options.only.startswith("hybrid:")


def measure(options):
    """Prints the rows."""
    if options.tiny:
        os.environ["BENCH_TINY"] = "1"
    print(comparison.HEADER, flush=True)
    for name in comparison.chosen(ROWS, options.only):
        if name == "memory":
            _measure_memory(options, ROWS[name])
        elif ROWS[name].against is None:
            _measure_peers(options, ROWS[name])
        else:
            _measure_itself(options, ROWS[name])


def _peers(options, row):
    """The sides of the peers that are there for a case."""
    script, two = ROOT / "tests/bench/gluon_torch.py", {"OMP_NUM_THREADS": "2"}
    if options.torch:
        yield Side("PyTorch", [options.torch, script], row.line, **two)
        yield Side("PyTorch compiled", [options.torch, script, "compiled"], row.line, **two)
    if options.mxnet:
        yield gluon_side("MXNet 1.9.1", options.mxnet, "mxnet", row.line)
    if options.ort and not cases.CASES[row.line].training:
        yield Side("onnxruntime", [options.ort, ROOT / "tests/bench/peer_onnxruntime.py"], row.line)


def _agree(side, line, expected):
    """Whether the side computes these numbers; it says so where it does not."""
    found = [float(each) for each in side.ask(f"agree {line}").split()]
    # Two steps of training part rounding errors from each other; inference leaves them as they are.
    most = (0.02 if cases.CASES[line].training else 0.002) * max(map(abs, expected))
    agrees = len(found) == len(expected) and all(abs(a - b) <= most for a, b in zip(found, expected))
    if not agrees:
        print(f"| {line} | {expected} | {side.name} computes {found} |  |  |  |", flush=True)
    return agrees


def _before(row, sides):
    """A row for each further server."""
    ours, *others = sides
    for other in others:
        comparison.row(row.what, _milliseconds(ours), f"{other.name}'s", _milliseconds(other), "ms", 1.02)


def _milliseconds(side):
    return [figure / 1e3 for figure in side.figures]


def _measure_peers(options, row):
    with contextlib.ExitStack() as ends:
        servers = ends.enter_context(comparison.running(comparison.servers_of(options)))
        sides = [comparison.client(each.name, row.line, each.address) for each in servers]
        sent = f"echo_{cases.bytes_of(cases.CASES[row.line])}"
        echo = comparison.client("echo", sent, servers[0].address, ends.enter_context(comparison.echo()))
        everything = sides + [echo] + list(_peers(options, row))
        for each in everything:
            ends.callback(each.stop)
        expected = [float(each) for each in sides[0].ask(f"agree {row.line}").split()]
        agreeing = [each for each in everything[1:] if each is echo or _agree(each, row.line, expected)]
        alternate([sides[0], *agreeing], options.rounds)
    peers = [each for each in agreeing if each is not echo and each not in sides]
    for peer in peers:
        peer.figures = [a + b for a, b in zip(peer.figures, echo.figures)]
    peers.sort(key=lambda peer: statistics.median(peer.figures))
    for i, peer in enumerate(peers):
        limit = row.limit if i == 0 else "report"
        comparison.row(row.what, _milliseconds(sides[0]), f"{peer.name} and an echo", _milliseconds(peer), "ms", limit)
    if not peers:
        comparison.row(row.what, _milliseconds(sides[0]), "an echo", _milliseconds(echo), "ms", "report")
    _before(row, [each for each in sides if each.figures])


def _measure_itself(options, row):
    """Two cases of one client."""
    with contextlib.ExitStack() as ends:
        servers = ends.enter_context(comparison.running(comparison.servers_of(options)))
        sides = [comparison.client(each.name, row.line, each.address) for each in servers]
        for each in sides:
            ends.callback(each.stop)
        against = [comparison.Further(each, row.against[0], row.against[1]) for each in sides]
        alternate([each for pair in zip(sides, against) for each in pair], options.rounds)
    comparison.row(row.what, _milliseconds(sides[0]), row.against[0], _milliseconds(against[0]), "ms", row.limit)
    _before(row, sides)


def _measure_memory(options, row):
    """Each case has servers of its own: a peak is the process's."""
    tensors, resident = {}, {}
    for _ in range(min(options.rounds, 3)):
        for server in comparison.servers_of(options):
            for line in (row.line, row.against[1]):
                with comparison.running([server]) as (started,):
                    side = comparison.client(server.name, line, started.address)
                    side.ask(line)
                    tensors.setdefault((server.name, line), []).append(int(side.ask("memory")) / 2**20)
                    resident.setdefault((server.name, line), []).append(_peak_of(started.process.pid) / 2**20)
                    side.stop()
    first, *others = [server.name for server in comparison.servers_of(options)]
    name, line = row.against
    comparison.row(row.what, tensors[first, row.line], name, tensors[first, line], "MiB", row.limit)
    comparison.row("peak of the process, the same", resident[first, row.line], name, resident[first, line], "MiB", "report")
    for other in others:
        comparison.row(row.what, tensors[first, row.line], f"{other}'s", tensors[other, row.line], "MiB", "report")


def _peak_of(process):
    """The most bytes that a process has had in memory."""
    text = pathlib.Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("VmHWM:"))
