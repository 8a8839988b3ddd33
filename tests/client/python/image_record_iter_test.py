"""ImageRecordIter: batches, parts and changes of images; numbers without a source are those of MXNet 1.9.1."""

import os

import gluond as mx
import numpy as np
from gluond import nd, recordio
from gluond.gluon.data.vision import _colors
from tests import case_runner
from tests.client.python.pillow_case import PillowCase, file_of

PIXELS = np.random.RandomState(0).randint(0, 256, (7, 5, 6, 3)).astype("uint8")
# By settings, pixels in a row of the first image.
CHANGED = (
    ({"resize": 4}, [123, 126, 34, 166]),
    ({"rotate": 30}, [175, 88, 32, 161]),
    ({"min_random_scale": 0.8, "max_random_scale": 0.8, "fill_value": 0}, [107, 88, 73, 38]),
    ({"max_aspect_ratio": 1.5, "min_aspect_ratio": 1.5}, [92, 109, 26, 83]),
    ({"min_img_size": 9, "fill_value": 1}, [49, 64, 57, 17]),
    ({"pad": 1, "data_shape": (3, 7, 8)}, [255, 172, 192, 195, 211, 36, 216, 255]),
    ({"max_crop_size": 3, "min_crop_size": 3}, [135, 155, 115, 27]),
    ({"data_shape": (3, 6, 4)}, [79, 101, 93, 51]),
    ({"data_shape": (3, 4, 9)}, [114, 98, 89, 118, 75, 29, 43, 125, 204]),
)


class RecordIterCase(PillowCase):
    def setUp(self):
        super().setUp()
        writer = recordio.MXIndexedRecordIO(self.path("a.idx"), self.path("a.rec"), "w")
        for i, pixels in enumerate(PIXELS):
            writer.write_idx(i, recordio.pack((0, float(i), i + 10, 0), file_of(pixels)))
        writer.close()

    def iterator(self, kind=mx.io.ImageRecordIter, **settings):
        return kind(**{"path_imgrec": self.path("a.rec"), "data_shape": (3, 4, 4), "batch_size": 3, **settings})

    def images(self, **settings):
        """The images of an epoch, (7, C, H, W)."""
        return np.concatenate([batch.data[0].asnumpy() for batch in self.iterator(**settings)])[:7]

    def labels(self, epochs=1, **settings):
        iterator, found = self.iterator(**settings), []
        for _ in range(epochs):
            found.append([(batch.label[0].asnumpy().astype(int).tolist(), batch.pad) for batch in iterator])
            iterator.reset()
        return found


