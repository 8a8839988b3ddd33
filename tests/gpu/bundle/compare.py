"""gluond and PyTorch side by side on the same GPU, with the same math: prints Markdown tables for docs/performance.md.

    compare.py {full,tiny} [--torch PYTHON] [--seconds N]

PYTHON has PyTorch; without one that does, the tables have gluond's figures alone. The sides take turns; figures are medians
of the rounds, ratios medians of the rounds' ratios of times: below 1 gluond is faster. No network is begun after N seconds,
and one that was not begun has failed.
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
  """Both sides with one server; the second is None without PyTorch."""

  def __init__(self, stack, scale, tf32, python):
    address = stack.enter_context(processes.server(tf32))
    sides = [("gluond", [*processes.PYTHON, processes.HERE / "gluond_side.py", scale], {**os.environ, "GLUOND_ADDRESS": address})]
    if python:
      sides.append(("PyTorch", [python, processes.HERE / "torch_side.py", scale, tf32], processes.machine_environment()))
    self.sides = []
    for side in sides:
      self.sides.append(processes.Side(*side))
      stack.callback(self.sides[-1].stop)

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


def kernels(scale, python, cases):
  """Products, and an elementwise chain beside a copy, which moves as many bytes."""
  size = sizes.FULL if scale == "full" else sizes.TINY
  table("what", "")
  products = [("none", "float32", "float32"), ("all", "float32", "TF32"), ("none", "bfloat16", "bfloat16")]
  for tf32, dtype, title in products[:None if scale == "full" else 1]:
    with contextlib.ExitStack() as stack:
      times, ratio = Pair(stack, scale, tf32, python).measure(f"gemm {dtype}", size.rounds)
    cells = [f"{ms:.3f} ms, {2 * size.matrix ** 3 / ms / 1e9:.1f} TFLOP/s" for ms in times]
    row(f"product of two matrices of {size.matrix} x {size.matrix}, {title}", cells, ratio)
    cases.check(title, min(times) > 0)
  with contextlib.ExitStack() as stack:
    pair = Pair(stack, scale, "none", python)
    for line, title in (("copy", "copy"), ("chain", "chain of 6 operators, tanh(x * 1.5 + 0.5) * relu(x) - x")):
      times, ratio = pair.measure(line, size.rounds)
      cells = [f"{ms:.3f} ms, {8 * size.vector / ms / 1e6:.0f} GB/s" for ms in times]
      row(f"{title}, {size.vector} floats", cells, ratio)
      cases.check(title, min(times) > 0)


def network(name, tf32, scale, python):
  """Rows of one network, as row() wants them."""
  size = sizes.FULL if scale == "full" else sizes.TINY
  title = f"{size.networks[name].title}, {MODES[tf32]}"
  with contextlib.ExitStack() as stack:
    pair = Pair(stack, scale, tf32, python)
    for line, what in (("training", "training step"), ("memory", "peak memory"), ("inference", "inference"),
                       ("request", "TrainStep, from request to reply")):
      if line == "memory":  # Of the training alone.
        used = pair.memory()
        cells = [each if each == "-" else f"{int(each) / 2 ** 20:.0f} MiB" for each in used]
        yield f"{title}, {what}", cells, None if "-" in used or len(used) < 2 else int(used[0]) / int(used[1])
      else:
        times, ratio = pair.measure(f"{line} {name}", size.rounds)
        yield f"{title}, {what}", [f"{ms:.3f} ms" for ms in times], ratio


def networks(scale, python, cases, end):
  table("network", "")
  for tf32 in MODES if scale == "full" else ["none"]:
    for name in (sizes.FULL if scale == "full" else sizes.TINY).networks:
      if time.monotonic() > end:
        cases.check(f"{name}, {MODES[tf32]}: no time was left", False)
        continue
      try:
        for each in network(name, tf32, scale, python):
          row(*each)
          cases.add(1, 0)
      except processes.Ended as error:
        cases.check(f"{name}, {MODES[tf32]}: {error}", False)


def version_of(python, scale):
  """Of PyTorch; None where the interpreter has none, or none that works with the machine's GPU."""
  wanted = "torch.cuda.is_available()" if scale == "full" else "True"
  with contextlib.suppress(OSError, subprocess.TimeoutExpired):
    asked = subprocess.run([python, "-c", f"import torch; assert {wanted}; print(torch.__version__)"], text=True, timeout=60,
                           capture_output=True, env=processes.machine_environment())
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
  print("gluond's convolutions are deterministic (--deterministic), PyTorch's are as it sets them up; both without graph capture.\n"
        "Ratios are gluond's to PyTorch's: below 1 gluond is faster, or smaller. Peak memory is what tensors had in training.")
  python = options.torch if version else None
  try:
    kernels(options.scale, python, cases)
  except processes.Ended as error:
    cases.check(f"kernels: {error}", False)
  networks(options.scale, python, cases, end)
  cases.end()


if __name__ == "__main__":
  main()
