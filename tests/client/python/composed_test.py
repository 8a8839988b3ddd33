"""Operators that the package makes of the server's. The figures are those of MXNet 1.9.1."""

import unittest

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._composed.shapes import NoGraph
from gluond._composed.table import COMPOSED
from tests import case_runner
from tests.client.python.array_case import ArrayCase

BOXES = nd.array([[[0, 0, 1, 1], [0, 0, 2, 2]]])
THETA = nd.array([[0.5, 0.1, 0.2, -0.1, 1, 0.3]])


def image():
    return nd.arange(16).reshape((1, 1, 4, 4))


class ImageTest(ArrayCase):
    def test_patches_become_columns_and_images_again(self):
        self.assert_close(
            nd.im2col(image(), kernel=(2, 2), stride=(2, 2)), [[[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]]
        )
        self.assert_close(
            nd.col2im(nd.ones((1, 4, 9)), output_size=(4, 4), kernel=(2, 2)),
            [[[[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]]],
        )
        columns = nd.im2col(nd.ones((2, 3, 5, 6)), kernel=(2, 3), stride=(1, 2), pad=(1, 0))
        self.assertEqual(columns.shape, (2, 18, 12))
        self.assertEqual(nd.col2im(columns, output_size=(5, 6), kernel=(2, 3), stride=(1, 2), pad=(1, 0)).shape, (2, 3, 5, 6))

    def test_grids(self):
        self.assert_close(
            nd.GridGenerator(THETA, transform_type="affine", target_shape=(2, 3)),
            [[[[-0.4, 0.1, 0.6], [-0.2, 0.3, 0.8]], [[-0.6, -0.7, -0.8], [1.4, 1.3, 1.2]]]],
        )
        flow = nd.array([[[[1, 0], [0, 0.5]], [[0, 0], [1, 0]]]])
        self.assert_close(nd.GridGenerator(flow, transform_type="warp"), [[[[1, 1], [-1, 2]], [[-1, -1], [3, 1]]]])

    def test_images_are_sampled_between_pixels(self):
        x, grid = image(), nd.GridGenerator(THETA, transform_type="affine", target_shape=(2, 3))
        x.attach_grad()
        grid.attach_grad()
        with autograd.record():
            sampled = nd.BilinearSampler(x, grid)
        sampled.backward(nd.array([[[[1, 2, 3], [4, 5, 6]]]]))
        self.assert_close(sampled, [[[[3.3, 3.45, 3.6], [5.28, 7.6725, 10.29]]]], 1e-4)
        self.assert_close(
            x.grad[0, 0], [[0.04, 0.745, 1.975, 0.84], [0.06, 0.855, 1.125, 0.36], [0, 0, 0, 0], [0, 1.4175, 4.1925, 2.94]], 1e-4
        )
        self.assert_close(grid.grad, [[[[1.5, 3, 4.5], [2.4, 4.125, 6.3]], [[6, 12, 18], [-79.2, -104.625, -132.3]]]], 1e-4)
        self.assert_close(
            nd.SpatialTransformer(x, THETA, target_shape=(2, 2), transform_type="affine", sampler_type="bilinear"),
            [[[[3.3, 3.6], [5.28, 10.29]]]],
            1e-4,
        )

    def test_correlation(self):
        y = image() + 1
        products = nd.Correlation(image(), y * y, kernel_size=1, max_displacement=1, stride1=2, stride2=1, pad_size=1)
        self.assert_close(products[0, 3:5], [[[0, 8], [0, 1000]], [[0, 18], [648, 1210]]])
        differences = nd.Correlation(image(), y, kernel_size=3, max_displacement=1, pad_size=1, is_multiply=False)
        self.assert_close(differences[0, 4:6], [[[1, 1], [1, 1]], [[2, 3.66667], [2, 5]]], 1e-4)
        x = image()
        x.attach_grad()
        with autograd.record():
            nothing = nd.Correlation(x, image(), kernel_size=1, max_displacement=0, is_multiply=False)
        nothing.backward()
        self.assert_equal(x.grad, np.ones((1, 1, 4, 4)))  # Where both are equal, too.

    def test_parts(self):
        self.assert_equal(nd.Crop(image(), offset=(1, 2), h_w=(2, 2)), [[[[6, 7], [10, 11]]]])
        self.assert_equal(nd.Crop(image(), nd.zeros((1, 1, 2, 3)), offset=(1, 0)), [[[[4, 5, 6], [8, 9, 10]]]])
        with self.assertRaisesRegex(mx.MXNetError, "give the offset"):
            nd.Crop(image(), h_w=(2, 2), center_crop=True)


def checked_gradient(case, function, x, tolerance):
    """The gradient of sum(heads * function(x)), with heads that differ, against differences of the values."""
    x.attach_grad()
    with autograd.record():
        y = function(x)
    heads = np.random.RandomState(1).uniform(0.5, 1.5, y.shape).astype(y.dtype)
    y.backward(nd.array(heads))
    expected = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape, np.float32)
        step[place] = 0.25
        above, below = (function(nd.array(values)).asnumpy().astype(float) for values in (x.asnumpy() + step, x.asnumpy() - step))
        expected[place] = (heads * (above - below)).sum() / 0.5
    case.assert_close(x.grad, expected, tolerance)


class ColorTest(ArrayCase):
    def setUp(self):
        self.pixels = np.array([[[200, 30, 90], [10, 20, 30]], [[9, 240, 120], [70, 80, 255]]], np.float32)
        self.image, self.bytes = nd.array(self.pixels), nd.array(self.pixels, dtype="uint8")

    def test_factors(self):
        gray = (self.pixels @ [0.299, 0.587, 0.114]).mean()
        for name, expected in (
            ("brightness", self.pixels * 1.5),
            ("contrast", self.pixels * 1.5 - 0.5 * gray),
            ("saturation", self.pixels * 1.5 - 0.5 * 0.114 * self.pixels[..., 2:]),
        ):  # MXNet's gray is of blue alone.
            change = getattr(nd.image, f"random_{name}")
            self.assert_close(change(self.image, min_factor=1.5, max_factor=1.5), expected, 1e-5)
            self.assert_equal(change(self.bytes, 1.5, 1.5), np.trunc(np.clip(expected, 0, 255)), np.uint8)

    def test_hue(self):
        self.assert_close(nd.image.random_hue(self.image, 1, 1), self.pixels, 1e-3)
        self.assert_close(nd.image.random_hue(self.image, 1 / 3, 1 / 3), np.roll(self.pixels, 1, axis=-1), 1e-3)
        self.assert_close(
            nd.image.random_hue(nd.array([[[0, 255, 0], [7, 7, 7]]]), 0.25, 0.25), [[[0, 127.5, 255], [7, 7, 7]]], 1e-3
        )

    def test_lighting(self):
        added = np.array(
            [
                55.46 * -0.5675 * 0.1 - 4.794 * 0.7192 * 0.2,
                55.46 * -0.5808 * 0.1 + 4.794 * 0.0045 * 0.2,
                55.46 * -0.5836 * 0.1 + 4.794 * 0.6948 * 0.2,
            ]
        )
        self.assert_close(nd.image.adjust_lighting(self.image, alpha=(0.1, -0.2, 0)), self.pixels + added, 1e-5)
        self.assert_close(nd.image.random_lighting(self.image, alpha_std=0), self.pixels)
        drawn = [(nd.image.random_lighting(nd.zeros((1, 1, 3)))).asnumpy() for _ in range(20)]
        self.assertLess(np.abs(drawn).max(), 55.46 * 0.59 * 0.05 * 6)
        self.assertGreater(np.std(drawn), 0.3)

    def test_draws_are_within_their_bounds(self):
        mx.random.seed(3)
        factors = [nd.image.random_brightness(nd.ones((1, 1, 3)), 0.5, 2).asnumpy() for _ in range(50)]
        self.assertTrue(all(np.ptp(factor) == 0 for factor in factors))
        self.assertGreater(np.ptp(factors), 1)
        self.assertTrue(0.5 <= np.min(factors) and np.max(factors) < 2)
        mx.random.seed(3)
        self.assert_equal(nd.image.random_brightness(nd.ones((1, 1, 3)), 0.5, 2), factors[0])

    def test_all_colors_jitter(self):
        np.random.seed(0)
        settings = {"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}
        self.assert_equal(nd.image.random_color_jitter(self.image, **settings), self.pixels)
        bright = nd.image.random_color_jitter(self.image, **{**settings, "brightness": 0.4}).asnumpy() / self.pixels
        self.assertLess(np.ptp(bright), 1e-5)
        self.assertTrue(0.6 <= bright.min() and bright.max() <= 1.4)
        jittered = nd.image.random_color_jitter(self.bytes, 0.3, 0.3, 0.3, 0.1)
        self.assertEqual((jittered.dtype, jittered.shape), (np.uint8, (2, 2, 3)))
        self.assertGreater(np.abs(jittered.asnumpy().astype(float) - self.pixels).max(), 1)
        with self.assertRaisesRegex(NoGraph, "draws how"):
            mx.sym.image.random_color_jitter(mx.sym.var("x"), 0, 0, 0, 0)

    def test_gray_images_have_no_colors(self):
        gray = nd.array([[[1], [3]]])
        for change in (
            lambda: nd.image.random_hue(gray, 0.3, 0.3),
            lambda: nd.image.random_saturation(gray, 2, 2),
            lambda: nd.image.adjust_lighting(gray, (1, 1, 1)),
        ):
            self.assert_equal(change(), [[[1], [3]]])
        self.assert_close(nd.image.random_contrast(gray, 2, 2), [[[0], [4]]])

    def test_sizes(self):
        self.assert_close(
            nd.image.resize(nd.arange(4).reshape((2, 2, 1)), size=(4, 3))[:, :, 0],
            [[0, 0.25, 0.75, 1], [1, 1.25, 1.75, 2], [2, 2.25, 2.75, 3]],
        )
        wide = nd.ones((4, 8, 1))
        for image, how, shape in (
            (wide, {"size": 6, "keep_ratio": True}, (6, 12, 1)),
            (wide, {"size": 6}, (6, 6, 1)),
            (nd.ones((2, 4, 8, 1)), {"size": (3, 5)}, (2, 5, 3, 1)),
            (nd.ones((9, 3, 3), dtype="uint8"), {"size": 2, "keep_ratio": True}, (6, 2, 3)),
        ):
            resized = nd.image.resize(image, **how)
            self.assertEqual((resized.shape, resized.dtype), (shape, image.dtype))
        with self.assertRaisesRegex(mx.MXNetError, "imresize has other ways"):
            nd.image.resize(wide, size=6, interp=2)
        with self.assertRaisesRegex(mx.MXNetError, "give size="):
            mx.sym.image.resize(mx.sym.var("x"), size=6, keep_ratio=True)

    def test_gradients(self):
        for change in (
            lambda x: nd.image.random_brightness(x, 1.5, 1.5),
            lambda x: nd.image.random_contrast(x, 0.5, 0.5),
            lambda x: nd.image.random_saturation(x, 0.5, 0.5),
            lambda x: nd.image.random_hue(x, 0.4, 0.4),
            lambda x: nd.image.adjust_lighting(x, (0.1, 0.2, 0.3)),
            lambda x: nd.image.resize(x, (3, 5)),
        ):
            checked_gradient(self, change, nd.array(self.pixels), 2e-2)

    def test_symbols_compute_the_same(self):
        x = mx.sym.var("x")
        for change in (
            lambda F, x: F.image.random_contrast(x, 0.5, 0.5),
            lambda F, x: F.image.random_hue(x, 0.4, 0.4),
            lambda F, x: F.image.adjust_lighting(x, alpha=(1, 2, 3)),
            lambda F, x: F.image.resize(x, size=(3, 5)),
            lambda F, x: F.image.random_saturation(x, 2, 2),
            lambda F, x: F.image.random_brightness(x, 2, 2),
        ):
            for image in (self.image, self.bytes):
                found = change(mx.sym, x).eval(x=image)[0]
                expected = change(nd, image)
                self.assertEqual(found.dtype, expected.dtype)
                self.assert_close(found, expected.asnumpy())
        batch = nd.array(np.random.RandomState(0).uniform(0, 255, (2, 4, 5, 3)))
        self.assert_close(mx.sym.image.resize(x, size=7).eval(x=batch)[0], nd.image.resize(batch, size=7).asnumpy())


class SeveralWeightsTest(ArrayCase):
    """Optimizers' steps on several weights, against the formulas in numpy."""

    def arrays(self, dtype="float32"):
        return [nd.array(self.random.uniform(-1, 1, shape), dtype=dtype) for shape in ((2, 3), (4,))]

    def setUp(self):
        self.random = np.random.RandomState(2)

    def test_lamb(self):
        for is_half in (False, True):
            weights, grads, means, variances = (self.arrays() for _ in range(4))
            variances = [array * array for array in variances]
            copies = [array.copy() for array in weights]
            if is_half:
                weights = [array.astype("float16") for array in weights]
            before = [[array.asnumpy() for array in arrays] for arrays in (weights, copies, grads, means, variances)]
            step = {"step_count": [1, 3], "lrs": [0.1, 0.2], "wds": [0.01, 0], "out": weights, "beta1": 0.8, "epsilon": 1e-3}
            if is_half:
                grads = [array.astype("float16") for array in grads]
                nd.contrib.multi_mp_lamb_update(weights, grads, means, variances, copies, **step)
            else:
                nd.contrib.multi_lamb_update(weights, grads, means, variances, **step)
            for number, (weight, copy, g, mean, variance) in enumerate(zip(*before)):
                g = grads[number].asnumpy().astype(np.float32)
                mean, variance, count = 0.8 * mean + 0.2 * g, 0.999 * variance + 0.001 * g * g, step["step_count"][number]
                moved = mean / (1 - 0.8**count) / (np.sqrt(variance / (1 - 0.999**count)) + 1e-3) + step["wds"][number] * copy
                ratio = np.linalg.norm(weight.astype(float)) / np.linalg.norm(moved)
                self.assert_close(copies[number] if is_half else weights[number], copy - step["lrs"][number] * ratio * moved, 1e-4)
                self.assert_close(means[number], mean, 1e-5)
                self.assert_close(variances[number], variance, 1e-5)
                self.assert_close(weights[number], copy - step["lrs"][number] * ratio * moved, 2e-3 if is_half else 1e-4)

    def test_rates_in_arrays(self):
        lrs, wds = nd.array([0.1, 0.2]), nd.array([0.01, 0.3])
        for has_momentum in (False, True):
            for is_half in (False, True):
                weights, grads = (self.arrays("float16" if is_half else "float32") for _ in range(2))
                states = [self.arrays()] * has_momentum
                copies = [array.astype("float32") for array in weights]
                before = [[array.asnumpy().astype(np.float32) for array in arrays] for arrays in (weights, grads, *states)]
                function = getattr(nd, f"preloaded_multi_{'mp_' * is_half}sgd{'_mom' * has_momentum}_update")
                momentum = {"momentum": 0.9} if has_momentum else {}
                arrays = [array for group in zip(weights, grads, *states, *[copies] * is_half) for array in group]
                function(*arrays, lrs, wds, num_weights=2, rescale_grad=0.5, clip_gradient=0.2, out=weights, **momentum)
                for number, (weight, grad, *velocity) in enumerate(zip(*before)):
                    change = lrs.asnumpy()[number] * (np.clip(0.5 * grad, -0.2, 0.2) + wds.asnumpy()[number] * weight)
                    change = 0.9 * velocity[0] - change if has_momentum else -change
                    self.assert_close(weights[number], weight + change, 2e-3 if is_half else 1e-6)
                    if is_half:
                        self.assert_close(copies[number], weight + change, 1e-6)
                    if has_momentum:
                        self.assert_close(states[0][number], change, 1e-6)


class FourierTest(ArrayCase):
    def test_transforms(self):
        for shape in ((3, 7), (2, 2, 3, 8)):
            x = np.random.RandomState(0).uniform(-1, 1, shape)
            found, expected = nd.contrib.fft(nd.array(x)), np.fft.fft(x)
            self.assert_close(found, np.stack([expected.real, expected.imag], -1).reshape(shape[:-1] + (-1,)), 1e-5)
            self.assert_close(nd.contrib.ifft(found) / shape[-1], x, 1e-5)
        long = np.random.RandomState(0).uniform(-1, 1, (1, 1500))
        self.assert_close(nd.contrib.fft(nd.array(long))[0, ::2], np.fft.fft(long)[0].real, 1e-3)

    def test_gradients(self):
        for function in (nd.contrib.fft, nd.contrib.ifft):
            checked_gradient(self, function, nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 6))), 1e-4)


