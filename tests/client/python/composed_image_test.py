"""Operators on images and boxes that the package makes of the server's. The figures are those of MXNet 1.9.1."""

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._composed.shapes import NoGraph
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.composed_case import THETA, checked_gradient, image

BOXES = nd.array([[[0, 0, 1, 1], [0, 0, 2, 2]]])


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


if __name__ == "__main__":
    case_runner.main()
