"""A battle: a server, a bystander, and one row's attack, each in a process of its own; and the outcome.

    outcome = fight(ROWS["fills"], seconds=3)

The server knows its callers by tokens, and the attacker is one of those whom it knows, unless his row says that he is not.
"""

import atexit
import collections
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

from tests.fault import http2
from tests.server import running_server

HERE = pathlib.Path(__file__).absolute().parent
TOKENS = {"attacker": "a" * 64, "bystander": "b" * 64}
# How a server ends; 3 where it had to cut calls, as attackers' calls may be, and 5 where it could not save models: attackers'
# are too many for its last seconds, or they have filled its store.
ENDED = (0, 3, 5)
DEADLY_RSS = 8 << 30  # Ends a server before it takes the machine along.


class Watch:
    """Samples a process's memory until it ends."""

    def __init__(self, pid):
        self.peak = 0
        self._pid = pid
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self):
        try:
            while True:
                now = running_server.resident(self._pid)
                self.peak = max(self.peak, now)
                if now > DEADLY_RSS:
                    os.kill(self._pid, signal.SIGKILL)
                time.sleep(0.02)
        except (OSError, IndexError, ValueError):
            pass


def identities(folder):
    """A file that knows both."""
    path = pathlib.Path(folder) / "identities"
    path.write_text(
        "".join(
            f"{name} infer,train,publish sha256:{hashlib.sha256(token.encode()).hexdigest()}\n" for name, token in TOKENS.items()
        )
    )
    return path


def start(script, *arguments, token=""):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), http2.TOKEN: token}
    return subprocess.Popen(
        [sys.executable, HERE / script, *map(str, arguments)],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


class Bystander:
    """bystander.py at work."""

    def __init__(self, address, steps=0, saves=False):
        self._process = start("bystander.py", address, f"--steps={steps}", *["--saves"] * saves, token=TOKENS["bystander"])
        if self._process.stdout.readline() != "ready\n":
            raise AssertionError("the bystander could not begin")

    def finish(self, timeout=200):
        """Its Report, as a dict; None if it did not end."""
        try:
            out, _ = self._process.communicate(timeout=timeout)
            return json.loads(out)
        except (subprocess.TimeoutExpired, ValueError):
            self._process.kill()
            self._process.communicate()
            return None


@functools.cache
def quiet_server(binary):
    server = running_server.RunningServer(binary=binary)
    atexit.register(server.__exit__)
    return server


def quiet_bits(steps, binary):
    """The bits that a bystander computes in so many steps where nobody attacks."""
    return Bystander(quiet_server(binary).address, steps).finish()["bits"]


LOST = {"steps": 0, "waits": [60.0], "errors": {"it did not end": 1}, "health_waits": [60.0], "health_errors": {}, "bits": ""}


@dataclasses.dataclass
class Outcome:
    told: collections.Counter  # The attacker.
    report: dict  # The bystander's.
    same_bits: bool
    peak: int  # The server's memory.
    exit_code: int  # The server's, after SIGTERM; negative: the signal that it died of.
    last_words: str  # The end of the server's log.

    worst = property(lambda self: max(self.report["waits"], default=0))
    worst_health = property(lambda self: max(self.report["health_waits"], default=0))

    def p99(self):
        waits = sorted(self.report["waits"])
        return waits[len(waits) * 99 // 100] if waits else 0


def attack(row, address, seconds):
    process = start("attacker.py", address, seconds, row.name, token="" if row.is_stranger else TOKENS["attacker"])
    try:
        out, _ = process.communicate(timeout=seconds + 30)
        told = json.loads(out)
    except (subprocess.TimeoutExpired, ValueError):
        process.kill()
        process.communicate()
        told = {"BROKEN: the attacker did not end": 1}
    merged = collections.Counter()
    for text, count in told.items():
        merged[re.sub(r"\d[\d.]*", "#", text)] += count
    return merged


def raise_descriptors():
    """As many file descriptors as may be, for this process and those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop(server):
    """The exit code, which is that of a kill where the server does not stop by itself."""
    try:
        return server.stop(timeout=20)[0]
    except subprocess.TimeoutExpired:
        return server.stop(signal.SIGKILL)[0]


def fight(row, seconds, binary=running_server.BINARY, flags=(), knows_callers=True):
    """`knows_callers`: everybody who calls says who he is. Otherwise the server asks nobody."""
    raise_descriptors()
    with row.setting() as setting, tempfile.TemporaryFile("w+", errors="replace") as log, tempfile.TemporaryDirectory() as folder:
        options = {"stderr": log, **setting}
        once_started = options.pop("once_started", lambda: None)
        flags = [*flags, *options.pop("flags", ()), "--drain_seconds=2"]
        if knows_callers:
            flags.append(f"--identities={identities(folder)}")
        with running_server.RunningServer(*flags, binary=binary, **options) as server:
            once_started()
            watch = Watch(server.process.pid)
            bystander = Bystander(server.address, saves=row.saves)
            told = attack(row, server.address, seconds)
            report = bystander.finish() or LOST
            exit_code = stop(server)
            same = bool(report["bits"]) and report["bits"] == quiet_bits(report["steps"], binary)
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            return Outcome(told, report, same, watch.peak, exit_code, log.read())