class MatrixTest(ArrayCase):
    def test_products_of_columns(self):
        self.assert_equal(
            nd.khatri_rao(nd.array([[1, 2], [3, 4]]), nd.array([[5, 6], [7, 8]])), [[5, 12], [7, 16], [15, 24], [21, 32]]
        )

    def test_sketches(self):
        h, s = nd.array([[0, 2, 2, 1]]), nd.array([[1, -1, 1, -1]])
        x = nd.array([[1, 2, 3, 4], [5, 6, 7, 9]])
        self.assert_equal(nd.contrib.count_sketch(x, h, s, out_dim=4), [[1, -4, 1, 0], [5, -9, 1, 0]])
        self.assert_equal(
            nd.contrib.count_sketch(x.reshape((1, 2, 1, 4)), h, s, out_dim=4).reshape((2, 4)), [[1, -4, 1, 0], [5, -9, 1, 0]]
        )
        checked_gradient(self, lambda data: nd.contrib.count_sketch(data, h, s, out_dim=4), x, 1e-4)

    def test_triangles(self):
        x = nd.arange(9).reshape((1, 3, 3))
        for how, packed in (
            ({}, [0, 3, 4, 6, 7, 8]),
            ({"offset": 1}, [1, 2, 5]),
            ({"offset": -1}, [3, 6, 7]),
            ({"lower": False}, [0, 1, 4, 2, 5, 8]),
        ):
            found = nd.linalg.extracttrian(x, **how)
            self.assert_equal(found, [packed])
            whole = nd.linalg.maketrian(found, **how)
            self.assert_equal(nd.linalg.extracttrian(whole, **how), [packed])
            self.assertEqual(whole.sum().asscalar(), sum(packed))

    def test_factors_with_orthonormal_rows(self):
        a = nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 3, 5)), dtype="float64")
        rows, triangle = nd.linalg.gelqf(a)
        self.assert_close(nd.linalg.gemm2(triangle, rows), a.asnumpy(), 1e-10)
        self.assert_close(nd.linalg.gemm2(rows, rows, transpose_b=True), np.broadcast_to(np.eye(3), (2, 3, 3)), 1e-10)
        self.assert_close(triangle, np.tril(triangle.asnumpy()))


