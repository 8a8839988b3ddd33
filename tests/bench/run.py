#!/usr/bin/env python3
"""Measures the figures of docs/performance.md and prints them as a Markdown table.

usage: tests/bench/run.py [--rounds N] [--torch PYTHON] [--mxnet PYTHON] [--ort PYTHON] [--before PACKAGE] [--server NAME=PATH]...
    [--only WORD] [--quick] [--tiny]

WORD is a part of `wire`, `python`, `indexing`, `fit`, `neighbour`, `quota`, `spatial`, `serving`, `hybrid`, `group`, `library`, `cpp`, or
of a network's name; `spatial:WORD` takes the cases of spatial_cases.py with that word, `serving:WORD` the rows of serving.py, of which
`--quick` takes one short round each, `hybrid:WORD,WORD` those of hybrid.py, and `group:WORD,WORD` those of group.py. `quota` needs
root and the kernel's control groups.

PATH is a gluond-server, or the folder bazel-bin of a build. `hybrid` measures the first one, and compares it with the others;
`before` (or `before:WORD,WORD`, never a part of that word) does so with the rows of before.py. `--tiny` shrinks the networks of
`hybrid`, and of `group`, to see that their rows work.

PYTHON is an interpreter that has PyTorch, or MXNet 1.9.1 with numpy<1.24; without one, that peer is left out. PACKAGE is the
folder client/python of another revision, in which build_stubs.py has run: `python` compares the package with it. Every
comparison alternates its sides round by round, on the same two threads, and takes medians; the ratio is the median of
the rounds' ratios. Anything else at work on the machine spoils it: run it alone.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import before
import comparison
import cpp
import group
import hybrid
import library
import python_rows
import serving
import spatial_cases
from sides import BIN, ROOT, Side, alternate, row, run_or_exit, servers, start_server, wait_for

BUILT = ("//server:gluond-server", "//server/group/gloo:libgluond_gloo.so", "//client/cli:gluond", "//tests/bench:all")
STEPS = {"mlp": 400, "lenet": 60, "resnet20": 5}


def wire(processes):
    """Where its threads settle makes one server process faster than the next: medians over several."""
    rows = {}
    for _ in range(processes):
        with servers() as (address, echo_address):
            text = subprocess.run(
                [BIN / "tests/bench/wire_bench", address, echo_address], check=True, capture_output=True, text=True
            ).stdout
        for line in text.splitlines():
            what, ours, floor, ratio, limit = line.split("\t")
            rows.setdefault((what, limit), []).append((float(ours), float(floor), float(ratio)))
    for (what, limit), figures in rows.items():
        ours, floor, ratio = (statistics.median(column) for column in zip(*figures))
        print(f"| {what} | {ours:.1f} us | bare echo {floor:.1f} us | {ratio:.3f} | {limit} |", flush=True)


def quota(rounds):
    """A step of LeNet on a server that gets 1.5 processors of its control group, and without that limit, in turns."""
    root = pathlib.Path("/sys/fs/cgroup")
    second = (root / "cgroup.controllers").exists()  # The second version has one tree for all controllers.
    group = root / ("" if second else "cpu") / f"gluond-bench-{os.getpid()}"
    limits = ("max 100000", "150000 100000") if second else ("-1", "150000")
    group.mkdir()
    try:
        with tempfile.TemporaryDirectory() as name:
            server = start_server(pathlib.Path(name))
            address = wait_for(pathlib.Path(name) / "port", server)
            (group / "cgroup.procs").write_text(str(server.pid))
            command = [BIN / "tests/bench/step_bench", "lenet", STEPS["lenet"], address]
            sides = [Side("with 2 processors", command, "wire"), Side("gluond", command, "wire")]
            for _ in range(rounds + 1):
                for side, limit in zip(sides, limits):
                    (group / ("cpu.max" if second else "cpu.cfs_quota_us")).write_text(limit)
                    side.measure()
            for side in sides:
                del side.figures[0]  # The first round warms up.
                side.stop()
            row("lenet TrainStep with a quota of 1.5 processors", sides[1], sides[0], "ms", 1.6)
            server.terminate()
            server.wait()
    finally:
        group.rmdir()


class TrainCommand(Side):
    """`gluond train` for one epoch, timed by what it says of itself."""

    def __init__(self, address):
        self.name, self.figures = "gluond train", []
        self.command = [
            BIN / "client/cli/gluond",
            "train",
            f"--address={address}",
            "--epochs=1",
            "--replace",
            "--curve=-",
            "--checkpoint=-",
        ]

    def measure(self):
        said = subprocess.run(self.command, check=True, capture_output=True, text=True).stdout
        self.figures.append(60_000 / float(re.search(r"([0-9]+) images/s", said).group(1)))

    def stop(self):
        pass


def fit(address, rounds):
    """One epoch of LeNet over 60,000 rows, with the test rows after it: from Python, and by the command."""
    run_or_exit([sys.executable, ROOT / "client/python/build_stubs.py"])
    command = TrainCommand(address)
    command.measure()  # It sends the rows, and makes the model.
    ours = Side(
        "gluond",
        [sys.executable, ROOT / "tests/bench/fit.py", "lenet", "fashion-mnist-train", "fashion-mnist-test"],
        PYTHONPATH=str(ROOT / "client/python"),
        GLUOND_ADDRESS=address,
    )
    command.figures.clear()
    alternate([ours, command], rounds)
    row("fit() of LeNet over 60,000 rows, one epoch", ours, command, "s", 1.05)
    ours.stop()


def wants_spatial(options):
    return options.only in "spatial" or options.only.startswith("spatial:")


def wants_serving(options):
    return options.only in "serving" or options.only.startswith("serving:")


def check(options):
    """Ends the program where something is missing, before anything is built or measured."""
    before.check(options)
    in_python = any(options.only in part for part in ("python", "indexing", "fit", "neighbour"))
    in_python = in_python or hybrid.wanted(options) or before.wanted(options) or group.wanted(options)
    networks = any(options.only in network for network in STEPS) or wants_spatial(options) or hybrid.wanted(options)
    wanted = [
        (sys.executable, ("numpy", "grpc", "google.protobuf", "crc32c"), in_python),
        (options.torch, ("numpy", "torch"), networks or options.only in "neighbour"),
        (options.mxnet, ("numpy", "mxnet"), networks or in_python),
        (options.ort, ("onnxruntime", "onnx", "numpy"), wants_serving(options) or hybrid.wanted(options)),
    ]
    for python, modules, is_used in wanted:
        if not python or not is_used:
            continue
        try:
            run_or_exit([python, ROOT / "tests/bench/needs.py", *modules])
        except OSError as error:
            sys.exit(f"{python} is no Python that can be started ({error.strerror}); name another interpreter")
    if "GLUOND_BIN" not in os.environ:
        if shutil.which("bazel") is None:
            sys.exit("bazel is not on PATH; install it (deploy/setup.sh does), or let GLUOND_BIN name a folder with built programs")
        return
    others = ("client/cli/gluond", "tests/bench/wire_bench", "tests/bench/step_bench", "tests/bench/spatial_bench")
    for program in (
        "server/gluond-server",
        "tests/bench/echo_server",
        *(() if options.only.startswith(("hybrid", "group", "library", "cpp", "before:python")) else others),
        *(group.PROGRAMS if group.wanted(options) else ()),
        *(library.PROGRAMS if library.wanted(options) else ()),
        *(cpp.PROGRAMS if cpp.wanted(options) else ()),
    ):
        if not (BIN / program).is_file():
            sys.exit(
                f"{BIN / program} is missing; build it (bazel build {' '.join(BUILT)}), or let GLUOND_BIN "
                "name the folder where it is"
            )


def spatial(rounds, torch, mxnet, word):
    """Convolution and pooling, call by call: the least and the median of the rounds, and their ratios to each peer's.
    BENCH_CLOCK=processor takes one thread and the processor's time: for a machine that is not idle."""
    threads = "1" if os.environ.get("BENCH_CLOCK") == "processor" else "2"
    command = lambda python, name: [python, ROOT / f"tests/bench/spatial_{name}.py", threads]
    sides = [Side("gluond", [BIN / "tests/bench/spatial_bench"], OMP_NUM_THREADS=threads)]
    sides += [Side("PyTorch", command(torch, "torch"), OMP_NUM_THREADS=threads)] if torch else []
    sides += [Side("MXNet", command(mxnet, "mxnet"), OMP_NUM_THREADS=threads)] if mxnet else []
    titles = [f"{side.name}: least, median ms" for side in sides] + [f"to {side.name}" for side in sides[1:]]
    print("\n| call | " + " | ".join(titles) + " |\n|" + " --- |" * (len(titles) + 1), flush=True)
    for name, op, attrs, shape in spatial_cases.CASES:
        for how in ("inference", "training"):
            if word not in f"{name}, {how}":
                continue
            line, figures = spatial_cases.line_of(op, attrs, shape, how), [[] for _ in sides]
            for _ in range(rounds):
                for side, each in zip(sides, figures):
                    each.append([float(x) for x in side.ask(line).split()])
            least = [min(a for a, _ in each) for each in figures]
            median = [statistics.median(b for _, b in each) for each in figures]
            cells = [f"{a:.3f}, {b:.3f}" for a, b in zip(least, median)]
            cells += [f"{least[0] / a:.2f}, {median[0] / b:.2f}" for a, b in zip(least[1:], median[1:])]
            print(f"| {name}, {how} | " + " | ".join(cells) + " |", flush=True)
    for side in sides:
        side.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--torch")
    parser.add_argument("--mxnet")
    parser.add_argument("--ort")
    parser.add_argument("--before")
    parser.add_argument("--server", action="append", type=comparison.Server.parse)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    check(options)
    if "GLUOND_BIN" not in os.environ:
        run_or_exit(["bazel", "build", *BUILT], cwd=ROOT)
    with open("/proc/cpuinfo") as cpuinfo:
        cpu = next(line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name"))
    print(f"{cpu}, {os.cpu_count()} processors, {platform.system()} {platform.release()}")
    if before.wanted(options):
        before.measure(options, STEPS)
        return
    if hybrid.wanted(options):
        hybrid.measure(options)
        if options.only.startswith("hybrid"):
            return
    if group.wanted(options):
        group.measure(options)
        if options.only.startswith("group"):
            return
    print("\n| what | gluond | against | ratio | at most |\n| --- | --- | --- | --- | --- |", flush=True)

    if wants_spatial(options):
        spatial(options.rounds, options.torch, options.mxnet, options.only.partition(":")[2])
    if wants_serving(options):
        serving.measure(options)
    if library.wanted(options):
        library.measure(options)
        if options.only.startswith("library"):
            return
    if cpp.wanted(options):
        cpp.measure(options)
        if options.only.startswith("cpp"):
            return
    if options.only in "wire":
        wire(processes=options.rounds)
    if options.only in "python":
        python_rows.python_round_trip(processes=options.rounds)
    if options.only in "quota":
        quota(options.rounds)
    with servers() as addresses:
        address = addresses[0]
        if options.only in "python" and options.mxnet:
            python_rows.python(address, options.rounds, options.mxnet)
        if options.only in "python" and options.before:
            python_rows.package_before(address, options.rounds, options.before)
        if options.only in "indexing":
            python_rows.indexing(address, options.rounds)
        if options.only in "fit":
            fit(address, options.rounds)
        if options.only in "neighbour":
            python_rows.neighbour(addresses, options.rounds, options.torch, options.mxnet)
        for network, steps in STEPS.items():
            if options.only not in network:
                continue
            ours = Side("gluond", [BIN / "tests/bench/step_bench", network, steps, address], "wire")
            ahead = Side("gluond", [BIN / "tests/bench/step_bench", network, steps, address], "ahead")
            engine = Side("engine alone", [BIN / "tests/bench/step_bench", network, steps])
            sides = [ours, ahead, engine]
            if options.torch:
                sides.append(
                    Side("PyTorch", [options.torch, ROOT / "tests/bench/peer_torch.py", network, steps], OMP_NUM_THREADS="2")
                )
            if options.mxnet:
                sides.append(
                    Side("MXNet 1.9.1", [options.mxnet, ROOT / "tests/bench/peer_mxnet.py", network, steps], OMP_NUM_THREADS="2")
                )
            alternate(sides, options.rounds)
            for side, how in ((ours, ""), (ahead, ", sent ahead")):
                row(f"{network} TrainStep over loopback, batch 64{how}", side, engine, "ms", "1.05" if network == "lenet" else "")
                for peer in sides[3:]:
                    row(
                        f"{network} TrainStep over loopback, batch 64{how}",
                        side,
                        peer,
                        "ms",
                        "1.0 of the faster" if network != "resnet20" else "report",
                    )
            if network == "lenet":
                planned, unshared = map(int, engine.ask("memory").split())
                print(
                    f"| lenet planned memory, forward and backward | {planned} B | unshared {unshared} B | "
                    f"{planned / unshared:.3f} | 0.5 |",
                    flush=True,
                )
            for side in sides:
                side.stop()


if __name__ == "__main__":
    main()
