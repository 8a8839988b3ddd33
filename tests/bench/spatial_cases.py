"""The calls of convolution and pooling that are compared with the peers: name, operator, attributes as MXNet writes
them, shape of the data. A line of the protocol has the last three and `inference` or `training`; a program answers it
with the least and the median milliseconds of one call. Training is the forward pass and all gradients.

BENCH_CLOCK=processor in the environment counts the process's own time instead of the clock's, for a machine that
others use, too.
"""

import os
import statistics
import sys
import time


def conv(name, shape, filters, kernel, op="Convolution", **attrs):
    attrs = {"kernel": kernel, "num_filter": filters, "no_bias": False, **attrs}
    return name, op, attrs, shape


def deconv(name, shape, filters, kernel, **attrs):
    return conv(name, shape, filters, kernel, "Deconvolution", **attrs)


def pool(name, shape, kernel=None, **attrs):
    attrs = {"kernel": kernel, **attrs} if kernel else {"global_pool": True, **attrs}
    return name, "Pooling", attrs, shape


CASES = [
    conv("Conv1D 3, 64 to 64", (8, 64, 1024), 64, (3,), pad=(1,)),
    conv("Conv1D 7 stride 2, 16 to 64", (4, 16, 4096), 64, (7,), stride=(2,), pad=(3,)),
    conv("Conv1D 3, 1 to 32", (16, 1, 1024), 32, (3,), pad=(1,)),
    conv("Conv1D 3 dilated 4, 32 to 32", (8, 32, 2048), 32, (3,), dilate=(4,), pad=(4,)),
    conv("Conv1D 5 in 4 groups, 64 to 64", (8, 64, 512), 64, (5,), pad=(2,), num_group=4),
    conv("Conv1D 9 depthwise, 128", (8, 128, 512), 128, (9,), pad=(4,), num_group=128),
    conv("Conv2D 3x3, 16 to 16", (16, 16, 32, 32), 16, (3, 3), pad=(1, 1)),
    conv("Conv2D 3x3, 64 to 64", (4, 64, 28, 28), 64, (3, 3), pad=(1, 1)),
    conv("Conv2D 5x5, 1 to 20", (64, 1, 28, 28), 20, (5, 5)),
    conv("Conv2D 7x7 stride 2, 3 to 64", (2, 3, 112, 112), 64, (7, 7), stride=(2, 2), pad=(3, 3)),
    conv("Conv2D 1x1, 128 to 64", (16, 128, 14, 14), 64, (1, 1)),
    conv("Conv2D 3x3 stride 2, 64 to 128", (4, 64, 28, 28), 128, (3, 3), stride=(2, 2), pad=(1, 1)),
    conv("Conv2D 3x3 dilated 2, 32 to 32", (8, 32, 28, 28), 32, (3, 3), dilate=(2, 2), pad=(2, 2)),
    conv("Conv2D 3x3 in 8 groups, 64 to 64", (4, 64, 28, 28), 64, (3, 3), pad=(1, 1), num_group=8),
    conv("Conv2D 3x3 in 32 groups, 128 to 128", (4, 128, 28, 28), 128, (3, 3), pad=(1, 1), num_group=32),
    conv("Conv2D 3x3 depthwise, 96", (8, 96, 28, 28), 96, (3, 3), pad=(1, 1), num_group=96),
    conv("Conv2D 3x3 depthwise stride 2, 96", (8, 96, 28, 28), 96, (3, 3), stride=(2, 2), pad=(1, 1), num_group=96),
    conv("Conv3D 3x3x3, 1 to 16", (2, 1, 8, 48, 48), 16, (3, 3, 3), pad=(1, 1, 1)),
    conv("Conv3D 3x3x3, 16 to 32", (2, 16, 8, 48, 48), 32, (3, 3, 3), pad=(1, 1, 1)),
    conv("Conv3D 3x3x3, 32 to 64", (2, 32, 4, 24, 24), 64, (3, 3, 3), pad=(1, 1, 1)),
    conv("Conv3D 3x3x3 stride 2, 16 to 32", (2, 16, 8, 48, 48), 32, (3, 3, 3), stride=(2, 2, 2), pad=(1, 1, 1)),
    conv("Conv3D 3x3x3 dilated 2, 16 to 16", (2, 16, 8, 16, 16), 16, (3, 3, 3), dilate=(2, 2, 2), pad=(2, 2, 2)),
    conv("Conv3D 3x3x3 in 4 groups, 32 to 32", (2, 32, 8, 16, 16), 32, (3, 3, 3), pad=(1, 1, 1), num_group=4),
    conv("Conv3D 3x3x3 depthwise, 32", (2, 32, 8, 16, 16), 32, (3, 3, 3), pad=(1, 1, 1), num_group=32),
    conv("Conv3D 1x1x1, 64 to 32", (2, 64, 4, 16, 16), 32, (1, 1, 1)),
    conv("Conv3D 1x3x3, 32 to 32", (2, 32, 8, 24, 24), 32, (1, 3, 3), pad=(0, 1, 1)),
    deconv("Conv1DTranspose 4 stride 2, 64 to 32", (8, 64, 512), 32, (4,), stride=(2,), pad=(1,)),
    deconv("Conv2DTranspose 4x4 stride 2, 64 to 32", (8, 64, 14, 14), 32, (4, 4), stride=(2, 2), pad=(1, 1)),
    deconv("Conv2DTranspose 3x3, 32 to 16", (8, 32, 28, 28), 16, (3, 3), pad=(1, 1)),
    deconv("Conv2DTranspose 4x4 depthwise stride 2, 32", (4, 32, 28, 28), 32, (4, 4), stride=(2, 2), pad=(1, 1), num_group=32),
    deconv("Conv2DTranspose 3x3 stride 2, 64 to 32", (4, 64, 28, 28), 32, (3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 1)),
    deconv("Conv2DTranspose 2x2 stride 2, 128 to 64", (2, 128, 28, 28), 64, (2, 2), stride=(2, 2)),
    deconv("Conv2DTranspose 4x4 stride 2, 64 to 3", (8, 64, 32, 32), 3, (4, 4), stride=(2, 2), pad=(1, 1)),
    deconv("Conv2DTranspose 16x16 stride 8, 21 to 21", (1, 21, 16, 16), 21, (16, 16), stride=(8, 8), pad=(4, 4)),
    deconv("Conv3DTranspose 4x4x4 stride 2, 32 to 16", (2, 32, 4, 12, 12), 16, (4, 4, 4), stride=(2, 2, 2), pad=(1, 1, 1)),
    deconv("Conv3DTranspose 2x2x2 stride 2, 32 to 16", (2, 32, 4, 16, 16), 16, (2, 2, 2), stride=(2, 2, 2)),
    deconv("Conv3DTranspose 3x3x3, 32 to 16", (2, 32, 4, 16, 16), 16, (3, 3, 3), pad=(1, 1, 1)),
    pool("MaxPool1D 2", (16, 64, 1024), (2,), stride=(2,)),
    pool("MaxPool1D 3 stride 2, ceil", (16, 64, 1024), (3,), stride=(2,), pad=(1,), pooling_convention="full"),
    pool("AvgPool1D 3 stride 1", (16, 64, 1024), (3,), pad=(1,), pool_type="avg"),
    pool("GlobalAvgPool1D", (16, 64, 1024), pool_type="avg"),
    pool("MaxPool2D 2x2", (16, 64, 32, 32), (2, 2), stride=(2, 2)),
    pool("MaxPool2D 3x3 stride 2", (4, 64, 56, 56), (3, 3), stride=(2, 2), pad=(1, 1)),
    pool("AvgPool2D 3x3 stride 1", (8, 32, 28, 28), (3, 3), pad=(1, 1), pool_type="avg", count_include_pad=False),
    pool("MaxPool2D 5x5 stride 1", (8, 64, 20, 20), (5, 5), pad=(2, 2)),
    pool("GlobalAvgPool2D", (16, 256, 14, 14), pool_type="avg"),
    pool("GlobalMaxPool2D", (16, 256, 14, 14), pool_type="max"),
    pool("MaxPool3D 2x2x2", (2, 16, 8, 48, 48), (2, 2, 2), stride=(2, 2, 2)),
    pool(
        "MaxPool3D 3x3x3 stride 2, ceil", (2, 16, 8, 48, 48), (3, 3, 3), stride=(2, 2, 2), pad=(1, 1, 1), pooling_convention="full"
    ),
    pool("AvgPool3D 2x2x2", (2, 16, 8, 48, 48), (2, 2, 2), stride=(2, 2, 2), pool_type="avg"),
    pool("AvgPool3D 3x3x3 stride 1", (2, 16, 8, 24, 24), (3, 3, 3), pad=(1, 1, 1), pool_type="avg"),
    pool("MaxPool3D 3x3x3 stride 1", (2, 16, 8, 24, 24), (3, 3, 3), pad=(1, 1, 1)),
    pool("GlobalAvgPool3D", (2, 64, 8, 24, 24), pool_type="avg"),
]


def line_of(op, attrs, shape, how):
    return "\t".join([op, ";".join(f"{k}={v}" for k, v in attrs.items()), ",".join(map(str, shape)), how])


def serve(prepare, seconds=0.1):
    """Answers the lines of standard input. prepare(op, attrs, shape, training) -> a call without arguments."""
    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter
    calls = {}
    for line in sys.stdin:
        if line not in calls:
            op, attrs, shape, how = line.rstrip("\n").split("\t")
            attrs = dict(a.split("=", 1) for a in attrs.split(";"))
            calls[line] = prepare(op, attrs, tuple(map(int, shape.split(","))), how == "training")
            calls[line]()
        times, end = [], time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            begin = clock()
            calls[line]()
            times.append((clock() - begin) * 1e3)
        print(f"{min(times):.4f} {statistics.median(times):.4f}", flush=True)
