"""Networks that nobody has thought of: symbols of random operators, kernels, channels and shapes.

    network = random_networks.images(seed=7)      # Or sequences(seed).
    network.symbol, network.shape                 # The shape of a row of the variable `data`.
    values = network.values(rows=3)               # The values of all variables, by name.

The same seed makes the same network. Nothing in it needs an operator that draws random numbers.
"""

import random

import gluond as mx
import numpy as np
from gluond import sym

_CHANNELS = (1, 2, 3, 4, 6, 8, 12, 15, 16, 20, 24, 31, 32, 33, 40, 48, 50, 64, 72, 96, 100, 128, 130, 200, 256, 300)
_LARGEST = 120_000  # Elements of two rows.


class Network:
    """A symbol that grows. symbol: what it has come to."""

    def __init__(self, seed, shape):
        self.random, self.shape = random.Random(seed), shape
        self.symbol = sym.var("data")
        self._seed = seed
        self._earlier = []

    def choose(self, *of):
        return self.random.choice(of)

    def shape_of(self, symbol=None, rows=2):
        return (self.symbol if symbol is None else symbol).infer_shape(data=(rows, *self.shape))[1][0]

    def earlier(self, axes):
        """The symbols so far with this one's size along these axes."""
        own = self.shape_of()
        return [
            each
            for each in self._earlier
            if len(self.shape_of(each)) == len(own) and all(self.shape_of(each)[axis] == own[axis] for axis in axes)
        ]

    def grow(self, layers, steps):
        """Adds layers: functions of a Network that return its next symbol, or None where they do not fit."""
        for _ in range(steps):
            grown = self.choose(*layers)(self)
            if grown is None or np.prod(self.shape_of(grown)) > _LARGEST:
                continue
            self._earlier.append(self.symbol)
            self.symbol = grown

    def values(self, rows):
        """Values of about 1 for everything, in float32."""
        draw = np.random.RandomState(self._seed)
        arguments, _, auxiliary = self.symbol.infer_shape(data=(rows, *self.shape))
        found = {}
        for name, shape in [*zip(self.symbol.list_arguments(), arguments), *zip(self.symbol.list_auxiliary_states(), auxiliary)]:
            drawn = draw.randn(*shape)
            if name.endswith("weight"):
                drawn *= 0.3 if len(shape) == 1 else np.sqrt(2 / np.prod(shape[1:]))
            elif name.endswith("gamma"):
                drawn = 1 + 0.1 * drawn
            elif name.endswith("var"):
                drawn = 0.5 + np.abs(drawn)
            elif name != "data":
                drawn *= 0.1
            found[name] = drawn.astype("float32")
        return found