class BoxTest(ArrayCase):
    def test_offsets_from_anchors(self):
        refs = nd.array([[[0, 0, 1, 1], [1, 1, 3, 4]]])
        offsets, masks = nd.contrib.box_encode(
            nd.array([[1, 0]]), nd.array([[1, 0]]), BOXES, refs, nd.array([0.1, 0, 0, 0]), nd.array([0.5, 1, 1, 1])
        )
        self.assert_close(offsets, [[[2.8, 2, 0.69315, 1.09861], [0, 0, 0, 0]]], 1e-4)
        self.assert_equal(masks, [[[1, 1, 1, 1], [0, 0, 0, 0]]])

    def test_boxes_of_offsets(self):
        data = nd.array([[[1, 2, 0.1, 3], [0, 0, 0, 0]]])
        self.assert_close(
            nd.contrib.box_decode(data, BOXES, std0=0.5, clip=1, format="corner"),
            [[[0.44741, 1.14086, 1.55259, 3.85914], [0, 0, 2, 2]]],
            1e-4,
        )
        self.assert_close(nd.contrib.box_decode(data[:, :1], BOXES[:, :1]), [[[0.44741, -8.04277, 1.55259, 12.04277]]], 1e-4)

    def test_pairs_by_scores(self):
        scores = nd.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]])
        for how, rows, columns in (
            ({"threshold": 1e-12}, [1, -1, 0], [2, 0]),
            ({"threshold": 1, "is_ascend": True, "topk": 1}, [-1, 0, 1], [1, 2]),
        ):
            found = nd.contrib.bipartite_matching(scores, **how)
            self.assert_equal(found[0], rows)
            self.assert_equal(found[1], columns)


