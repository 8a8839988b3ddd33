"""Sides of a comparison, which answer in turns, the row of its table, and the servers that some of them ask."""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GLUOND_BIN", ROOT / "bazel-bin"))


def run_or_exit(command, **options):
    """The command itself has said what went wrong."""
    code = subprocess.run(command, check=False, **options).returncode
    if code:
        sys.exit(code)


def wait_for(path, process, seconds=30):
    deadline = time.monotonic() + seconds
    while not (path.exists() and path.read_text().strip()):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"{process.args[0]} did not start")
        time.sleep(0.02)
    return f"127.0.0.1:{path.read_text().strip()}"


def pause():
    """Before each figure: the side before has compute threads that spin for a while before they sleep."""
    time.sleep(0 if "BENCH_TINY" in os.environ else 0.5)


class Side:
    """A program that answers each line with a number."""

    def __init__(self, name, command, line="engine", **environment):
        self.name, self.line, self.figures = name, line, []
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(c) for c in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **environment},
        )

    def ask(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            sys.exit(f"{self.name} ended: {' '.join(self.process.args)}\n{self.errors.read()[-2000:]}")
        return answer

    def measure(self):
        pause()
        self.figures.append(float(self.ask(self.line)))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def alternate(sides, rounds):
    for side in sides:
        side.measure()
        side.figures.clear()  # The first round warms up.
    for _ in range(rounds):
        for side in sides:
            side.measure()


def row(what, ours, other, unit, limit):
    ratio = statistics.median(a / b for a, b in zip(ours.figures, other.figures))
    print(
        f"| {what} | {statistics.median(ours.figures):.3f} {unit} | {other.name} "
        f"{statistics.median(other.figures):.3f} {unit} | {ratio:.3f} | {limit} |",
        flush=True,
    )


def start_server(folder, program=None, flags=()):
    """A server that writes its port into the folder. program: default: the build's."""
    program = program or BIN / "server/gluond-server"
    return subprocess.Popen(
        [program, "--address=127.0.0.1:0", "--devices=cpu", f"--port_file={folder / 'port'}", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def servers():
    """A gluond-server and an echo server: their addresses."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = start_server(folder)
        echo = subprocess.Popen([BIN / "tests/bench/echo_server", folder / "echo"])
        try:
            yield wait_for(folder / "port", server), wait_for(folder / "echo", echo)
        finally:
            server.terminate()
            echo.terminate()
            server.wait()
            echo.wait()