def _convolution(net):
    _, channels, *size = net.shape_of()
    kernel = net.choose((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 3), (3, 1), (2, 2), (7, 7))
    dilate = net.choose((1, 1), (1, 1), (1, 1), (1, 1), (2, 2))
    pad = [net.choose(0, (taps - 1) // 2 * apart) for taps, apart in zip(kernel, dilate)]
    if any(n + 2 * p <= d * (k - 1) for n, p, d, k in zip(size, pad, dilate, kernel)):
        return None
    groups = net.choose(1, 1, 1, 1, 1, channels, *(n for n in (2, 3, 4, 8) if channels % n == 0))
    filters = net.choose(groups, *(n for n in _CHANNELS if n % groups == 0))
    return sym.Convolution(
        net.symbol,
        kernel=kernel,
        stride=net.choose((1, 1), (1, 1), (2, 2), (1, 2)),
        pad=pad,
        dilate=dilate,
        num_filter=filters,
        num_group=groups,
        no_bias=net.choose(True, False),
    )


def _deconvolution(net):
    _, channels, *size = net.shape_of()
    kernel, stride, pad = net.choose((2, 2), (3, 3), (4, 4)), net.choose((1, 1), (2, 2)), net.choose((0, 0), (1, 1))
    if np.prod(size) > 400 or any((n - 1) * s - 2 * p + k < 1 for n, s, p, k in zip(size, stride, pad, kernel)):
        return None
    groups = net.choose(1, 1, *(n for n in (2, 4) if channels % n == 0))
    return sym.Deconvolution(
        net.symbol,
        kernel=kernel,
        stride=stride,
        pad=pad,
        num_filter=groups * net.choose(1, 3, 8, 20),
        num_group=groups,
        no_bias=net.choose(True, False),
    )


def _pooling(net):
    size = net.shape_of()[2:]
    kernel = net.choose((2, 2), (3, 3), (1, 2), (3, 2))
    pad = net.choose((0, 0), (0, 0), tuple(k // 2 for k in kernel))
    if any(n + 2 * p < k for n, p, k in zip(size, pad, kernel)):
        return None
    return sym.Pooling(
        net.symbol,
        kernel=kernel,
        stride=net.choose((1, 1), (2, 2), (2, 1)),
        pad=pad,
        pool_type=net.choose("max", "avg", "sum"),
        pooling_convention=net.choose("valid", "full"),
        count_include_pad=net.choose(True, False),
    )


def _batch_norm(net):
    return sym.BatchNorm(
        net.symbol, fix_gamma=net.choose(True, False, False), use_global_stats=net.choose(True, False, False), eps=1e-3
    )


def _activation(net):
    kind = net.choose("relu", "relu", "sigmoid", "tanh", "softrelu", "leaky", "elu", "prelu", "gelu", "clip")
    if kind == "clip":
        return sym.clip(net.symbol, -1, net.choose(1, 6))
    if kind in ("leaky", "elu", "prelu", "gelu"):
        return sym.LeakyReLU(net.symbol, act_type=kind, slope=0.2)
    return sym.Activation(net.symbol, act_type=kind)


def _sum(net):
    others = net.earlier(range(len(net.shape_of())))
    return net.symbol + net.choose(*others) if others else net.symbol * net.choose(0.5, 2.0, -1.0)


def _join(net):
    others = net.earlier((0, 2, 3))
    return sym.Concat(net.symbol, *(net.choose(*others) for _ in range(net.choose(1, 2))), dim=1) if others else None


def _gate(net):
    """As squeeze and excitation: each channel times a number that all of them decide."""
    mean = sym.Pooling(net.symbol, global_pool=True, kernel=(1, 1), pool_type="avg")
    gate = sym.Activation(sym.FullyConnected(mean, num_hidden=net.shape_of()[1]), act_type="sigmoid")
    return sym.broadcast_mul(net.symbol, sym.reshape(gate, shape=(0, 0, 1, 1)))


def _move(net):
    channels = net.shape_of()[1]
    return net.choose(
        lambda: sym.transpose(net.symbol, axes=(0, 1, 3, 2)),
        lambda: sym.slice_axis(net.symbol, axis=1, begin=0, end=(channels + 1) // 2),
        lambda: sym.UpSampling(net.symbol, scale=2, sample_type="nearest"),
        lambda: sym.Pad(net.symbol, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 0, 2)),
        lambda: sym.LRN(net.symbol, nsize=3),
        lambda: sym.InstanceNorm(net.symbol),
        lambda: sym.L2Normalization(net.symbol, mode=net.choose("instance", "channel", "spatial")),
    )()


def images(seed):
    """A network of images."""
    draw = random.Random(seed)
    size = draw.choice(((1, 1), (5, 5), (7, 9), (8, 8), (12, 12), (16, 11), (28, 28), (33, 20)))
    net = Network(seed, (draw.choice((1, 2, 3, 4, 7, 8, 16, 24)), *size))
    net.grow(
        [_convolution] * 6 + [_batch_norm, _activation] * 2 + [_pooling, _sum] * 2 + [_join, _gate, _deconvolution, _move],
        net.random.randint(3, 20),
    )
    if net.choose(True, False):
        net.symbol = sym.mean(net.symbol, axis=(2, 3))
    if net.choose(True, True, False):
        net.symbol = sym.FullyConnected(net.symbol, num_hidden=net.choose(1, 3, 10, 37, 100))
    if net.choose(True, False, False):
        net.symbol = sym.softmax(net.symbol, axis=1)
    return net


def _dense(net):
    return sym.FullyConnected(
        net.symbol, num_hidden=net.choose(1, 4, 8, 16, 31, 64, 96), flatten=False, no_bias=net.choose(True, False, False)
    )


def _layer_norm(net):
    return sym.LayerNorm(net.symbol, axis=net.choose(-1, -1, 1))


def _attention(net):
    width = net.shape_of()[2]
    heads = net.choose(*(n for n in (1, 2, 4) if width % n == 0))

    def split():
        projected = sym.FullyConnected(net.symbol, num_hidden=width, flatten=False)
        parts = sym.transpose(sym.reshape(projected, shape=(0, 0, heads, width // heads)), axes=(0, 2, 1, 3))
        return sym.reshape(parts, shape=(-3, -2))

    weights = sym.softmax(sym.batch_dot(split(), split(), transpose_b=True) / np.sqrt(width / heads), axis=-1)
    joined = sym.transpose(sym.reshape(sym.batch_dot(weights, split()), shape=(-4, -1, heads, 0, 0)), axes=(0, 2, 1, 3))
    return net.symbol + sym.FullyConnected(sym.reshape(joined, shape=(0, 0, -3)), num_hidden=width, flatten=False)


def _recurrent(net):
    mode, size = net.choose("lstm", "gru", "rnn_tanh", "rnn_relu"), net.choose(1, 4, 8, 16, 20, 33)
    layers, both = net.choose(1, 1, 2), net.choose(True, False, False)
    steps = sym.swapaxes(net.symbol, dim1=0, dim2=1)
    zeros = sym.tile(0 * sym.mean(steps, axis=(0, 2), keepdims=True), reps=(layers * (1 + both), 1, size))
    name = f"rnn{len(net.symbol.list_arguments())}"
    cell = {"state_cell": zeros} if mode == "lstm" else {}
    found = sym.RNN(
        data=steps,
        parameters=sym.var(f"{name}_parameters_weight"),
        state=zeros,
        state_size=size,
        num_layers=layers,
        mode=mode,
        bidirectional=both,
        name=name,
        **cell,
    )
    return sym.swapaxes(found, dim1=0, dim2=1)


def _of_steps(net):
    steps = net.shape_of()[1]
    return net.choose(
        lambda: sym.concat(net.symbol, sym.reverse(net.symbol, axis=1), dim=2),
        lambda: sym.broadcast_mul(net.symbol, sym.sigmoid(sym.mean(net.symbol, axis=1, keepdims=True))),
        lambda: sym.slice_axis(net.symbol, axis=1, begin=0, end=(steps + 1) // 2),
        lambda: sym.log_softmax(net.symbol, axis=net.choose(-1, 1)),
        lambda: sym.where(net.symbol > 0.1, sym.exp(sym.clip(net.symbol, -2, 2)), sym.abs(net.symbol)),
        lambda: sym.swapaxes(
            sym.Convolution(sym.swapaxes(net.symbol, dim1=1, dim2=2), kernel=(3,), pad=(1,), num_filter=net.choose(4, 16, 20)),
            dim1=1,
            dim2=2,
        ),
    )()


def sequences(seed):
    """A network of sequences of vectors."""
    draw = random.Random(seed)
    net = Network(seed, (draw.choice((1, 2, 5, 7, 16, 35)), draw.choice((1, 3, 4, 8, 15, 16, 32, 50, 64))))
    net.grow([_dense, _recurrent, _attention] * 2 + [_layer_norm, _activation, _sum, _of_steps], net.random.randint(2, 12))
    if net.choose(True, False):
        net.symbol = net.choose(sym.mean, sym.max)(net.symbol, axis=1)
    if net.choose(True, False):
        net.symbol = sym.FullyConnected(net.symbol, num_hidden=net.choose(1, 3, 10, 37), flatten=net.choose(True, False))
    return net


def model(network, name, values):
    """The network as a model of the server, with these values."""
    block = mx.gluon.SymbolBlock([network.symbol], [sym.var("data")])
    for parameter in block.collect_params().values():
        parameter.shape = values[parameter.name].shape
        parameter.initialize(mx.init.Zero(), force_reinit=True)
        parameter.set_data(mx.nd.array(values[parameter.name]))
    return mx.remote.Model.define(name, block, inputs=(-1, *network.shape), replace=True)