class BatchesTest(RecordIterCase):
    def test_the_next_epoch_begins_behind_the_images_that_filled_the_last_batch_up(self):
        self.assertEqual(
            self.labels(3),
            [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)], [([2, 3, 4], 0), ([5, 6, 0], 1)], [([1, 2, 3], 0), ([4, 5, 6], 0)]],
        )
        self.assertEqual(
            self.labels(2, batch_size=10), [[([0, 1, 2, 3, 4, 5, 6, 0, 1, 2], 3)], [([3, 4, 5, 6, 0, 1, 2, 3, 4, 5], 6)]]
        )
        self.assertEqual(self.labels(2, round_batch=False), [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]] * 2)

    def test_a_reset_in_the_middle(self):
        iterator = self.iterator()
        for _ in range(2):
            self.assertEqual(next(iterator).label[0].asnumpy().tolist(), [0, 1, 2])
            iterator.reset()

    def test_an_epoch_s_own_order(self):
        first, second = (sum((batch for batch, _ in epoch), []) for epoch in self.labels(2, shuffle=True, seed=1))
        self.assertEqual(sorted(first[:7]), list(range(7)))
        self.assertEqual(sorted(first[7:] + second[:5]), list(range(7)))
        self.assertNotEqual(first[:7], first[7:] + second[:5])
        self.assertEqual(self.labels(shuffle="true", seed="1"), self.labels(shuffle=1, seed=1))
        self.assertNotEqual(self.labels(shuffle=True, seed=1), self.labels(shuffle=True, seed=2))

    def test_parts(self):
        self.assertEqual(
            [self.labels(num_parts=3, part_index=i, batch_size=2) for i in range(3)],
            [[[([0, 1], 0), ([2, 0], 1)]], [[([3, 4], 0)]], [[([5, 6], 0)]]],
        )
        self.assertEqual(self.labels(num_parts=60, part_index=31, batch_size=1), [[([4], 0)]])
        with open(self.path("a.idx")) as file:
            lines = file.readlines()
        index = self.write("b.idx", "".join(reversed(lines)).encode())
        self.assertEqual(
            [self.labels(num_parts=3, part_index=i, batch_size=1, path_imgidx=index) for i in (0, 2)],
            [[[([0], 0), ([1], 0), ([2], 0)]], [[([6], 0)]]],
        )

    def test_names_shapes_and_dtypes(self):
        iterator = self.iterator(data_name="x", label_name="y")
        self.assertEqual((iterator.provide_data, iterator.provide_label), ([("x", (3, 3, 4, 4))], [("y", (3,))]))
        batch = next(iterator)
        self.assert_equal(batch.data[0], PIXELS[:3, :4, 1:5].transpose(0, 3, 1, 2), np.float32)
        self.assertEqual((batch.index.tolist(), batch.provide_data), ([10, 11, 12], iterator.provide_data))
        bytes_of = PIXELS[:3, :4, 1:5].transpose(0, 3, 1, 2)
        for kind, settings, expected in (
            (mx.io.ImageRecordUInt8Iter, {"mean_r": 3}, bytes_of),
            (mx.io.ImageRecordInt8Iter, {}, np.minimum(bytes_of, 127).astype("int8")),
            (
                mx.io.ImageRecordIter,
                {"dtype": "int8", "mean_r": 128.4, "mean_g": 128, "mean_b": 128},
                (bytes_of.astype(int) - 128).astype("int8"),
            ),
        ):
            iterator = self.iterator(kind, **settings)
            self.assertEqual(iterator.provide_data[0].dtype, expected.dtype)
            self.assert_equal(next(iterator).data[0], expected, expected.dtype)
        self.assertEqual(self.images(data_shape="(1, 4, 4)").shape, (7, 1, 4, 4))

    def test_labels_of_records_and_lists(self):
        self.write("a.lst", "".join(f"{i + 10}\t{2 * i}\t{i}\t9\tx\n" for i in range(6)).encode())
        self.assert_equal(next(self.iterator(path_imglist=self.path("a.lst"))).label[0], [0, 2, 4])
        iterator = self.iterator(path_imglist=self.path("a.lst"), label_width=2)
        self.assertEqual(iterator.provide_label, [("softmax_label", (3, 2))])
        self.assert_equal(next(iterator).label[0], [[0, 0], [2, 1], [4, 2]])
        with self.assertRaisesRegex(mx.MXNetError, "no image 16 in path_imglist"):
            list(iterator)
        with self.assertRaisesRegex(mx.MXNetError, "image 10 has 1 labels, and label_width is 2"):
            next(self.iterator(label_width=2))

    def test_it_trains_a_module(self):
        data = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.var("data")), num_hidden=7)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(data, mx.sym.var("softmax_label")))
        module.fit(self.iterator(scale=1 / 255, shuffle=True), num_epoch=2)
        self.assertEqual(module.predict(self.iterator(round_batch=False)).shape, (7, 7))

    def test_mistakes(self):
        for settings, text in (
            ({"data_shape": (4, 4)}, "data_shape"),
            ({"data_shape": (2, 4, 4)}, "1, 3 or 4"),
            ({"dtype": "float16"}, "unknown dtype"),
            ({"batch_size": 2.5}, "format for batch_size expect int but value=2.5"),
            ({"rand_crop": "maybe"}, "rand_crop"),
            ({"inter_method": 5}, "invalid inter_method 5"),
            ({"inter_method": 0, "rotate": 3}, "inter_method 0 cannot"),
            ({"path_imgrec": "none"}, "No such file"),
            ({"random_resized_crop": True, "rand_crop": True}, "conflicts"),
            ({"num_parts": 2, "part_index": 2}, "no part_index 2"),
            ({"num_parts": 90, "part_index": 89}, "no images"),
            ({"min_aspect_ratio": 1.5, "max_aspect_ratio": 1.2}, "min_aspect_ratio 1.5"),
        ):
            with self.subTest(settings), self.assertRaisesRegex(mx.MXNetError, text):
                self.iterator(**settings)
        for settings, text in (
            ({"max_crop_size": 6, "min_crop_size": 3}, "5 by 6 is smaller than max_crop_size"),
            ({"data_shape": (4, 4, 4)}, "Expected 4 channels, got 3"),
        ):
            with self.subTest(settings), self.assertRaisesRegex(mx.MXNetError, text):
                next(self.iterator(**settings))
        writer = recordio.MXRecordIO(self.path("a.rec"), "w")
        writer.write(recordio.pack((0, 1, 2, 0), b"text"))
        writer.close()
        with self.assertRaisesRegex(mx.MXNetError, "a.rec: record 0, id 2: .*Invalid image file"):
            next(self.iterator())


