"""A long life with many short ones: clients come, do a bit of everything (churn.py) and go, half of them by kill -9.

usage: soak [--minutes=60] [--clients=3] [--server=PATH] [--curve=FILE]

Samples the server's memory, file descriptors and threads. The verdict is the slope of each after the first third: it is
flat, or something leaks. Writes FILE.csv and FILE.svg.
"""

import argparse
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
from typing import NamedTuple

from gluond.v1 import dataset_pb2, model_pb2, server_pb2
from tests.fault import battle, http2
from tests.fault.peer import Peer
from tests.server import running_server

TOKENS = list(battle.TOKENS.values())
LEASES = ("--session_lease_seconds=20", "--upload_lease_seconds=10")


class Sample(NamedTuple):
    minute: float
    mib: float
    descriptors: int
    threads: int


class Figures:
    """Samples of one process."""

    def __init__(self, pid):
        self.samples, self._pid, self._begin = [], pid, time.monotonic()

    def take(self):
        count = lambda folder: len(os.listdir(f"/proc/{self._pid}/{folder}"))
        self.samples.append(
            Sample((time.monotonic() - self._begin) / 60, running_server.resident(self._pid) / 2**20, count("fd"), count("task"))
        )
        return self.samples[-1]

    def settled(self):
        """The samples after the first third, which warms up."""
        return self.samples[len(self.samples) // 3 :]

    def slope(self, field):
        """Per hour, by least squares."""
        points = [(sample.minute / 60, getattr(sample, field)) for sample in self.settled()]
        mean_x, mean_y = (sum(values) / len(points) for values in zip(*points))
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0

    def write(self, path):
        rows = [",".join(Sample._fields)] + [",".join(f"{value:.6g}" for value in sample) for sample in self.samples]
        path.with_suffix(".csv").write_text("\n".join(rows) + "\n")
        path.with_suffix(".svg").write_text(svg(self.samples))


def svg(samples):
    """Each figure over time, as a part of its largest value."""
    lines, last = [], samples[-1].minute or 1
    for i, (field, color) in enumerate((("mib", "#c33"), ("descriptors", "#36c"), ("threads", "#393"))):
        most = max(getattr(sample, field) for sample in samples) or 1
        points = " ".join(f"{20 + 760 * s.minute / last:.1f},{220 - 180 * getattr(s, field) / most:.1f}" for s in samples)
        lines.append(
            f'<polyline fill="none" stroke="{color}" points="{points}"/>'
            f'<text x="{20 + 250 * i}" y="20" fill="{color}">{field}, at most {most:.0f}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 250" font-family="sans-serif" font-size="14">'
        f'{"".join(lines)}<text x="700" y="242">{last:.1f} min</text></svg>\n'
    )


class Crowd:
    """Some clients at a time, each for a while."""

    def __init__(self, address, count, longest):
        self._address, self._longest, self._clients = address, longest, [None] * count
        self.killed = self.left = self.failed = 0
        self._rng = random.Random(1)

    def turn(self):
        """Replaces those whose time has come."""
        for i, client in enumerate(self._clients):
            if client is None or time.monotonic() > client[1]:
                self._end(i)
                process = battle.start("churn.py", self._address, i, token=TOKENS[i % len(TOKENS)])
                self._clients[i] = process, time.monotonic() + self._rng.uniform(self._longest / 4, self._longest)

    def _end(self, i):
        if self._clients[i] is None:
            return
        process, _ = self._clients[i]
        if process.poll() is None and self._rng.random() < 0.5:
            process.kill()
            self.killed += 1
        else:
            self.left += 1
        process.communicate()
        self.failed += process.returncode not in (0, -signal.SIGKILL)

    def end(self):
        for i in range(len(self._clients)):
            self._end(i)


def clean(peer):
    for model in model_pb2.ListModelsResponse.FromString(peer.call("ModelService/ListModels")).models:
        peer.call("ModelService/DeleteModel", model_pb2.DeleteModelRequest(model=model.name))
    for dataset in dataset_pb2.ListDatasetsResponse.FromString(peer.call("TrainingService/ListDatasets")).datasets:
        peer.call("TrainingService/DeleteDataset", dataset_pb2.DeleteDatasetRequest(dataset=dataset.name))


def tensor_bytes(peer, patience=60):
    """Bytes of tensors held once the leases of those who have gone are over."""
    end = time.monotonic() + patience
    while True:
        held = server_pb2.GetServerInfoResponse.FromString(peer.call("ServerService/GetServerInfo")).tensor_bytes
        if held == 0 or time.monotonic() > end:
            return held
        time.sleep(0.2)


def soak(minutes, clients, longest, binary=running_server.BINARY):
    """(Figures of the churn, the Sample before it, the Sample after it, bytes of tensors held at the end, the Crowd). The
    server knows its callers, who are two."""
    os.environ[http2.TOKEN] = TOKENS[0]
    with (
        open(os.devnull, "w") as log,
        tempfile.TemporaryDirectory() as folder,
        running_server.RunningServer(*LEASES, f"--identities={battle.identities(folder)}", binary=binary, stderr=log) as server,
    ):
        figures, crowd = Figures(server.process.pid), Crowd(server.address, clients, longest)
        with Peer(server.address) as peer:
            peer.call("ServerService/GetServerInfo")
            before, end = figures.take(), time.monotonic() + 60 * minutes
            while time.monotonic() < end:
                crowd.turn()
                time.sleep(min(1, minutes))
                figures.take()
            crowd.end()
            clean(peer)
            held = tensor_bytes(peer)
            return figures, before, Figures(server.process.pid).take(), held, crowd


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--server", type=pathlib.Path, default=running_server.BINARY)
    parser.add_argument("--curve", type=pathlib.Path, default=pathlib.Path("soak"))
    options = parser.parse_args()
    figures, before, after, held, crowd = soak(options.minutes, options.clients, 8, options.server)
    figures.write(options.curve)
    print(
        f"{crowd.killed} clients were killed, {crowd.left} left, {crowd.failed} failed; "
        f"{held} bytes of tensors are held at the end"
    )
    print("| figure | before | mean after a third | per hour | after |\n| --- | --- | --- | --- | --- |")
    flat = crowd.failed == 0
    for field, noise in (("mib", 0.1), ("descriptors", 0.1), ("threads", 0.1)):
        mean = sum(getattr(sample, field) for sample in figures.settled()) / len(figures.settled())
        slope = figures.slope(field)
        flat = flat and slope * options.minutes / 60 < noise * mean
        print(f"| {field} | {getattr(before, field):.0f} | {mean:.1f} | {slope:+.2f} | {getattr(after, field):.0f} |")
    print("flat" if flat else "NOT FLAT")
    sys.exit(not flat)


if __name__ == "__main__":
    main()
