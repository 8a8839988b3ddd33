"""Layers against numpy, operator by operator and as graphs."""

import math
import unittest

import gluond as mx
import numpy as np
from gluond import autograd, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase

RANDOM = np.random.RandomState(0)
IMAGE = RANDOM.uniform(-1, 1, (2, 4, 6, 5))
MATRIX = RANDOM.uniform(-1, 1, (3, 5))


def normalized(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def erf(x):
    return np.vectorize(math.erf)(x)


def windows(x, size, stride, reduce):
    rows = (x.shape[2] - size) // stride + 1
    columns = (x.shape[3] - size) // stride + 1
    return np.stack(
        [
            np.stack(
                [reduce(x[:, :, i * stride : i * stride + size, j * stride : j * stride + size], (2, 3)) for j in range(columns)],
                -1,
            )
            for i in range(rows)
        ],
        -2,
    )


# Layers without parameters: input, output.
PLAIN = {
    "relu": (nn.Activation("relu"), IMAGE, np.maximum(IMAGE, 0)),
    "softrelu": (nn.Activation("softrelu"), IMAGE, np.log1p(np.exp(IMAGE))),
    "softsign": (nn.Activation("softsign"), IMAGE, IMAGE / (1 + abs(IMAGE))),
    "leaky": (nn.LeakyReLU(0.2), IMAGE, np.where(IMAGE > 0, IMAGE, 0.2 * IMAGE)),
    "prelu": (nn.PReLU(), IMAGE, np.where(IMAGE > 0, IMAGE, 0.25 * IMAGE)),
    "elu": (nn.ELU(0.7), IMAGE, np.where(IMAGE > 0, IMAGE, 0.7 * (np.exp(IMAGE) - 1))),
    "selu": (nn.SELU(), IMAGE, 1.0507010 * np.where(IMAGE > 0, IMAGE, 1.6732632 * (np.exp(IMAGE) - 1))),
    "gelu": (nn.GELU(), IMAGE, IMAGE / 2 * (1 + erf(IMAGE / math.sqrt(2)))),
    "swish": (nn.Swish(1.5), IMAGE, IMAGE / (1 + np.exp(-1.5 * IMAGE))),
    "flatten": (nn.Flatten(), IMAGE, IMAGE.reshape(2, -1)),
    "lambda": (nn.HybridLambda(lambda F, x: F.square(x)), IMAGE, IMAGE**2),
    "lambda by name": (nn.HybridLambda("tanh"), IMAGE, np.tanh(IMAGE)),
    "dropout, not training": (nn.Dropout(0.5), IMAGE, IMAGE),
    "largest": (nn.MaxPool2D(2), IMAGE, windows(IMAGE, 2, 2, np.max)),
    "largest of overlapping": (nn.MaxPool2D(3, 1), IMAGE, windows(IMAGE, 3, 1, np.max)),
    "mean": (nn.AvgPool2D(2), IMAGE, windows(IMAGE, 2, 2, np.mean)),
    "largest of all": (nn.GlobalMaxPool2D(), IMAGE, IMAGE.max((2, 3), keepdims=True)),
    "mean of all": (nn.GlobalAvgPool2D(), IMAGE, IMAGE.mean((2, 3), keepdims=True)),
    "mean in one dimension": (nn.AvgPool1D(2), IMAGE[0], IMAGE[0][:, :, :4].reshape(4, 6, 2, 2).mean(3)),
    "reflected": (nn.ReflectionPad2D(1), IMAGE, np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect")),
    "normalized over channels": (nn.LayerNorm(axis=1), IMAGE, normalized(IMAGE, 1)),
    "normalized over the last axis": (nn.LayerNorm(), IMAGE, normalized(IMAGE, 3)),
    "normalized instances": (nn.InstanceNorm(), IMAGE, normalized(IMAGE, (2, 3))),
    "normalized instances of an axis": (nn.InstanceNorm(axis=2), IMAGE, normalized(IMAGE, (1, 3))),
    "normalized groups": (nn.GroupNorm(2), IMAGE, normalized(IMAGE.reshape(2, 2, 2, 6, 5), (2, 3, 4)).reshape(IMAGE.shape)),
    "batch, not training": (nn.BatchNorm(), IMAGE, IMAGE / math.sqrt(1 + 1e-5)),
}


class PlainTest(ArrayCase):
    def test_values(self):
        for name, (layer, x, expected) in PLAIN.items():
            layer.initialize()
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    layer.hybridize(hybrid)
                    self.assert_close(layer(nd.array(x)), expected)


class DenseTest(ArrayCase):
    def layer(self, *args, **kwargs):
        layer = nn.Dense(*args, **kwargs)
        layer.initialize(mx.init.Normal(1))
        return layer

    def test_it_multiplies_and_adds(self):
        layer = self.layer(2, activation="tanh", bias_initializer="ones")
        y = layer(nd.array(IMAGE))
        self.assertEqual(layer.weight.shape, (2, 120))
        self.assert_close(y, np.tanh(IMAGE.reshape(2, -1) @ layer.weight.data().asnumpy().T + 1))

    def test_it_keeps_other_axes(self):
        layer = self.layer(2, use_bias=False, flatten=False)
        y = layer(nd.array(IMAGE))
        self.assert_close(y, IMAGE @ layer.weight.data().asnumpy().T)

    def test_it_learns(self):
        layer = self.layer(2)
        x = nd.array(MATRIX)
        with autograd.record():
            layer(x).sum().backward()
        self.assert_close(layer.weight.grad(), np.tile(MATRIX.sum(0), (2, 1)))
        self.assert_close(layer.bias.grad(), [3, 3])


class BatchNormTest(ArrayCase):
    def test_training_normalizes_the_batch_and_remembers_it(self):
        for hybrid in (False, True):
            layer = nn.BatchNorm(momentum=0.8)
            layer.initialize()
            layer.hybridize(hybrid)
            with autograd.record():
                y = layer(nd.array(IMAGE))
            y.backward()
            self.assert_close(y, normalized(IMAGE, (0, 2, 3)), 1e-4)
            self.assert_close(layer.running_mean.data(), 0.2 * IMAGE.mean((0, 2, 3)))
            self.assert_close(layer.running_var.data(), 0.8 + 0.2 * IMAGE.var((0, 2, 3)), 1e-4)

    def test_gamma_and_beta_may_be_fixed(self):
        layer = nn.BatchNorm(scale=False, center=False)
        self.assertEqual([layer.gamma.grad_req, layer.beta.grad_req], ["null", "null"])
        layer.gamma.grad_req = "write"
        self.assertEqual(layer.gamma.grad_req, "null")

    def test_relu_follows(self):
        layer = nn.BatchNormReLU()
        layer.initialize()
        self.assert_close(layer(nd.array(IMAGE)), np.maximum(IMAGE, 0) / math.sqrt(1 + 1e-5))


class ConvolutionTest(ArrayCase):
    def test_shapes_follow_strides_padding_and_dilation(self):
        x1, x2 = nd.ones((2, 4, 9)), nd.ones((2, 4, 9, 7))
        for layer, x, weight, shape in (
            (nn.Conv1D(6, 3, strides=2, padding=1), x1, (6, 4, 3), (2, 6, 5)),
            (nn.Conv2D(6, (3, 2), padding=(1, 0), groups=2), x2, (6, 2, 3, 2), (2, 6, 9, 6)),
            (nn.Conv2D(6, 3, dilation=2, use_bias=False), x2, (6, 4, 3, 3), (2, 6, 5, 3)),
            (nn.Conv2DTranspose(6, 3, strides=2, padding=1, output_padding=1, groups=2), x2, (4, 3, 3, 3), (2, 6, 18, 14)),
            (nn.Conv1DTranspose(6, 3, strides=2), x1, (4, 6, 3), (2, 6, 19)),
            (nn.Conv3D(2, 3, padding=1), nd.ones((1, 4, 5, 6, 7)), (2, 4, 3, 3, 3), (1, 2, 5, 6, 7)),
        ):
            with self.subTest(repr(layer)):
                layer.initialize()
                layer.hybridize()
                self.assertEqual(layer(x).shape, shape)
                self.assertEqual(layer.weight.shape, weight)

    def test_values_in_one_dimension(self):
        layer = nn.Conv1D(1, 2, activation="relu", in_channels=1)
        layer.initialize()
        layer.weight.set_data(nd.array([[[1, -1]]]))
        self.assert_equal(layer(nd.array([[[3, 1, 2, 0]]])), [[[2, 0, 2]]])

    def test_the_transposed_layer_is_the_gradient(self):
        layer = nn.Conv2DTranspose(3, 3, strides=2, use_bias=False, in_channels=4)
        layer.initialize(mx.init.Normal(1))
        x = nd.array(IMAGE)
        y = layer(x)
        probe = nd.array(RANDOM.randn(*y.shape))
        back = nd.Convolution(probe, layer.weight.data(), kernel=(3, 3), stride=(2, 2), num_filter=4, no_bias=True)
        self.assert_close((y * probe).sum(), (x * back).sum().asnumpy(), 1e-4)

    def test_pooling_with_channels_last_is_pooling_of_the_transposed(self):
        x = nd.random.uniform(shape=(2, 3, 6, 5))
        for kind, how in (
            (nn.MaxPool2D, {"pool_size": 2}),
            (nn.AvgPool2D, {"pool_size": 3, "strides": 1, "padding": 1}),
            (nn.GlobalAvgPool2D, {}),
        ):
            last = kind(layout="NHWC", **how)(x.transpose((0, 2, 3, 1)))
            self.assert_close(last.transpose((0, 3, 1, 2)), kind(**how)(x).asnumpy())
        self.assertEqual(nn.MaxPool1D(layout="NWC")(nd.ones((2, 6, 3))).shape, (2, 3, 3))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(ValueError, "kernel_size must be a number or 2 numbers"):
            nn.Conv2D(3, (1, 2, 3))
        with self.assertRaisesRegex(AssertionError, "Conv2D supports the layouts NCHW, NHWC, not NCW"):
            nn.Conv2D(3, 3, layout="NCW")


class EmbeddingTest(ArrayCase):
    def test_it_looks_up_rows_and_learns_them(self):
        layer = nn.Embedding(4, 2)
        layer.initialize(mx.init.Constant(np.arange(8).reshape(4, 2)))
        with autograd.record():
            y = layer(nd.array([[1, 3], [3, 0]]))
        y.backward()
        self.assert_equal(y, [[[2, 3], [6, 7]], [[6, 7], [0, 1]]])
        self.assert_equal(layer.weight.grad(), [[1, 1], [1, 1], [0, 0], [2, 2]])


class DropoutTest(ArrayCase):
    def test_training_drops_and_scales(self):
        layer = nn.Dropout(0.25)
        with autograd.record():
            y = layer(nd.ones((100, 100)))
        values = y.asnumpy()
        np.testing.assert_allclose(np.unique(values), [0, 4 / 3], rtol=1e-6)
        self.assertAlmostEqual((values == 0).mean(), 0.25, delta=0.03)

    def test_axes_share_the_mask(self):
        layer = nn.Dropout(0.5, axes=(1,))
        with autograd.record():
            values = layer(nd.ones((50, 4))).asnumpy()
        self.assertTrue((values == values[:, :1]).all())


if __name__ == "__main__":
    case_runner.main()