class DeformableTest(ArrayCase):
    def test_convolutions_read_where_offsets_say(self):
        def made(function, *shape):
            return nd.array(function(np.arange(np.prod(shape))).reshape(shape))

        x, offset = made(lambda a: a / 10, 1, 2, 4, 4), made(lambda a: 1.5 * np.sin(a), 1, 16, 2, 4)
        weight, mask = made(np.cos, 4, 2, 2, 2), made(lambda a: np.sin(a) ** 2, 1, 8, 2, 4)
        how = {
            "kernel": (2, 2),
            "stride": (2, 1),
            "dilate": (1, 2),
            "pad": (0, 1),
            "num_filter": 4,
            "num_deformable_group": 2,
            "no_bias": True,
        }
        for each in (x, offset):
            each.attach_grad()
        with autograd.record():
            y = nd.contrib.DeformableConvolution(x, offset, weight, **how)
        y.backward()
        self.assertEqual(y.shape, (1, 4, 2, 4))  # The figures are MXNet's.
        self.assert_close(y[0, :2, 1], [[3.1586, 3.0876, 0.297, 2.6503], [-0.8748, 0.722, 0.3285, 2.1111]], 1e-4)
        self.assert_close(x.grad[0, 0, 3], [-0.1298, 0.3856, 0.1421, 0.3269], 1e-4)
        self.assert_close(offset.grad[0, :4, 0, 1], [0.1284, 0.0321, 0, 0], 1e-4)
        y = nd.contrib.ModulatedDeformableConvolution(x, offset, mask, weight, **how)
        self.assert_close(y[0, :2, 1], [[1.5436, 1.5683, 0.4175, -0.1149], [1.3524, -0.082, 0.3635, 1.1122]], 1e-4)
        with self.assertRaisesRegex(mx.MXNetError, "layout NCHW"):
            nd.contrib.DeformableConvolution(x, offset, weight, layout="NHWC", **how)

    def test_layers_without_offsets_are_convolutions(self):
        x = nd.array(np.random.RandomState(0).randn(2, 3, 6, 5))
        for kind in (gluon.contrib.cnn.DeformableConvolution, gluon.contrib.cnn.ModulatedDeformableConvolution):
            for use_bias in (False, True):
                net = kind(4, (3, 2), strides=(2, 1), padding=1, dilation=(1, 2), use_bias=use_bias, activation="relu", prefix="d_")
                net.initialize(mx.init.Normal(1))
                y = net(x)
                weights = [net.deformable_conv_weight.data(), *([net.deformable_conv_bias.data()] if use_bias else [])]
                expected = nd.Convolution(
                    x, *weights, kernel=(3, 2), stride=(2, 1), pad=(1, 1), dilate=(1, 2), num_filter=4, no_bias=not use_bias
                )
                self.assert_close(y, nd.relu(expected).asnumpy(), 1e-4)
                net.hybridize()
                self.assert_close(net(x), y.asnumpy())
        self.assertEqual(net.offset_weight.shape, (18, 3, 3, 2))
        self.assertEqual(
            repr(net),
            "ModulatedDeformableConvolution(3 -> 4, kernel_size=(3, 2), stride=(2, 1), padding=(1, 1), "
            "dilation=(1, 2), Activation(relu))",
        )
        with self.assertRaisesRegex(AssertionError, "layout is 'NCHW'"):
            kind(4, layout="NHWC")


