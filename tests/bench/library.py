"""Operators of a library against the same operators built in: `tests/bench/run.py --only library`.

The kernels alone, called as a lane calls them (library_bench.cc). The library is the one of deploy/examples/operator_library, as its
own Makefile builds it. Both compute |x|.
"""

import pathlib
import shutil
import subprocess
import tempfile

from sides import BIN, ROOT, Side, alternate, row

PROGRAMS = ("tests/bench/library_bench",)
MOST = 1.02
# Elements, and the calls of a figure.
SIZES = ((4096, 20001), (65536, 5001), (1 << 20, 1001))


def wanted(options):
    return options.only in "library"


def build(folder):
    """The example's library, built in a folder of its own: the tree stays as it is."""
    shutil.copytree(ROOT / "deploy/examples/operator_library", folder)
    subprocess.run(["make", "-s", "-C", folder, f"GLUOND_HEADERS={ROOT / 'ops/library'}"], check=True)
    return folder / "liboperators.so"


def measure(options):
    with tempfile.TemporaryDirectory() as name:
        library = build(pathlib.Path(name, "library"))
        for elements, calls in SIZES:
            command = [BIN / PROGRAMS[0], library, elements, 101 if options.tiny else calls]
            ours = Side("gluond", command, "absolute", OMP_NUM_THREADS="2")
            own = Side("built in", command, "abs", OMP_NUM_THREADS="2")
            alternate([ours, own], options.rounds)
            row(f"abs of {elements:,} numbers by a library's kernel", ours, own, "us", MOST)
            ours.stop()
            own.stop()
