"""All other rows of a CPU against themselves before (--only before): each with the servers of two builds or more, in turns.

    tests/bench/run.py --only before --server new=bazel-bin --server old=/tmp/old/bazel-bin

Clients are those of this checkout. Where the builds are folders, single operators are compared, too (spatial_cases.py), each by the
build's own spatial_bench.
"""

import contextlib
import json
import os
import subprocess
import sys

import comparison
import spatial_cases
from python_rows import GLUON
from sides import BIN, Side, alternate, pause

_AT_MOST = 1.02
# The load generator's numbers by network and callers: callers, rows of a batch.
_LOADS = {"lenet": (1, 0), "lenet_32": (32, 32), "wide_32": (32, 32), "resnet50": (1, 0)}


def wanted(options):
    return options.only.startswith("before")


def check(options):
    if wanted(options) and len(options.server or ()) < 2:
        sys.exit("--only before compares servers: --server NAME=PATH, twice or more")


def measure(options, networks):
    """Prints the rows. networks: steps of a figure by network."""
    servers = comparison.servers_of(options)
    sides_of = {
        **{f"{name}_step": _steps(name, count) for name, count in networks.items()},
        **{f"python_{name}": _python(name) for name in ("round_trip", *GLUON)},
        **{f"serving_{name}": _load(name, options) for name in _LOADS},
    }
    print(comparison.HEADER, flush=True)
    spatial = options.only in ("before", "before:spatial") and all(server.build for server in servers)
    if options.only != "before:spatial":
        for name in comparison.chosen(sides_of, options.only):
            with contextlib.ExitStack() as ends:
                started = ends.enter_context(comparison.running(servers))
                sides = [sides_of[name](each) for each in started]
                for each in sides:
                    ends.callback(each.stop)
                alternate(sides, options.rounds)
            _rows(name, sides, "us" if name.startswith("python") else "ms")
    if spatial:
        _measure_spatial(options, servers)


def _rows(name, sides, unit):
    ours, *others = sides
    for other in others:
        comparison.row(name, ours.figures, f"{other.name}'s", other.figures, unit, _AT_MOST)


def _steps(network, count):
    command = [BIN / "tests/bench/step_bench", network, count]
    return lambda server: Side(server.name, [*command, server.address], "wire")


def _python(case):
    return lambda server: comparison.client(server.name, case, server.address)


class _Load:
    """A published network asked by `gluond load`: milliseconds of a lone request, or the time between answers to many."""

    def __init__(self, server, name, seconds):
        self.name, self.figures, self.seconds = server.name, [], seconds
        self.network, self.callers, rows = name.partition("_")[0], *_LOADS[name]
        self.command, self.address = BIN / "client/cli/gluond", f"--address={server.address}"
        steps = Side(server.name, [BIN / "tests/bench/step_bench", self.network, 1, server.address])
        model = steps.ask("define").strip()
        self._run("publish", model, f"--served={self.network}", f"--max_batch_size={rows}")
        steps.stop()

    def _run(self, *arguments):
        return subprocess.run([self.command, *arguments, self.address], check=True, capture_output=True, text=True).stdout

    def measure(self):
        pause()
        report = json.loads(
            self._run("load", self.network, "--json", f"--concurrency={self.callers}", f"--duration={self.seconds}s")
        )
        self.figures.append(report["latency_ms"]["p50"] if self.callers == 1 else 1e3 / report["throughput"])

    def stop(self):
        """Nothing is left at work."""


def _load(name, options):
    return lambda server: _Load(server, name, 1 if options.quick else 3)


def _measure_spatial(options, servers):
    """The least of each call, which disturbs a comparison of short calls the least."""
    threads = "1" if os.environ.get("BENCH_CLOCK") == "processor" else "2"
    programs = [server.build / "tests/bench/spatial_bench" for server in servers]
    sides = [Side(server.name, [program], OMP_NUM_THREADS=threads) for server, program in zip(servers, programs)]
    for name, op, attrs, shape in spatial_cases.CASES:
        for how in ("inference", "training"):
            line = spatial_cases.line_of(op, attrs, shape, how)
            for each in sides:
                each.figures = []
            for _ in range(options.rounds):
                for each in sides:
                    each.figures.append(float(each.ask(line).split()[0]))
            _rows(f"{name}, {how}", sides, "ms")
    for each in sides:
        each.stop()