class ElementTest(ArrayCase):
    def test_formulas(self):
        self.assert_equal(nd.contrib.quadratic(nd.array([[1, 2], [3, 4]]), a=1, b=2, c=3), [[6, 11], [18, 27]])
        self.assert_equal(nd.contrib.round_ste(nd.array([-1.5, 0.4, 2.5])), [-2, 0, 3])

    def test_gradients_that_are_not_those_of_the_values(self):
        for function, gradient in (
            (nd.contrib.round_ste, 1),
            (nd.contrib.sign_ste, 1),
            (lambda x: nd.contrib.gradientmultiplier(x, scalar=-0.5), -0.5),
        ):
            x = nd.array([0.3, -2.7])
            x.attach_grad()
            with autograd.record():
                y = function(x) * 2
            y.backward()
            self.assert_equal(x.grad, [gradient * 2, gradient * 2])

    def test_sync_batch_norm_tells_the_variance(self):
        x = nd.array([[1], [5]])
        with autograd.record():
            _, mean, variance = nd.contrib.SyncBatchNorm(
                x, nd.ones(1), nd.zeros(1), nd.zeros(1), nd.ones(1), key="a", output_mean_var=True, eps=0.5
            )
        self.assert_close(mean, [3])
        self.assert_close(variance, [4], 1e-5)

    def test_places(self):
        self.assert_equal(nd.contrib.index_array(nd.zeros((2, 2))), [[[0, 0], [0, 1]], [[1, 0], [1, 1]]])
        self.assert_equal(nd.contrib.index_array(nd.zeros((2, 2)), axes=(1,)), [[[0], [1]], [[0], [1]]])
        self.assert_equal(
            nd.contrib.index_copy(nd.zeros((3, 2)), nd.array([2, 0]), nd.array([[1, 2], [3, 4]])), [[3, 4], [0, 0], [1, 2]]
        )

    def test_arrays_of_any_type_become_zeros(self):
        arrays = [nd.ones(2), nd.ones((1, 3), dtype="float16")]
        nd.reset_arrays(*arrays, num_arrays=2)
        for array in arrays:
            self.assertEqual(array.sum().asscalar(), 0)

    def test_densities(self):
        sample = nd.array([[1, 2], [1, 3]])
        for name, parameters, expected in (
            ("normal", ([1, 2], [1, 0.5]), [[0.39894, 0.24197], [0.10798, 0.10798]]),
            ("gamma", ([1, 2], [1, 0.5]), [[0.36788, 0.13534], [0.15163, 0.16735]]),
            ("exponential", ([1, 0.5],), [[0.36788, 0.13534], [0.30327, 0.11157]]),
            ("poisson", ([1, 2],), [[0.36788, 0.18394], [0.27067, 0.18045]]),
            ("negative_binomial", ([1, 2], [0.4, 0.5]), [[0.24, 0.144], [0.25, 0.125]]),
        ):
            self.assert_close(getattr(nd, f"random_pdf_{name}")(sample, *map(nd.array, parameters)), expected, 1e-4)
        self.assert_close(nd.random_pdf_uniform(nd.array([[0.5, 0.7]]), nd.array([0]), nd.array([2])), [[0.5, 0.5]])
        self.assert_close(nd.random_pdf_dirichlet(nd.array([[[0.4, 0.6], [0.3, 0.7]]]), nd.array([[1, 2]])), [[1.2, 1.4]], 1e-5)
        self.assert_close(
            nd.random_pdf_generalized_negative_binomial(sample, nd.array([1, 2]), nd.array([0.4, 0.5]), is_log=True),
            [[-1.17765, -1.8708], [-1.38629, -2.07944]],
            1e-4,
        )


