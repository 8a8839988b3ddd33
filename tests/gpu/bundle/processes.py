"""Starts the programs of the bundle, and the machine's own Python."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
INSIDE = ROOT / "bin/inside"
PYTHON = (INSIDE, "python3")
_START_SECONDS = 60


class Ended(Exception):
    """A program has ended, or has not started: what it said."""


def machine_environment():
    """Of a program that is not ours."""
    own = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONNOUSERSITE")
    environment = {key: value for key, value in os.environ.items() if key not in own}
    for name in own:
        if f"MACHINE_{name}" in environment:
            environment[name] = environment[f"MACHINE_{name}"]
    return environment


class Side:
    """A program that answers each line with a line."""

    def __init__(self, name, command, environment):
        self.name, self.figures = name, []
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def ask(self, line):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            self._process.wait()
            self._errors.seek(0)
            raise Ended(f"{self.name} ended at '{line}':\n{self._errors.read()[-3000:]}")
        return answer

    def stop(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def server(tf32="none", environment=()):
    """The bundle's server on its GPU and its CPU: its address. It must end well. `environment`: for it alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(folder / "log", "w+", errors="replace") as log:
            process = subprocess.Popen(
                [ROOT / "bin/server", "--address=127.0.0.1:0", f"--port_file={folder / 'port'}"],
                stdout=log,
                stderr=log,
                env={**os.environ, **dict(environment), "GLUOND_TF32": tf32},
            )
            try:
                yield f"127.0.0.1:{_port(folder, process)}"
            except BaseException:
                process.kill()
                process.wait()
                print((folder / "log").read_text(errors="replace")[-3000:], flush=True)
                raise
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status != 0:
                raise Ended(f"the server ended with status {status}:\n{(folder / 'log').read_text(errors='replace')[-3000:]}")


def _port(folder, process):
    deadline = time.monotonic() + _START_SECONDS
    while not ((folder / "port").exists() and (folder / "port").read_text().strip()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Ended("the server did not start")
        time.sleep(0.02)
    return (folder / "port").read_text().strip()
