"""gluond and PyTorch side by side on the same GPU, with the same math: prints Markdown tables for docs/performance.md.

    compare.py {full,tiny} [--torch PYTHON] [--seconds N]

PYTHON has PyTorch; without one that does, the tables have gluond's figures alone. The sides take turns; figures are medians
of the rounds, ratios medians of the rounds' ratios of times: below 1 gluond is faster. All processes start together, as most of
their start is Python's; each touches the GPU when it is first asked. No network is begun after N seconds, and one that was not
begun has failed.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import time

import count
import processes
import sizes

MODES = {"none": "float32", "all": "TF32"}


class Pair:
    """Both sides with one server; gluond's alone without PyTorch."""

    def __init__(self, scale, tf32, python):
        self._stack = contextlib.ExitStack()
        address = self._stack.enter_context(processes.server(tf32))
        sides = [
            ("gluond", [*processes.PYTHON, processes.HERE / "gluond_side.py", scale], {**os.environ, "GLUOND_ADDRESS": address})
        ]
        if python:
            sides.append(("PyTorch", [python, processes.HERE / "torch_side.py", scale, tf32], processes.machine_environment()))
        self.sides = []
        for side in sides:
            self.sides.append(processes.Side(*side))
            self._stack.callback(self.sides[-1].stop)

    def close(self):
        """Ends the processes, where they have not ended; their memory is free for the next."""
        self._stack.close()

    def measure(self, line, rounds):
        """The sides' medians in milliseconds, and the ratio or None."""
        figures = [[float(side.ask(line)) for side in self.sides] for _ in range(rounds)]
        ratio = statistics.median(ours / theirs for ours, theirs in figures) if len(self.sides) == 2 else None
        return [statistics.median(column) for column in zip(*figures)], ratio

    def memory(self):
        return [side.ask("memory") for side in self.sides]


def row(what, cells, ratio):
    cells = [*cells, "-"][:2]
    print(f"| {what} | {cells[0]} | {cells[1]} | {'-' if ratio is None else f'{ratio:.3f}'} |", flush=True)


def table(title, unit):
    print(f"\n| {title} | gluond{unit} | PyTorch{unit} | ratio |\n| --- | --- | --- | --- |", flush=True)


def kernels(pairs, size, cases):
    """Products, and an elementwise chain beside one operator, which moves as many bytes."""
    table("what", "")
    for tf32, dtype, title in (("none", "float32", "float32"), ("all", "float32", "TF32"), ("none", "bfloat16", "bfloat16")):
        if tf32 not in pairs:
            continue
        times, ratio = pairs[tf32].measure(f"gemm {dtype}", size.rounds)
        cells = [f"{ms:.3f} ms, {2 * size.matrix ** 3 / ms / 1e9:.1f} TFLOP/s" for ms in times]
        row(f"product of two matrices of {size.matrix} x {size.matrix}, {title}", cells, ratio)
        cases.check(title, min(times) > 0)
    for line, title in (("abs", "abs"), ("chain", "chain of 6 operators, tanh(x * 1.5 + 0.5) * relu(x) - x")):
        times, ratio = pairs["none"].measure(line, size.rounds)
        cells = [f"{ms:.3f} ms, {8 * size.vector / ms / 1e6:.0f} GB/s" for ms in times]
        row(f"{title}, {size.vector} floats", cells, ratio)
        cases.check(title, min(times) > 0)


def network(pair, name, tf32, size):
    """Rows of one network, as row() wants them."""
    title = f"{size.networks[name].title}, {MODES[tf32]}"
    for line, what in (
        ("training", "training step"),
        ("memory", "peak memory"),
        ("inference", "inference"),
        ("request", "TrainStep, from request to reply"),
    ):
        if line == "memory":  # The peak is the training's: inference has not been asked for yet.
            used = pair.memory()
            cells = [each if each == "-" else f"{int(each) / 2 ** 20:.0f} MiB" for each in used]
            yield f"{title}, {what}", cells, None if "-" in used or len(used) < 2 else int(used[0]) / int(used[1])
        else:
            times, ratio = pair.measure(f"{line} {name}", size.rounds)
            yield f"{title}, {what}", [f"{ms:.3f} ms" for ms in times], ratio


def networks(pairs, size, cases, end):
    """`pairs`: by mode and name, one for each so that peaks of memory are a network's own."""
    table("network", "")
    for (tf32, name), pair in pairs.items():
        if time.monotonic() > end:
            cases.check(f"{name}, {MODES[tf32]}: no time was left", False)
            continue
        try:
            for each in network(pair, name, tf32, size):
                row(*each)
                cases.add(1, 0)
            pair.close()
        except processes.Ended as error:
            cases.check(f"{name}, {MODES[tf32]}: {error}", False)


def version_of(python, scale):
    """Of PyTorch; None where the interpreter has none, or none that works with the machine's GPU."""
    wanted = "torch.cuda.is_available()" if scale == "full" else "True"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run(
            [python, "-c", f"import torch; assert {wanted}; print(torch.__version__)"],
            text=True,
            timeout=60,
            capture_output=True,
            env=processes.machine_environment(),
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scale", choices=("full", "tiny"))
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    end, cases = time.monotonic() + options.seconds, count.Count()
    version = version_of(options.torch, options.scale)
    print(f"PyTorch {version}" if version else "no PyTorch here", flush=True)
    print(
        "gluond's convolutions are deterministic (--deterministic), PyTorch's are as it sets them up; both without graph capture.\n"
        "Ratios are gluond's to PyTorch's: below 1 gluond is faster, or smaller. Peak memory is what tensors had in training."
    )
    python = options.torch if version else None
    size, modes = (sizes.FULL, list(MODES)) if options.scale == "full" else (sizes.TINY, ["none"])
    with contextlib.ExitStack() as stack:

        def pair(tf32):
            made = Pair(options.scale, tf32, python)
            stack.callback(made.close)
            return made

        of_kernels = {tf32: pair(tf32) for tf32 in modes}
        of_networks = {(tf32, name): pair(tf32) for tf32 in modes for name in size.networks}
        try:
            kernels(of_kernels, size, cases)
        except processes.Ended as error:
            cases.check(f"kernels: {error}", False)
        networks(of_networks, size, cases, end)
    cases.end()


if __name__ == "__main__":
    main()
