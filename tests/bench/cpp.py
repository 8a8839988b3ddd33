"""Gluon in C++ against the same by TrainStep and by Python's client: `tests/bench/run.py --only cpp`."""

import os
import pathlib
import sys
import tempfile

from sides import BIN, ROOT, Side, alternate, row, start_server, wait_for

PROGRAMS = ("tests/bench/cpp_bench",)
PACKAGE = os.environ.get("GLUOND_PACKAGE", str(ROOT / "client/python"))
# The case, its title, the other side, and the most that the ratio may be.
ROWS = (
    ("loop", "step of a LeNet loop in C++ Gluon, hybridized", "step", 1.10),
    ("chain", "C++ client's processor time of an operator in a chain", "chain", 0.25),
    ("custom", "CustomOp of one number in C++, forward and backward", "custom", 0.5),
)


def wanted(options):
    return options.only in "cpp"


def measure(options):
    steps = 2 if options.tiny else 200
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = start_server(folder)
        address = wait_for(folder / "port", server)
        try:
            command = [BIN / PROGRAMS[0], address, steps]
            for case, title, other, most in ROWS:
                ours = Side("C++", command, case)
                if other == "step":
                    peer = Side("TrainStep", command, other)
                else:
                    peer = Side("Python", [sys.executable, ROOT / "tests/bench/cpp_peer.py", steps], other,
                                GLUOND_ADDRESS=address, PYTHONPATH=PACKAGE)  # fmt: skip
                alternate([ours, peer], options.rounds)
                row(title, ours, peer, "us", most)
                ours.stop()
                peer.stop()
        finally:
            server.terminate()
            server.wait()
