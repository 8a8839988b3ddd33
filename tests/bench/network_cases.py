"""The networks that are compared with peers, as numbers: gluon_networks.py, gluon_torch.py and peer_onnxruntime.py build them.

A program of a side has functions that make a Timed for each case, and answers lines with them (see answer). With BENCH_TINY in
the environment the networks are so small that a test can run every row.
"""

import os
import statistics
import sys
import time
from typing import Callable, NamedTuple

TINY = "BENCH_TINY" in os.environ or "--tiny" in sys.argv  # run.py has the flag, and tells its sides by the environment.
# Layers, width, length of the sequence; of the encoder also the heads.
LSTM = (2, 8, 3) if TINY else (2, 256, 35)
ENCODER = (2, 8, 6, 2) if TINY else (4, 256, 128, 8)
# Blocks of each stage, channels of the first convolution.
RESNET50 = ((1, 1), 8) if TINY else ((3, 4, 6, 3), 64)
# Blocks of each of the three stages, channels of the first one: on images of RESNET20_IMAGE.
RESNET20 = (1, 4) if TINY else (3, 16)
RESNET20_IMAGE = (3, 8, 8) if TINY else (3, 32, 32)
# Width of the hidden layers, which is the input's, and their number.
DENSE = {1024: (16, 2), 2048: (16, 2), 4096: (16, 1)} if TINY else {1024: (1024, 4), 2048: (2048, 4), 4096: (4096, 2)}
# The share of MobileNet's channels.
MOBILENET = 0.25 if TINY else 1.0
# The small network of the Adam rows has 60 parameters.
SMALL_LAYERS, SMALL_WIDTH = 30, 16
IMAGE = (3, 32, 32) if TINY else (3, 224, 224)
CLASSES = 10 if TINY else 1000


class Case(NamedTuple):
    """A network at work on a batch; training is a whole step. times: of one figure."""

    network: str
    batch: int
    training: bool
    times: int
    what: str

    def timed(self, run):
        """Few calls warm up what is long."""
        return Timed(run, self.times, parts=1 if TINY else 5, warm=10 if self.times > 1 else 3)

    @property
    def width(self):
        """The width of a dense network, in its name."""
        return int(self.network[len("dense") :])


CASES = {
    "recurrent": Case("recurrent", 1, False, 20, "LSTM, 2 layers of 256, sequence 35, inference of 1"),
    "recurrent_training": Case("recurrent", 20, True, 5, "LSTM, a training step of 20"),
    "encoder": Case("encoder", 1, False, 15, "Transformer encoder, 4 layers of 256, sequence 128, inference of 1"),
    "encoder_training": Case("encoder", 16, True, 5, "Transformer encoder, a training step of 16"),
    "dense1024": Case("dense1024", 1, False, 50, "4 dense layers of 1024, inference of 1"),
    "dense1024_training": Case("dense1024", 512, True, 5, "4 dense layers of 1024, a training step of 512"),
    "dense2048": Case("dense2048", 1, False, 30, "4 dense layers of 2048, inference of 1"),
    "dense2048_training": Case("dense2048", 512, True, 5, "4 dense layers of 2048, a training step of 512"),
    "dense4096": Case("dense4096", 1, False, 20, "2 dense layers of 4096, inference of 1"),
    "dense4096_training": Case("dense4096", 512, True, 1, "2 dense layers of 4096, a training step of 512"),
    "resnet50": Case("resnet50", 1, False, 5, "ResNet-50, inference of 1"),
    "resnet50_16": Case("resnet50", 16, False, 1, "ResNet-50, inference of 16"),
    "resnet50_training": Case("resnet50", 8, True, 1, "ResNet-50, a training step of 8"),
    "mobilenet": Case("mobilenet", 1, False, 10, "MobileNet, inference of 1"),
}
if TINY:
    CASES = {name: case._replace(batch=min(case.batch, 2), times=1) for name, case in CASES.items()}


def shape_of(case):
    """The input's. The target of sequences is the input itself, and that of the others a class for each sample."""
    if case.network == "recurrent":
        _, width, steps = LSTM
        return steps, case.batch, width
    if case.network == "encoder":
        _, width, steps, _ = ENCODER
        return case.batch, steps, width
    if case.network.startswith("dense"):
        return case.batch, DENSE[case.width][0]
    return (case.batch, *IMAGE)


def data_of(case):
    """The input's values, and the classes or None."""
    import numpy as np

    values = np.random.RandomState(0).uniform(size=shape_of(case)).astype("float32")
    has_classes = case.network not in ("recurrent", "encoder")
    return values, (np.arange(case.batch) % CLASSES).astype("float32") if has_classes else None


def weight(index, shape):
    """The values of a network's matrix or filters, by the place among all of them. Biases are 0, and factors of norms 1."""
    import numpy as np

    fan_in = float(np.prod(shape[1:]))
    return (np.random.RandomState(index).standard_normal(shape) / fan_in**0.5).astype("float32")


def bytes_of(case):
    """What crosses the wire either way, on average: a peer in the same process need not send it."""
    size = lambda shape: 4 * int(_product(shape))
    there = size(shape_of(case)) + (0 if case.network in ("recurrent", "encoder") else 4 * case.batch * case.training)
    if case.training:
        return (there + 4) // 2
    back = size(shape_of(case)) if case.network in ("recurrent", "encoder") else 4 * case.batch * CLASSES
    return (there + back) // 2


def _product(shape):
    result = 1
    for each in shape:
        result *= each
    return result


class Timed(NamedTuple):
    """What a case times. run: is called `times` times for a figure, in up to `parts` parts of which the median counts.
    operations: of one call. warm: calls before the first figure. figure: in place of all that, gives microseconds itself."""

    run: Callable = None
    times: int = 1
    operations: int = 1
    parts: int = 5
    warm: int = 10
    figure: Callable = None


def microseconds(timed):
    if timed.figure is not None:
        return timed.figure()
    parts, times = [], max(1, timed.times // timed.parts)
    for _ in range(timed.parts):
        begin = time.perf_counter()
        for _ in range(times):
            timed.run()
        parts.append((time.perf_counter() - begin) / times / timed.operations * 1e6)
    return statistics.median(parts)


def agreement(timed, training):
    """Numbers that all sides agree on: of an output, or the losses of two steps. Of a case that has not run yet."""
    if training:
        return [float(timed.run()) for _ in range(2)]
    output = timed.run().ravel()
    return [float(abs(output).mean()), float(output[0]), float(output[output.size // 2]), float(output[-1])]


def answer(make, others=None, wait=lambda: None):
    """Answers the lines of standard input, until its end. A case's name: microseconds of make(name), a Timed. `agree NAME`: the
    numbers of agreement(). others: functions of further lines; what they give is printed."""
    prepared = {}
    for line in map(str.strip, sys.stdin):
        if line in (others or {}):
            print(others[line](), flush=True)
            continue
        if line.startswith("agree "):
            name = line[len("agree ") :]
            print(*(f"{each:.7g}" for each in agreement(make(name), CASES[name].training)), flush=True)
            continue
        if line not in prepared:
            prepared[line] = make(line)
            for _ in range(prepared[line].warm if prepared[line].run else 0):
                prepared[line].run()
        wait()
        print(f"{microseconds(prepared[line]):.2f}", flush=True)
