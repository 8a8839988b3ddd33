"""The rows of run.py about groups of servers (--only group).

Processes of a group have a thread and a processor of their own each. Rows about steps in shards are the engine's alone
(sharded_bench.cc): its ring sleeps as long as a network would take.
"""

import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

import comparison
from sides import BIN, Side, alternate, start_server, wait_for

PROGRAMS = ("server/group/gloo/libgluond_gloo.so", "tests/bench/sharded_bench")
_RANKS = 2
# Milliseconds beside a step that the loss of a member may cost.
_RECOVERY = 500


def wanted(options):
    return options.only in "group" or options.only.startswith("group:")


def measure(options):
    """Prints the rows."""
    if options.tiny:
        os.environ["BENCH_TINY"] = "1"
    print(comparison.HEADER, flush=True)
    for name in comparison.chosen(ROWS, options.only):
        ROWS[name](options)


@contextlib.contextmanager
def _on_processor(rank):
    """Processes that are started meanwhile have one processor, which is another one for each rank."""
    all_of_them = os.sched_getaffinity(0)
    if len(all_of_them) < _RANKS:
        sys.exit(f"--only group wants {_RANKS} processors, and this process has {len(all_of_them)}")
    os.sched_setaffinity(0, {sorted(all_of_them)[rank]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


class _Group:
    """A leader and perhaps a member, which end with the block."""

    def __init__(self, options, ranks=_RANKS):
        self._size = f"--group_size=1:{ranks}"
        self._server, *_ = comparison.servers_of(options)
        self._ends = contextlib.ExitStack()
        self.address, _ = self._start(0, "--group=127.0.0.1:0", "--group_role=leader")
        self.client = comparison.client("gluond", "", self.address)
        self._ends.callback(self.client.stop)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._ends.close()

    def _start(self, rank, *flags):
        plugin = (self._server.build or BIN) / PROGRAMS[0]
        flags = (self._size, "--group_allow_solo", f"--gloo_plugin={plugin.absolute()}", "--cpu_threads=1", *flags)
        folder = pathlib.Path(self._ends.enter_context(tempfile.TemporaryDirectory()))
        with _on_processor(rank):
            process = start_server(folder, self._server.program, flags)
        self._ends.callback(process.wait)
        self._ends.callback(process.terminate)
        return wait_for(folder / "port", process, 120), process

    def add_member(self):
        """The member's process, which computes already."""
        _, process = self._start(1, f"--group={self.address}", "--group_role=member")
        self.await_ranks(_RANKS)
        return process

    def await_ranks(self, ranks):
        deadline = time.monotonic() + 60
        while int(self.client.ask("ranks")) != ranks:
            if time.monotonic() > deadline:
                sys.exit(f"{self.address} has not led {ranks} ranks within 60 s")
            time.sleep(0.02)


def _milliseconds(side):
    return [figure / 1e3 for figure in side.figures]


def _split(options):
    """A batch split over the ranks, against a rank with its share of the rows alone."""
    with _Group(options) as group, _Group(options, 1) as alone:
        group.add_member()
        alone.await_ranks(1)
        sides = [
            comparison.Further(group.client, "ranks", f"group_step_{_RANKS}"),
            comparison.Further(alone.client, "one rank on one core, half the batch", "group_step_1"),
        ]
        alternate(sides, options.rounds)
    ours, other = sides
    title = f"ResNet-20, {_RANKS} ranks on a core each, batch split"
    comparison.row(title, _milliseconds(ours), other.name, _milliseconds(other), "ms", 1.2)


def _kill(options):
    """From a member's death amid a step to the next step that is applied."""
    recoveries, bounds, line = [], [], f"group_step_{_RANKS}"
    with _Group(options) as group:
        for _ in range(options.rounds):
            member = group.add_member()
            bounds.append(float(group.client.ask(line)) / 1e3 + _RECOVERY)
            recoveries.append(float(group.client.ask(f"kill_{member.pid}")) / 1e3)
            member.wait()
            group.await_ranks(1)
    bound = statistics.median(bounds)
    title, against = "kill -9 of a member to the next applied step", f"the median step and {_RECOVERY} ms"
    comparison.row(title, recoveries, against, [bound] * len(recoveries), "ms", 1.0)


def _in_shards(what, network, line, against, limit):
    """A row of the engine. network: its name, the rows of a batch, and the steps of a figure. against: a name and a line."""

    def measure_row(options):
        command = ("mlp", 8, 1) if options.tiny else network
        ours = Side("gluond", [BIN / "tests/bench/sharded_bench", *command], line)
        other = comparison.Further(ours, *against)
        alternate([ours, other], options.rounds)
        ours.stop()
        comparison.row(what, ours.figures, other.name, other.figures, "ms", limit)

    return measure_row


def _reduction(title, *network):
    what = f"{title}, a step while a ring takes half of backward's time for its reduction"
    return _in_shards(what, network, "ring", ("without reduction", "plain"), 1.15)


ROWS = {
    "split": _split,
    "reduction_resnet20": _reduction("ResNet-20", "resnet20", 64, 5),
    "reduction_resnet50": _reduction("ResNet-50", "resnet50", 8, 1),
    "shards": _in_shards(
        "ResNet-20, a group of one, 4 shards",
        ("resnet20", 64, 5),
        "shards",
        ("no group, the same 4 slices by grad_req add", "add"),
        1.02,
    ),
    "kill": _kill,
}
