"""Operators on arrays as large as networks have them, where a GPU takes other ways than for the small ones of the operator
cases: `large_operators.py {full,tiny}`. Each is computed on gpu:0 and on the CPU from the same numbers, with its gradients by
unequal head gradients, in float32 and, where said, in 16 bits. Both must agree as a whole: |gpu - cpu| / |cpu|, in norms, is
compared."""

import os
import sys

import numpy as np

import gluond as mx
from gluond import autograd, nd

import count
import processes

# A sum of n float32 numbers in another order differs by some sqrt(n) * 6e-8; and one rounding of 16 bits by 2^-11 or 2^-8.
ALLOWED = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
FULL = sys.argv[1] == "full"


class Case:
    """`run(*arrays)` gives an array; gradients are asked for of the first `differentiable` inputs, which are normal values of
    `shapes`; `others` are given as they are. `half`: in 16 bits, too."""

    def __init__(self, name, run, shapes, others=(), differentiable=None, half=False):
        self.name, self.run, self.half = name, run, half
        random = np.random.RandomState(7)
        self.inputs = [random.normal(0, 1, shape).astype("float32") for shape in shapes]
        self.others = [np.asarray(other, "float32") for other in others]
        self.differentiable = len(shapes) if differentiable is None else differentiable

    def compute(self, context, dtype):
        """The output and the gradients, as float64."""
        arrays = [nd.array(x, ctx=context, dtype="float32").astype(dtype) for x in self.inputs]
        for array in arrays[: self.differentiable]:
            array.attach_grad()
        others = [nd.array(x, ctx=context, dtype="float32") for x in self.others]
        if self.differentiable == 0:
            return [self.run(*arrays, *others).astype("float64").asnumpy()]
        with autograd.record():
            y = self.run(*arrays, *others)
        heads = np.random.RandomState(8).normal(1, 1, y.shape)
        y.backward(nd.array(heads, ctx=context, dtype="float32").astype(y.dtype))
        return [x.astype("float64").asnumpy() for x in (y, *(array.grad for array in arrays[: self.differentiable]))]