class SymbolTest(ArrayCase):
    def test_each_is_a_symbol_or_says_why_not(self):
        for name in COMPOSED:
            with self.subTest(name):
                self.assertTrue(callable(getattr(mx.sym._internal, name)))
        with self.assertRaisesRegex(NoGraph, "sym.contrib.index_array is no graph: it needs the shape.*runs on arrays"):
            mx.sym.contrib.index_array(mx.sym.var("x"))

    def test_symbols_compute_the_same_and_have_the_name_that_they_are_given(self):
        data, grid = image(), nd.GridGenerator(THETA, transform_type="affine", target_shape=(2, 3))
        out = mx.sym.BilinearSampler(mx.sym.var("data"), mx.sym.var("grid"), name="sampled")
        self.assertEqual(out.list_outputs(), ["sampled_output"])
        self.assertEqual(out.infer_shape(data=(2, 3, 4, 4), grid=(2, 2, 5, 6))[1], [(2, 3, 5, 6)])
        self.assert_close(out.bind(mx.cpu(), {"data": data, "grid": grid}).forward()[0], nd.BilinearSampler(data, grid).asnumpy())

    def test_arguments_of_a_symbol_stand_in_mxnets_order(self):
        densities = {
            "uniform": "low high",
            "normal": "mu sigma",
            "gamma": "alpha beta",
            "exponential": "lam",
            "poisson": "lam",
            "negative_binomial": "k p",
            "generalized_negative_binomial": "mu alpha",
            "dirichlet": "alpha",
        }
        for make, names in (
            (mx.sym.contrib.box_encode, "samples matches anchors refs means stds"),
            (lambda *x: mx.sym.contrib.count_sketch(*x, out_dim=2), "data h s"),
            (lambda *x: mx.sym.contrib.interleaved_matmul_encdec_valatt(*x, heads=2), "keys_values attention"),
            (mx.sym.BilinearSampler, "data grid"),
            (mx.sym.linalg.gemm, "a b c"),
            (mx.sym.khatri_rao, "a b"),
            *((getattr(mx.sym, f"random_pdf_{name}"), f"sample {rest}") for name, rest in densities.items()),
        ):
            with self.subTest(names):
                made = make(*map(mx.sym.var, names.split()))
                self.assertEqual(mx.sym.Group(list(made)).list_arguments(), names.split())

    def test_older_names_are_their_operators(self):
        out = mx.sym.BatchNorm_v1(mx.sym.var("x"), name="bn")
        self.assertEqual(out.list_arguments(), ["x", "bn_gamma", "bn_beta"])
        self.assert_close(nd.Pooling_v1(image(), kernel=(2, 2), stride=(2, 2), pool_type="max"), [[[[5, 7], [13, 15]]]])

    def test_results_go_into_given_arrays(self):
        out = nd.zeros((2, 2))
        nd.contrib.quadratic(nd.ones((2, 2)), a=1, b=2, c=3, out=out)
        self.assert_equal(out, [[6, 6], [6, 6]])