class ChangesTest(RecordIterCase):
    def test_sizes_and_places_are_mxnet_s(self):
        for settings, expected in CHANGED:
            with self.subTest(settings):
                self.assertEqual(self.images(**settings)[0, 0, 1].astype(int).tolist(), expected)

    def test_a_small_image_lies_in_the_middle(self):
        first = self.images(min_img_size=9, data_shape=(3, 9, 9), fill_value=1)[0, 0].astype(int)
        self.assertEqual([first[0].tolist(), first[8].tolist()], [[1] * 9] * 2)
        self.assertEqual(first[4].tolist(), [1, 128, 223, 204, 123, 86, 168, 97, 1])
        self.assertEqual(first[:, 4].tolist(), [1, 1, 203, 57, 123, 139, 68, 1, 1])

    def test_numbers(self):
        first = self.images(mean_r=100, mean_g=2, std_b=2, scale=0.5)[0, :, 1, 1]
        self.assertEqual(first.tolist(), [-6, 39.5, 41.25])
        self.assertEqual(self.images(mirror=True, std_r=4)[0, :, 1, 1].tolist(), [6.25, 77, 72])

    def test_the_mean_of_all_images(self):
        plain, path = self.images(), self.path("mean.bin")
        mean = plain.mean(0)
        np.testing.assert_allclose(self.images(mean_img=path), plain - mean, atol=1e-4)
        self.assert_close(nd.load(path)["mean_img"], mean)
        nd.save(path, {"mean_img": nd.array(mean + 1)})
        np.testing.assert_allclose(self.images(mean_img=path, mirror=True), (plain - mean - 1)[..., ::-1], atol=1e-4)

    def test_random_parts(self):
        parts = {PIXELS[0, y : y + 4, x : x + 4].tobytes() for y in range(2) for x in range(3)}
        mirrored = {PIXELS[0, y : y + 4, x : x + 4][:, ::-1].tobytes() for y in range(2) for x in range(3)}
        found = set()
        for seed in range(60):
            image = next(self.iterator(rand_crop=True, rand_mirror=True, seed_aug=seed)).data[0].asnumpy()[0]
            found.add(np.ascontiguousarray(image.transpose(1, 2, 0)).astype("uint8").tobytes())
        self.assertLessEqual(found, parts | mirrored)
        self.assertTrue(len(found & parts) > 2 and len(found & mirrored) > 2)

    def test_random_changes_are_those_of_the_seed(self):
        plain = self.images(data_shape=(3, 5, 6))
        for settings in (
            {"random_resized_crop": True, "min_random_area": 0.3, "max_aspect_ratio": 0.25},
            {"brightness": 0.4},
            {"contrast": 0.4},
            {"saturation": 0.4},
            {"random_h": 40},
            {"random_s": 90},
            {"random_l": 90},
            {"pca_noise": 0.5},
            {"max_random_contrast": 0.5},
            {"max_random_illumination": 40},
            {"max_rotate_angle": 40},
            {"max_shear_ratio": 0.4},
            {"max_random_scale": 2},
            {"max_aspect_ratio": 0.5},
            {"inter_method": 10, "resize": 7},
            {"min_crop_size": 2, "max_crop_size": 5, "rand_crop": True},
        ):
            with self.subTest(settings):
                one, same, other = (self.images(data_shape=(3, 5, 6), seed_aug=seed, **settings) for seed in (1, 1, 2))
                np.testing.assert_array_equal(one, same)
                self.assertTrue(np.abs(one - other).max() > 1)
                self.assertTrue(np.abs(one - plain).max() > 1)

    def test_colors_move(self):
        red = np.array([[[200, 50, 50]]], np.uint8)
        for by, expected in (
            ((0, 0, 0), [200, 50, 50]),
            ((60, 0, 0), [50, 200, 50]),
            ((120, 0, 0), [50, 50, 200]),
            ((0, 51, 0), [223, 129, 129]),
            ((0, 0, -255), [125, 125, 125]),
            ((0, 255, 0), [255] * 3),
            ((0, 0, 255), [250, 0, 0]),
            ((0, -255, 0), [0, 0, 0]),
        ):
            self.assertEqual(_colors.moved_in_hls(red, np.array(by))[0, 0].tolist(), expected)
        pink = np.array([[[200, 50, 100]]], np.uint8)
        self.assertEqual(
            [_colors.moved_in_hls(pink, np.array((h, 0, 0)))[0, 0].tolist() for h in (0, 60)], [[200, 50, 100], [200, 50, 50]]
        )
        gray = np.full((1, 1, 3), 80, np.uint8)
        self.assertEqual(_colors.moved_in_hls(gray, np.zeros(3))[0, 0].tolist(), [80] * 3)

    def test_gray_takes_blue_for_red(self):
        writer = recordio.MXRecordIO(self.path("a.rec"), "w")
        for _ in range(9):
            writer.write(recordio.pack((0, 0, 0, 0), file_of(np.full((4, 4, 3), [200, 0, 0]))))
        writer.close()
        red, green, blue = self.images(saturation=1, seed_aug=1)[:, :, 0, 0].T
        self.assertTrue((green > 1).any())
        np.testing.assert_array_equal(green, blue)
        factor = 1 - green / (0.114 * 200)
        np.testing.assert_allclose(red[green > 1], (200 * factor + green)[green > 1], atol=6)

    def test_gray_images_keep_their_colors(self):
        self.assertEqual(
            self.images(data_shape=(1, 4, 4), brightness=0.4, pca_noise=0.4).tolist(), self.images(data_shape=(1, 4, 4)).tolist()
        )


if __name__ == "__main__":
    case_runner.main()
