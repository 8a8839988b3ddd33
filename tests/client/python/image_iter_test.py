"""ImageIter: batches of records and of listed files, which are those of MXNet 1.9.1."""

import random

import gluond as mx
import numpy as np
from gluond import image, nd, recordio
from tests import case_runner
from tests.client.python.pillow_case import PillowCase, file_of

PIXELS = np.random.RandomState(0).randint(0, 256, (7, 4, 4, 3)).astype("uint8")


class ImageIterTest(PillowCase):
    def setUp(self):
        super().setUp()
        self.rec, self.idx, self.lst = map(self.path, ("a.rec", "a.idx", "a.lst"))
        writer = recordio.MXIndexedRecordIO(self.idx, self.rec, "w")
        for i, pixels in enumerate(PIXELS):
            writer.write_idx(i + 10, recordio.pack((0, float(i), i, 0), file_of(pixels)))
            self.write(f"images/{i}.png", file_of(pixels))
        writer.close()
        self.write("a.lst", "".join(f"{i + 10}\t{2 * i}\t{-i}\timages/{i}.png\n" for i in range(7)).encode())

    def labels(self, iterator, epochs=1):
        found = []
        for _ in range(epochs):
            found.append([(batch.label[0].asnumpy().astype(int).tolist(), batch.pad) for batch in iterator])
            iterator.reset()
        return found

    def test_images_of_the_last_batch_that_are_missing(self):
        for handle, expected in (
            ("pad", [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]] * 3),
            ("discard", [[([0, 1, 2], 0), ([3, 4, 5], 0)]] * 3),
            (
                "roll_over",
                [
                    [([0, 1, 2], 0), ([3, 4, 5], 0)],
                    [([6, 0, 1], 2), ([2, 3, 4], 0)],
                    [([5, 6, 0], 1), ([1, 2, 3], 0), ([4, 5, 6], 0)],
                ],
            ),
        ):
            for index in (None, self.idx):
                with self.subTest(handle=handle, index=index):
                    iterator = image.ImageIter(3, (3, 4, 4), path_imgrec=self.rec, path_imgidx=index, last_batch_handle=handle)
                    self.assertEqual(self.labels(iterator, 3), expected)
        iterator = image.ImageIter(16, (3, 4, 4), path_imgrec=self.rec)
        self.assertEqual(self.labels(iterator), [[([*range(7), *range(7), 0, 1], 9)]])

    def test_a_hard_reset_forgets_the_rest(self):
        iterator = image.ImageIter(3, (3, 4, 4), path_imgrec=self.rec, last_batch_handle="roll_over")
        list(iterator)
        iterator.hard_reset()
        self.assertEqual(next(iterator).label[0].asnumpy().tolist(), [0, 1, 2])

    def test_the_order_is_mxnet_s(self):
        random.seed(3)
        iterator = image.ImageIter(4, (3, 4, 4), path_imgrec=self.rec, path_imgidx=self.idx, shuffle=True)
        iterator.reset()
        self.assertEqual(self.labels(iterator, 2), [[([6, 3, 2, 1], 0), ([0, 5, 4, 6], 1)], [([6, 4, 2, 1], 0), ([5, 3, 0, 6], 1)]])

    def test_batches_have_channels_first(self):
        mean = np.array([1, 2, 3])
        iterator = image.ImageIter(2, (3, 4, 4), path_imgrec=self.rec, data_name="x", label_name="y", mean=mean)
        self.assertEqual((iterator.provide_data, iterator.provide_label), ([("x", (2, 3, 4, 4))], [("y", (2,))]))
        self.assert_equal(next(iterator).data[0], (PIXELS[:2] - mean).transpose(0, 3, 1, 2), np.float32)

    def test_parts_of_the_images(self):
        iterator = image.ImageIter(3, (3, 4, 4), path_imgrec=self.rec, path_imgidx=self.idx, num_parts=2, part_index=1)
        self.assertEqual(self.labels(iterator), [[([3, 4, 5], 0)]])

    def test_lists_have_files_and_labels(self):
        iterator = image.ImageIter(2, (3, 4, 4), 2, path_imglist=self.lst, path_root=self.folder)
        batch = next(iterator)
        self.assert_equal(batch.label[0], [[0, 0], [2, -1]], np.float32)
        self.assert_equal(batch.data[0][1], PIXELS[1].transpose(2, 0, 1))
        self.assertEqual(iterator.provide_label, [("softmax_label", (2, 2))])
        iterator = image.ImageIter(2, (3, 4, 4), 2, path_imglist=self.lst, path_imgrec=self.rec, path_imgidx=self.idx)
        self.assert_equal(next(iterator).label[0], [[0, 0], [2, -1]])
        iterator = image.ImageIter(2, (3, 4, 4), imglist=[[5, "3.png"], [[6], "2.png"]], path_root=self.path("images"))
        batch = next(iterator)
        self.assert_equal(batch.label[0], [5, 6])
        self.assert_equal(batch.data[0][0], PIXELS[3].transpose(2, 0, 1))

    def test_images_change_alike_here_and_on_the_server(self):
        class Own(image.ImageIter):
            seen = 0

            def augmentation_transform(self, data):
                assert isinstance(data, nd.NDArray)
                self.seen += 1
                return super().augmentation_transform(data)

        found = []
        for kind in (image.ImageIter, Own):
            random.seed(1)
            np.random.seed(1)
            iterator = kind(
                4,
                (3, 3, 3),
                path_imgrec=self.rec,
                rand_crop=True,
                rand_mirror=True,
                mean=True,
                std=True,
                brightness=0.2,
                contrast=0.2,
                saturation=0.2,
                hue=0.1,
                pca_noise=0.1,
                rand_gray=0.5,
            )
            found.append([batch.data[0].asnumpy() for batch in iterator])
        self.assertEqual(iterator.seen, 8)
        np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)

    def test_own_augmenters_get_ndarrays(self):
        def half(x):
            return x.astype("float32") / nd.array([2])

        for augmenters, expected in (
            ([half], PIXELS / 2),
            ([image.BrightnessJitterAug(0)], PIXELS),
            ([], PIXELS),
            ([image.CastAug("int32"), image.BrightnessJitterAug(0)], PIXELS),
            ([image.SequentialAug([image.HorizontalFlipAug(1)])], PIXELS[:, :, ::-1]),
        ):
            iterator = image.ImageIter(7, (3, 4, 4), path_imgrec=self.rec, aug_list=augmenters)
            self.assert_close(next(iterator).data[0], expected.transpose(0, 3, 1, 2))

    def test_images_that_are_not_valid_are_left_out(self):
        class Bright(image.ImageIter):
            def check_valid_image(self, data):
                if (data.asnumpy() == PIXELS[1]).all():
                    raise RuntimeError("the second one")

        class Wrong(image.ImageIter):
            def check_valid_image(self, data):
                nd.dot(data, data).asnumpy()

        with self.assertRaises(mx.MXNetError):
            next(Wrong(3, (3, 4, 4), path_imgrec=self.rec))
        self.assertEqual(self.labels(Bright(3, (3, 4, 4), path_imgrec=self.rec)), [[([0, 2, 3], 0), ([4, 5, 6], 0)]])

    def test_mistakes(self):
        records = {"path_imgrec": self.rec}
        for shape, arguments, error, text in (
            ((3, 4, 4), {}, AssertionError, "path_imgrec, path_imglist or imglist"),
            ((3, 4), records, ValueError, "length 3"),
            ((1, 4, 4), records, ValueError, "3 channels"),
            ((3, 4, 4), {"shuffle": True, **records}, AssertionError, "want path_imgidx"),
            ((3, 4, 4), {"dtype": "int8", **records}, AssertionError, "labels cannot be int8"),
            (
                (3, 4, 4),
                {"num_parts": 2, "part_index": 2, "path_imgidx": self.idx, **records},
                AssertionError,
                "part_index 2 of 2 parts",
            ),
        ):
            with self.assertRaisesRegex(error, text):
                image.ImageIter(1, shape, **arguments)
        for arguments, text in (
            ({"aug_list": [], **records}, r"has the shape \(3, 4, 4\) .* data_shape is \(3, 5, 4\)"),
            ({"path_imglist": self.lst, "path_root": self.folder}, "has 2 labels, and label_width is 1"),
        ):
            with self.assertRaisesRegex(mx.MXNetError, text):
                next(image.ImageIter(1, (3, 5, 4), **arguments))
        self.write("images/0.png", b"text")
        for kind in (image.ImageIter, type("Own", (image.ImageIter,), {"postprocess_data": lambda self, x: x})):
            with self.assertRaisesRegex(mx.MXNetError, "Broken image filename: images/0.png, .*Invalid image file"):
                next(kind(1, (3, 4, 4), 2, path_imglist=self.lst, path_root=self.folder))


if __name__ == "__main__":
    case_runner.main()
