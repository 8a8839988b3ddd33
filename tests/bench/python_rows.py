"""Rows of the Python client's figures: gluon_bench.py with this package, with MXNet, and with the package of another revision."""

import os
import statistics
import subprocess
import sys

from sides import ROOT, Side, alternate, row, run_or_exit, servers

# Cases of gluon_bench.py: their descriptions, and the share of MXNet's time that they may take.
GLUON = {
    "chain": ("a + 1 on a small NDArray, in chains of 1,000", 0.5),
    "hybridized": ("LeNet training loop in Python, hybridized", 1.0),
    "imperative": ("LeNet training loop in Python, not hybridized", 1.2),
    "element": ("one element of a small NDArray that has just been computed", "report"),
    "elements": ("each element of such an array, in a loop", "report"),
    "small_network": ("two small hybridized layers, with asnumpy()", "report"),
    "add": ("x + 1 of 4 million floats", "report"),
    "fetch": ("asnumpy() of 16 MiB", "report"),
    "put": ("nd.array() of 16 MiB", "report"),
    "custom_softmax": ("CustomOp softmax by numpy, 64 x 1000, forward and backward", 1.0),
    "computed_softmax": ("the same of an input that the server has just computed", "report"),
    "custom_float": ("CustomOp of one float, forward and backward", 0.5),
}
# The cases that are the code of tutorials: their times are also added up.
TUTORIALS = ("hybridized", "imperative", "custom_softmax", "computed_softmax", "custom_float")
# The cases that send one message and wait for one, as a count of the client's system calls shows: compared with another revision's
# package they may take longer than the others.
ROUND_TRIPS = {"round_trip": "(a + b).asnumpy()", **{case: GLUON[case][0] for case in ("element", "small_network", "custom_float")}}

# Cases of gluon_bench.py that are measured beside a neighbour, too, and the bytes of an inference, either way on average: a
# peer in the same process need not send them.
NEIGHBOUR = {
    "recurrent": ("LSTM, 2 layers of 256, sequence 35, inference", 35 * 256 * 4),
    "encoder": ("Transformer encoder, 4 layers of 256, sequence 128, inference", 128 * 256 * 4),
    "resnet50": ("ResNet-50, inference", (3 * 224 * 224 + 1000) * 4 // 2),
    "resnet50_training": ("ResNet-50, a training step of 8", None),
}


def gluon_side(name, interpreter, module, case, address="", echo_address="", package=ROOT / "client/python"):
    return Side(
        name,
        [interpreter, ROOT / "tests/bench/gluon_bench.py", module],
        case,
        OMP_NUM_THREADS="2",
        PYTHONPATH=str(package),
        GLUOND_ADDRESS=address,
        ECHO_ADDRESS=echo_address,
    )


def python_round_trip(processes):
    """As in wire(), over several processes."""
    run_or_exit([sys.executable, ROOT / "client/python/build_stubs.py"])
    all_figures = ([], [])
    for _ in range(processes):
        with servers() as addresses:
            sides = [
                gluon_side(name, sys.executable, "gluond", case, *addresses)
                for name, case in (("gluond", "round_trip"), ("empty call by grpcio", "echo_0"))
            ]
            alternate(sides, 3)
            for side, figures in zip(sides, all_figures):
                figures.append(statistics.median(side.figures))
                side.figures = figures
                side.stop()
    row("(a + b).asnumpy()", *sides, "us", "1.5")


def python(address, rounds, mxnet):
    """The tutorials' code in Python, against the same code with MXNet."""
    sides = [gluon_side("gluond", sys.executable, "gluond", "", address), gluon_side("MXNet 1.9.1", mxnet, "mxnet", "")]
    sums = [[0.0] * rounds for _ in sides]
    for case, (what, limit) in GLUON.items():
        compare(case, what, sides, rounds, limit)
        if case in TUTORIALS:
            sums = [[a + b for a, b in zip(total, side.figures)] for total, side in zip(sums, sides)]
    for side, total in zip(sides, sums):
        side.figures = total
    row("the tutorials' code, added up", *sides, "us", 0.85)
    for each in sides:
        each.stop()


def compare(case, what, sides, rounds, limit):
    """One case of gluon_bench.py."""
    for each in sides:
        each.line, each.figures = case, []
    alternate(sides, rounds)
    row(what, *sides, "us", limit)


def package_before(address, rounds, package):
    """The package against that of another revision, with the same server."""
    sides = [
        gluon_side("gluond", sys.executable, "gluond", "", address),
        gluon_side("before", sys.executable, "gluond", "", address, package=package),
    ]
    for case, what in {**ROUND_TRIPS, **{case: what for case, (what, _) in GLUON.items()}}.items():
        compare(case, what, sides, rounds, 1.25 if case in ROUND_TRIPS else 1.05)
    for each in sides:
        each.stop()


def indexing(address, rounds):
    """An index that chooses one row, against a number: both write one element of a large array."""
    sides = [
        gluon_side("gluond", sys.executable, "gluond", "set_list", address),
        gluon_side("x[0] = 1", sys.executable, "gluond", "set_row", address),
    ]
    alternate(sides, rounds)
    row("x[[0]] = 1 of 100 million elements", *sides, "us", 3)
    for each in sides:
        each.stop()


def neighbour(addresses, rounds, torch, mxnet):
    """Each side alone, and beside a process that never sleeps, on one of the two processors."""
    run_or_exit([sys.executable, ROOT / "client/python/build_stubs.py"])
    ours = gluon_side("gluond", sys.executable, "gluond", "", *addresses)
    echo = gluon_side("echo", sys.executable, "gluond", "", *addresses)
    peers = []
    if torch:
        peers.append(Side("PyTorch", [torch, ROOT / "tests/bench/gluon_torch.py"], OMP_NUM_THREADS="2"))
    if mxnet:
        peers.append(gluon_side("MXNet 1.9.1", mxnet, "mxnet", ""))

    def medians(case, size):
        """Ours, and each peer's, with the echo's where there is one."""
        sides = [ours, *peers] + ([echo] if size else [])
        for each in sides:
            each.line, each.figures = f"echo_{size}" if each is echo else case, []
        alternate(sides, rounds)
        middle = [statistics.median(each.figures) / 1e3 for each in sides]
        sent = middle.pop() if size else 0.0
        return middle[0], [peer + sent for peer in middle[1:]]

    for case, (what, size) in NEIGHBOUR.items():
        alone, peers_alone = medians(case, size)
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        os.sched_setaffinity(busy.pid, {max(os.sched_getaffinity(0))})
        try:
            beside, peers_beside = medians(case, size)
        finally:
            busy.kill()
            busy.wait()
        print(f"| {what}, beside a neighbour | {beside:.2f} ms | itself alone {alone:.2f} ms | {beside / alone:.3f} | 2.5 |")
        for peer, a, b in zip(peers, peers_alone, peers_beside):
            name = peer.name + (" and an echo" if size else "")
            print(f"| the same | {beside:.2f} ms | {name} {b:.2f} ms | {beside / b:.3f} | 1.0 |")
            print(f"| {what}, alone | {alone:.2f} ms | {name} {a:.2f} ms | {alone / a:.3f} | report |", flush=True)
    for each in (ours, echo, *peers):
        each.stop()