def cases():
    """With FULL, sizes at which each of a GPU's ways is taken; else the same operators on little."""
    n = lambda full, tiny: full if FULL else tiny
    images, wide = (n(16, 2), n(64, 4), n(56, 5), n(56, 5)), n(1 << 20, 1 << 13)
    tokens, width, words = n(4096, 200), n(768, 8), n(30000, 11)
    random = np.random.RandomState(9)

    def conv(kernel, stride, groups=1, filters=images[1]):
        return lambda x, w: nd.Convolution(
            x,
            w,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(kernel // 2,) * 2,
            num_filter=filters,
            num_group=groups,
            no_bias=True,
        )

    def pool(kind, **more):
        return lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=kind, **more)

    def rnn(mode, gates, layers, hidden, inputs):
        size = sum(gates * hidden * ((inputs if layer == 0 else hidden) + hidden + 2) for layer in range(layers))
        steps, batch = n(35, 3), n(20, 2)
        states = [(layers, batch, hidden)] * (2 if mode == "lstm" else 1)
        return Case(
            f"RNN {mode}",
            lambda x, p, *s: nd.RNN(x, p * 0.05, *s, state_size=hidden, num_layers=layers, mode=mode),
            [(steps, batch, inputs), (size,), *states],
        )

    c = images[1]
    yield Case("sum of all", lambda x: nd.sum(x * x), [(wide,)])
    yield Case("mean over rows", lambda x: nd.mean(x, axis=1), [(tokens, width)], half=True)
    yield Case("sum over columns", lambda x: nd.sum(x, axis=0), [(tokens, width)], half=True)
    yield Case("sum over the middle", lambda x: nd.sum(x, axis=(0, 2, 3)), [images])
    yield Case("max", lambda x: nd.max(x, axis=1), [(tokens, width)])
    yield Case("norm", lambda x: nd.norm(x, axis=1), [(tokens, width)])
    yield Case("argmax", lambda x: nd.argmax(x, axis=1), [(tokens, width)], differentiable=0)
    yield Case("softmax of words", nd.softmax, [(n(512, 3), words)], half=True)
    yield Case("log_softmax", nd.log_softmax, [(n(512, 3), words)])
    yield Case("softmax along the first axis", lambda x: nd.softmax(x, axis=0), [(n(500, 3), n(700, 5))])
    yield Case("SoftmaxOutput", lambda x, y: nd.SoftmaxOutput(x, y), [(n(512, 3), words)], [np.arange(n(512, 3)) % words])
    yield Case(
        "softmax_cross_entropy", lambda x, y: nd.softmax_cross_entropy(x, y), [(n(512, 3), words)], [np.arange(n(512, 3)) % words]
    )
    yield Case("LayerNorm", nd.LayerNorm, [(tokens, width), (width,), (width,)], half=True)
    yield Case("LayerNorm of wide rows", nd.LayerNorm, [(n(64, 2), n(20000, 40)), (n(20000, 40),), (n(20000, 40),)])
    yield Case("GroupNorm", lambda x, g, b: nd.GroupNorm(x, g, b, num_groups=2), [images, (2,), (2,)])
    yield Case("InstanceNorm", nd.InstanceNorm, [images, (c,), (c,)])
    yield Case("L2Normalization", lambda x: nd.L2Normalization(x, mode="channel"), [images])
    for kind in ({}, {"use_global_stats": True}):
        yield Case(
            f"BatchNorm {kind}",
            lambda x, g, b, m, v, kind=kind: nd.BatchNorm(x, g, b, m, v, fix_gamma=False, **kind),
            [images, (c,), (c,)],
            [np.zeros(c), np.ones(c)],
        )
    for kernel, stride in ((1, 1), (3, 1), (3, 2), (1, 2), (5, 1), (7, 2)):
        yield Case(
            f"Convolution {kernel}, stride {stride}", conv(kernel, stride), [images, (c, c, kernel, kernel)], half=kernel < 5
        )
    yield Case("Convolution of images", conv(7, 2), [(n(32, 2), 3, n(224, 9), n(224, 9)), (c, 3, 7, 7)])
    yield Case("Convolution in groups", conv(3, 1, 4), [images, (c, c // 4, 3, 3)])
    yield Case("Convolution depthwise", conv(3, 1, c), [images, (c, 1, 3, 3)], half=True)
    yield Case(
        "Convolution dilated",
        lambda x, w: nd.Convolution(x, w, kernel=(3, 3), dilate=(2, 2), pad=(2, 2), num_filter=c, no_bias=True),
        [images, (c, c, 3, 3)],
    )
    yield Case(
        "Convolution with a bias",
        lambda x, w, b: nd.Convolution(x, w, b, kernel=(3, 3), num_filter=c),
        [images, (c, c, 3, 3), (c,)],
    )
    yield Case(
        "Convolution 1D",
        lambda x, w: nd.Convolution(x, w, kernel=(5,), num_filter=c, no_bias=True),
        [(n(32, 2), c, n(1000, 9)), (c, c, 5)],
    )
    yield Case(
        "Convolution 3D",
        lambda x, w: nd.Convolution(x, w, kernel=(3, 3, 3), num_filter=n(16, 2), no_bias=True),
        [(2, n(8, 2), n(16, 4), n(28, 5), n(28, 5)), (n(16, 2), n(8, 2), 3, 3, 3)],
    )
    yield Case(
        "Deconvolution",
        lambda x, w: nd.Deconvolution(x, w, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=c),
        [images, (c, c, 4, 4)],
    )
    yield Case("Pooling max", pool("max"), [images], half=True)
    yield Case("Pooling max, full", pool("max", pooling_convention="full"), [images])
    yield Case("Pooling avg", pool("avg"), [images], half=True)
    yield Case("Pooling avg without padding", pool("avg", count_include_pad=False), [images])
    yield Case("Pooling global", lambda x: nd.Pooling(x, pool_type="avg", global_pool=True), [images])
    yield Case(
        "FullyConnected",
        lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=width),
        [(n(512, 3), n(2048, 9)), (width, n(2048, 9)), (width,)],
        half=True,
    )
    yield Case("dot", nd.dot, [(n(700, 3), n(900, 5)), (n(900, 5), n(500, 4))], half=True)
    yield Case(
        "dot transposed",
        lambda a, b: nd.dot(a, b, transpose_a=True, transpose_b=True),
        [(n(900, 5), n(700, 3)), (n(500, 4), n(900, 5))],
    )
    yield Case("batch_dot", nd.batch_dot, [(n(96, 2), n(128, 3), 64), (n(96, 2), 64, n(128, 3))], half=True)
    yield Case(
        "Embedding",
        lambda w, x: nd.Embedding(x, w, input_dim=words, output_dim=n(256, 4)),
        [(words, n(256, 4))],
        [random.randint(0, words, (n(64, 2), n(35, 3)))],
    )
    yield Case("take", lambda w, x: nd.take(w, x), [(words, n(64, 4))], [random.randint(0, words, tokens)])
    yield Case("pick", lambda x, i: nd.pick(x, i), [(tokens, width)], [random.randint(0, width, tokens)])
    yield Case("one_hot", lambda i: nd.one_hot(i, width), [], [random.randint(0, width, tokens)], differentiable=0)
    yield Case(
        "gather_nd",
        lambda x, i: nd.gather_nd(x, i),
        [(tokens, width)],
        [np.stack([random.randint(0, tokens, 1000), random.randint(0, width, 1000)])],
    )
    yield Case("topk", lambda x: nd.topk(x, k=5, ret_typ="value"), [(n(256, 3), words if FULL else 11)])
    yield Case("sort", lambda x: nd.sort(x, axis=0), [(n(100000, 70), 2)])
    yield Case("argsort", lambda x: nd.argsort(x), [(n(50, 2), n(5000, 70))], differentiable=0)
    yield Case("broadcast_add", nd.broadcast_add, [images, (1, c, 1, 1)])
    yield Case("broadcast_mul of rows", nd.broadcast_mul, [(tokens, width), (1, width)], half=True)
    yield Case("broadcast_div of columns", lambda a, b: nd.broadcast_div(a, b * b + 1), [(tokens, width), (tokens, 1)])
    yield Case("transpose", lambda x: nd.transpose(x, (0, 2, 3, 1)), [images], half=True)
    yield Case("SwapAxis", lambda x: nd.SwapAxis(x, 0, 1), [(tokens, width)])
    yield Case("concat", lambda a, b: nd.concat(a, b, dim=1), [images, images])
    yield Case("split", lambda x: nd.split(x, 2, axis=1)[1], [images])
    yield Case("slice", lambda x: nd.slice(x, begin=(1, 1), end=(None, -1), step=(1, 2)), [(tokens, width)])
    yield Case("pad", lambda x: nd.pad(x, mode="edge", pad_width=(0, 0, 0, 0, 2, 2, 1, 3)), [images])
    yield Case("where", lambda a, b: nd.where(a > b, a, b * 2), [(wide,), (wide,)])
    yield Case("clip", lambda x: nd.clip(x, -0.5, 0.5), [(wide,)])
    yield Case("elementwise", lambda x: nd.tanh(x) * nd.sigmoid(x) + nd.exp(-x * x) + nd.relu(x), [(wide,)], half=True)
    yield Case("gelu", lambda x: nd.LeakyReLU(x, act_type="gelu"), [(wide,)], half=True)
    yield Case("UpSampling", lambda x: nd.UpSampling(x, scale=2, sample_type="nearest"), [images])
    yield Case(
        "SequenceMask",
        lambda x, l: nd.SequenceMask(x, l, use_sequence_length=True),
        [(n(100, 4), n(64, 3), width)],
        [1 + np.arange(n(64, 3)) % 4],
    )
    yield rnn("lstm", 4, 2, n(200, 3), n(100, 4))
    yield rnn("gru", 3, 2, n(200, 3), n(100, 4))
    yield Case("cumsum of squares", lambda x: nd.sum(nd.square(x), axis=1, keepdims=True) * x, [(tokens, width)])
    yield Case(
        "ctc_loss", lambda x, y: nd.ctc_loss(x, y), [(n(60, 5), n(16, 2), 30)], [1 + np.arange(n(16, 2) * 4).reshape(-1, 4) % 29]
    )


def apart(case, dtype):
    """The largest relative distance of the output and the gradients."""
    cpu, gpu = case.compute(mx.cpu(), dtype), case.compute(mx.gpu(0), dtype)
    assert all(np.isfinite(x).all() for x in cpu)
    return max(np.linalg.norm(b - a) / max(np.linalg.norm(a), 1e-30) for a, b in zip(cpu, gpu))


def main():
    os.environ["GLUOND_SERVER"] = str(processes.ROOT / "bin/server")  # Which the client starts for itself.
    found = count.Count()
    for case in cases():
        for dtype in list(ALLOWED) if case.half else ["float32"]:
            try:
                distance = apart(case, dtype)
                found.check(f"{case.name}, {dtype}: {distance:.1e} apart, allowed {ALLOWED[dtype]:.1e}", distance <= ALLOWED[dtype])
            except Exception as error:  # One case's error is one failure; the next case still says how it is.
                found.check(f"{case.name}, {dtype}: {type(error).__name__}: {str(error)[:300]}", False)
    found.end()


if __name__ == "__main__":
    main()