class ConvCellTest(ArrayCase):
    def test_two_steps_are_mxnet_s(self):
        sequence = nd.arange(10).reshape((1, 2, 5)) / 10
        for kind, expected in (
            ("RNN", [0.15146, 0.2627, 0.33541, 0.38997, 0.2871]),
            ("LSTM", [0.05428, 0.1037, 0.14057, 0.1768, 0.1204]),
            ("GRU", [0.0893, 0.14928, 0.18529, 0.21672, 0.16643]),
        ):
            cell = getattr(gluon.contrib.rnn, f"Conv1D{kind}Cell")((2, 5), 1, 3, 3, i2h_pad=1, prefix="c_")
            cell.initialize(mx.init.Constant(0.1))
            for hybridize in (False, True):
                cell.hybridize(hybridize)
                _, states = cell(sequence, cell.begin_state(1))
                self.assert_close(cell(sequence, states)[0], [[expected]], 1e-4)

    def test_names_and_shapes(self):
        cell = gluon.contrib.rnn.Conv2DLSTMCell((1, 4, 4), 2, 3, 3, prefix="c_")
        self.assertEqual(list(cell.collect_params()), ["c_i2h_weight", "c_h2h_weight", "c_i2h_bias", "c_h2h_bias"])
        self.assertEqual(cell.state_info(5)[1], {"shape": (5, 2, 2, 2), "__layout__": "NCHW"})
        with self.assertRaisesRegex(AssertionError, "odd"):
            gluon.contrib.rnn.Conv2DRNNCell((1, 4, 4), 2, 3, 2)

    def test_dynamic_unrolling_is_unrolling(self):
        cell = gluon.rnn.LSTMCell(3, input_size=2)
        cell.initialize()
        x, states, length = nd.random.uniform(shape=(4, 2, 2)), cell.begin_state(2), nd.array([2, 4])
        expected, after = cell.unroll(4, x, states, layout="TNC", merge_outputs=True, valid_length=length)
        found, last = gluon.contrib.rnn.rnn_cell.dynamic_unroll(cell, x, states, layout="TNC", valid_length=length)
        for one, other in ((found, expected), *zip(last, after)):
            self.assert_close(one, other.asnumpy(), 1e-5)


if __name__ == "__main__":
    case_runner.main()
