"""What hybrid.py and before.py add to sides.py: servers of several builds side by side, and rows with their spread.

A row tells medians with the least and the most of the rounds, and the same of the rounds' ratios.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from python_rows import gluon_side
from sides import BIN, ROOT, pause, run_or_exit, start_server, wait_for

HEADER = "\n| what | gluond (least to most) | against | ratio | at most | processor |\n|" + " --- |" * 6


class Server(NamedTuple):
    """A build's server. build: its folder bazel-bin, or None where only the program is known."""

    name: str
    program: pathlib.Path
    build: pathlib.Path = None

    @staticmethod
    def parse(text):
        """NAME=PATH, of a gluond-server or of a folder bazel-bin."""
        name, _, path = text.partition("=")
        path = pathlib.Path(path)
        server = Server(name, path / "server/gluond-server", path) if path.is_dir() else Server(name, path)
        if not name or not server.program.is_file():
            sys.exit(f"--server {text}: name a gluond-server, or a folder bazel-bin that has one: --server NAME=PATH")
        return server


def servers_of(options):
    """Those of `--server`, of which the first is measured and the others are what it is compared with."""
    return options.server or [Server("gluond", BIN / "server/gluond-server", BIN)]


class Running(NamedTuple):
    """A server at work."""

    name: str
    address: str
    process: subprocess.Popen


@contextlib.contextmanager
def running(servers):
    """All of them at once, each on a port of its own; they end with the block."""
    with contextlib.ExitStack() as ends:
        found = []
        for server in servers:
            folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory()))
            process = start_server(folder, server.program)
            ends.callback(process.wait)
            ends.callback(process.terminate)
            found.append(Running(server.name, wait_for(folder / "port", process, 120), process))
        yield found


@contextlib.contextmanager
def echo():
    """The address of an echo server."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([BIN / "tests/bench/echo_server", pathlib.Path(folder, "echo")])
        try:
            yield wait_for(pathlib.Path(folder, "echo"), process)
        finally:
            process.terminate()
            process.wait()


def package():
    """The folder of the Python client. GLUOND_PACKAGE names one whose generated files are there."""
    if "GLUOND_PACKAGE" in os.environ:
        return os.environ["GLUOND_PACKAGE"]
    run_or_exit([sys.executable, ROOT / "client/python/build_stubs.py"])
    return ROOT / "client/python"


def client(name, line, address="", echo_address=""):
    """gluon_bench.py with gluond."""
    return gluon_side(name, sys.executable, "gluond", line, address, echo_address, package())


class Further:
    """Another line of a side's program."""

    def __init__(self, side, name, line):
        self.side, self.name, self.line, self.figures = side, name, line, []

    def measure(self):
        pause()
        self.figures.append(float(self.side.ask(self.line)))

    def stop(self):
        """The side does."""


def processor():
    with open("/proc/cpuinfo") as cpuinfo:
        name = next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), "?")
    return f"{name}, {os.cpu_count()} processors"


def spread(figures, unit=""):
    """The median, with the least and the most."""
    digits = 3 if max(figures) < 100 else 1
    return f"{statistics.median(figures):.{digits}f}{unit} ({min(figures):.{digits}f} to {max(figures):.{digits}f})"


def row(what, ours, name, others, unit, limit):
    """One row: figures by round."""
    ratios = spread([a / b for a, b in zip(ours, others)])
    mine, theirs = spread(ours, f" {unit}"), spread(others, f" {unit}")
    print(f"| {what} | {mine} | {name} {theirs} | {ratios} | {limit} | {processor()} |", flush=True)


def chosen(rows, wanted):
    """The rows that `--only NAME:WORD,WORD` asks for: a row of that name, else those with the word in their names."""
    words = [word for word in wanted.partition(":")[2].split(",") if word]
    found = [name for name in rows if not words or any(name == w or w not in rows and w in name for w in words)]
    if not found:
        sys.exit(f"--only {wanted}: no row of {', '.join(rows)}")
    return found
