"""What the GPU does in a step, on gluond's side and on PyTorch's: `kernel_profile.py [--torch PYTHON] NETWORK:WHAT:TF32...`, as in
`resnet50:training:all` (networks and modes of compare.py; training, inference or request). For each side it prints how long the
GPU was busy of a step, and the kernels that took most of it. It counts no cases; with the records taken, steps are slower."""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import tempfile

import compare
import processes
import sizes

LIBRARY = processes.ROOT / "bin/libkernel_times.so"
KERNELS = 25


def injected(path):
    return {"CUDA_INJECTION64_PATH": str(LIBRARY), "KERNEL_TIMES": str(path)}


def asked(side, line):
    """The milliseconds of a step, of the second turn: the first warms up."""
    side.ask(line)
    milliseconds = float(side.ask(line))
    side.stop()
    return milliseconds


def of_gluond(line, tf32, path):
    with processes.server(tf32, injected(path)) as address:
        return asked(
            processes.Side(
                "gluond", [*processes.PYTHON, processes.HERE / "gluond_side.py", "full"], {**os.environ, "GLUOND_ADDRESS": address}
            ),
            line,
        )


def of_torch(line, tf32, path, python):
    return asked(
        processes.Side(
            "PyTorch",
            [python, processes.HERE / "torch_side.py", "full", tf32],
            {**processes.machine_environment(), **injected(path)},
        ),
        line,
    )


def last_steps(path, milliseconds, steps):
    """Begin, end and name of what ran in the last turn, in order."""
    records = []
    with open(path, errors="replace") as lines:
        for line in lines:
            begin, end, name = line.rstrip("\n").split(" ", 2)
            records.append((int(begin), int(end), name))
    last = max(end for _, end, _ in records)
    return sorted(record for record in records if record[0] >= last - milliseconds * steps * 1e6)


def busy(records):
    """The nanoseconds in which at least one was running."""
    total = until = 0
    for begin, end, _ in records:
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def readable(name):
    found = subprocess.run(["c++filt", name], capture_output=True, text=True).stdout.strip() if name.startswith("_Z") else name
    return re.sub(r"gluond::|ops::|\(anonymous namespace\)::|void ", "", found)[:120]


def report(side, what, milliseconds, steps, path):
    records = last_steps(path, milliseconds, steps)
    print(
        f"\n{side}, {what}: {milliseconds:.3f} ms a step, {busy(records) / 1e6 / steps:.3f} ms of which the GPU is busy, with "
        f"{len(records) / steps:.0f} kernels, copies and fills"
    )
    kinds = collections.defaultdict(list)
    for begin, end, name in records:
        kinds[name].append(end - begin)
    for name, times in sorted(kinds.items(), key=lambda kind: -sum(kind[1]))[:KERNELS]:
        print(
            f"  {sum(times) / 1e6 / steps:8.3f} ms {len(times) / steps:7.1f} x {sum(times) / len(times) / 1e3:8.1f} us  {readable(name)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch")
    parser.add_argument("what", nargs="+")
    options = parser.parse_args()
    with_torch = options.torch and compare.version_of(options.torch, "full")
    with tempfile.TemporaryDirectory() as folder:
        for what in options.what:
            network, kind, tf32 = what.split(":")
            line, steps = f"{kind} {network}", sizes.FULL.networks[network].steps
            steps = max(2, steps // 2) if kind == "request" else steps
            path = pathlib.Path(folder) / "records"
            report("gluond", what, of_gluond(line, tf32, path), steps, path)
            if with_torch:
                report("PyTorch", what, of_torch(line, tf32, path, options.torch), steps, path)


if __name__ == "__main__":
    main()
