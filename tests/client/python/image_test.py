"""Images: sizes, parts and augmenters as MXNet 1.9.1 has them, and files, which Pillow reads."""

import importlib.util
import os
import random
import sys
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import image, nd
from gluond.gluon.data import DataLoader, vision
from gluond.gluon.data.vision.transforms import ToTensor
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.pillow_case import PillowCase

GRAY = np.array([[172, 47, 117, 192], [67, 251, 195, 103], [9, 211, 21, 242], [36, 87, 70, 216], [88, 140, 58, 193]], np.uint8)
# By interpolation, GRAY as MXNet resizes it to 3 by 7.
RESIZED = {
    0: [[172, 47, 117], [172, 47, 117], [67, 251, 195], [9, 211, 21], [9, 211, 21], [36, 87, 70], [88, 140, 58]],
    1: [[151, 82, 179], [121, 162, 144], [82, 192, 143], [43, 116, 205], [44, 89, 195], [67, 87, 183], [97, 99, 170]],
    2: [[157, 49, 188], [124, 185, 134], [74, 236, 133], [41, 114, 207], [35, 73, 204], [66, 74, 184], [101, 93, 170]],
    3: [[141, 82, 173], [124, 167, 145], [102, 201, 138], [60, 116, 187], [51, 86, 181], [70, 87, 171], [101, 99, 159]],
    4: [[157, 39, 195], [123, 189, 131], [76, 247, 124], [48, 114, 200], [39, 60, 208], [70, 80, 178], [105, 90, 170]],
}
COLORS = np.arange(9 * 7 * 3, dtype=np.uint8).reshape(9, 7, 3)


class SizeTest(ArrayCase):
    def setUp(self):
        self.image = nd.array(COLORS, dtype="uint8")

    def test_pixels_are_mxnet_s(self):
        gray = nd.array(GRAY[..., None], dtype="uint8")
        for interp, expected in RESIZED.items():
            self.assert_equal(image.imresize(gray, 3, 7, interp)[:, :, 0], expected, np.uint8)
            self.assert_equal(vision.transforms.Resize((3, 7), interpolation=interp)(gray)[:, :, 0], expected, np.uint8)
        self.assert_equal(image.imresize(gray, 2, 3)[:, :, 0], [[126, 152], [110, 132], [96, 131]])
        self.assert_equal(image.imresize(gray, 2, 3, interp=3)[:, :, 0], [[129, 152], [110, 137], [93, 132]])
        self.assert_equal(image.imresize(gray, 4, 5)[:, :, 0], GRAY)
        pixels = nd.array(np.random.RandomState(8).randint(0, 256, (6, 5, 1)), dtype="uint8")
        self.assertEqual(image.imresize(pixels, 9, 5, 2)[4, 4].asscalar(), 24)  # Sums in fixed point give 25.
        half = image.imresize(gray[:4], 2, 2)[:, :, 0]
        self.assert_equal(half, [[134, 152], [86, 137]])

    def test_numbers_of_other_dtypes(self):
        line = nd.array([[[0], [10]]])
        self.assert_close(image.imresize(line, 4, 1)[0, :, 0], [0, 2.5, 7.5, 10])
        self.assert_close(image.imresize(nd.array([[[0], [3], [6]]]), 2, 1, interp=3)[0, :, 0], [1, 5])
        pixels = image.imresize(COLORS, 3, 2)
        self.assertIsInstance(pixels, np.ndarray)
        self.assertEqual(pixels.shape, (2, 3, 3))

    def test_the_shorter_edge(self):
        self.assertEqual(image.resize_short(self.image, 5, 9).shape, (6, 5, 3))
        self.assertEqual(image.resize_short(nd.transpose(self.image, (1, 0, 2)), 5, 10).shape, (5, 6, 3))
        self.assertEqual(image.scale_down((640, 480), (720, 120)), (640, 106))
        self.assertEqual(image.scale_down((360, 1000), (480, 500)), (360, 375))

    def test_parts(self):
        self.assert_equal(image.fixed_crop(self.image, 1, 2, 3, 4), COLORS[2:6, 1:4], np.uint8)
        self.assertEqual(image.fixed_crop(self.image, 1, 2, 3, 4, size=(5, 6)).shape, (6, 5, 3))
        part, place = image.center_crop(self.image, (3, 4))
        self.assertEqual(place, (2, 2, 3, 4))
        self.assert_equal(part, COLORS[2:6, 2:5])
        self.assertEqual(image.center_crop(self.image, (5, 20))[1], (2, 0, 2, 9))
        random.seed(1)
        self.assertEqual(
            [
                image.random_crop(self.image, (4, 3))[1],
                image.random_size_crop(self.image, (3, 3), (0.2, 0.9), (0.75, 1.3))[1],
                image.random_crop(self.image, (10, 3))[1],
            ],
            [(1, 4, 4, 3), (1, 3, 5, 5), (0, 3, 7, 2)],
        )

    def test_wrong_arguments(self):
        for arguments, text in (((0, 3), "a size of 0 by 3"), ((3, 3, 7), "Unknown interpolation method 7")):
            with self.assertRaisesRegex(mx.MXNetError, text):
                image.imresize(self.image, *arguments)
        with self.assertRaisesRegex(ValueError, "Unknown interp method 5"):
            image.resize_short(self.image, 3, 5)


class GeometryTest(ArrayCase):
    def test_images_turn_as_mxnet_s(self):
        x = nd.array(np.arange(24).reshape(2, 3, 4))
        rows = (image.imrotate(x, 30)[0, 0], image.imrotate(x, 30, zoom_out=True)[0, 1], image.imrotate(x, 30, True)[1, 2])
        for row, expected in zip(
            rows, ([0.2692, 1.3852, 3.9689, 4.5814], [0, 3.3036, 7.6964, 4.7616], [16.6290, 18.4990, 20.3689, 20.8240])
        ):
            self.assert_close(row, expected, 1e-4)
        both = nd.stack(x, x)
        turned = image.imrotate(both, nd.array([90, 180]))
        self.assert_close(turned[:, 0, 0], [[1.25, 4.5, 8.5, 5.25], [11, 10, 9, 8]], 1e-4)
        self.assert_close(image.imrotate(both, 180)[1], x.asnumpy()[:, ::-1, ::-1], 1e-4)
        np.random.seed(3)
        self.assert_close(image.random_rotate(both, (-20, 20))[:, 0, 0, 0], [0.0345, 0.1274], 1e-3)
        np.random.seed(3)
        turn = vision.transforms.RandomRotation((-20, 20), rotate_with_proba=0.5)
        self.assert_close(nd.concat(*[turn(x).sum() for _ in range(4)], dim=0), [276, 276, 274.9615, 276])
        np.random.seed(3)
        np.random.random()
        expected = image.random_rotate(both, (-20, 20)).asnumpy()
        np.random.seed(3)
        self.assert_equal(vision.transforms.RandomRotation((-20, 20))(both), expected)
        self.assert_equal(vision.transforms.Rotate(30)(x), image.imrotate(x, 30).asnumpy())

    def test_turns_that_cannot_be(self):
        x = nd.zeros((3, 4, 4))
        for turn, error in (
            (lambda: image.imrotate(x.astype("uint8"), 3), TypeError),
            (lambda: image.imrotate(x[0], 3), ValueError),
            (lambda: image.imrotate(x, nd.array([3])), TypeError),
            (lambda: image.imrotate(x, 3, 1, 1), ValueError),
            (lambda: image.imrotate(nd.stack(x, x), nd.array([1, 2, 3])), ValueError),
            (lambda: vision.transforms.Rotate(3)(x.astype("uint8")), TypeError),
            (lambda: vision.transforms.RandomRotation((3, 3)), ValueError),
            (lambda: vision.transforms.RandomRotation((1, 3), rotate_with_proba=2), ValueError),
        ):
            with self.assertRaises(error):
                turn()

    def test_borders(self):
        x = nd.array(np.arange(6).reshape(1, 3, 2) + 1, dtype="uint8")
        for kind, expected in (
            (0, [0, 0, 1, 3, 5, 0]),
            (1, [1, 1, 1, 3, 5, 5]),
            (2, [3, 1, 1, 3, 5, 5]),
            (3, [3, 5, 1, 3, 5, 1]),
            (4, [5, 3, 1, 3, 5, 3]),
            (16, [0, 0, 1, 3, 5, 0]),
        ):
            self.assert_equal(image.copyMakeBorder(x, 0, 0, 2, 1, kind)[0, :, 0], expected, np.uint8)
        self.assert_equal(image.copyMakeBorder(x, 1, 2, 0, 0, values=(7, 8))[:, 0], [[7, 8], [1, 2], [7, 8], [7, 8]])
        self.assert_equal(image.copyMakeBorder(x, 1, 0, 0, 0, value=9)[:, 0], [[9, 9], [1, 2]])
        for arguments, text in (((1, 0, 0, 0, 5), "border type 5"), ((-1, 0, 0, 0), "0 or more")):
            with self.assertRaisesRegex(mx.MXNetError, text):
                image.copyMakeBorder(x, *arguments)


class AugmenterTest(ArrayCase):
    def test_a_chain_gives_mxnet_s_numbers(self):
        chain = image.CreateAugmenter(
            (3, 4, 4),
            resize=5,
            rand_crop=True,
            rand_resize=True,
            rand_mirror=True,
            mean=True,
            std=True,
            brightness=0.1,
            contrast=0.1,
            saturation=0.1,
            hue=0.1,
            pca_noise=0.1,
            rand_gray=0.1,
        )
        random.seed(5)
        np.random.seed(5)
        x = nd.array(COLORS, dtype="uint8")
        for each in chain:
            x = each(x)
        self.assertEqual((x.shape, x.dtype), ((4, 4, 3), np.float32))
        self.assert_close(x[0, 0], [-1.60501969, -1.50197053, -1.24444807])
        self.assert_close(x[3, 3], [0.49085522, 0.64162010, 0.88239068])
        self.assertAlmostEqual(float(x.mean().asscalar()), -0.38710177, 5)

    def test_augmenters_write_what_they_are(self):
        self.assertEqual(
            [each.dumps() for each in image.CreateAugmenter((3, 4, 4), mean=np.array([1, 2, 3]), contrast=0.5)],
            [
                '["centercropaug", {"size": [4, 4], "interp": 2}]',
                '["castaug", {"type": "float32"}]',
                ["colorjitteraug", ['["contrastjitteraug", {"contrast": 0.5}]']],
                '["colornormalizeaug", {"mean": [1, 2, 3], "std": null}]',
            ],
        )
        self.assertEqual(
            image.SequentialAug([image.ResizeAug(3)]).dumps(), ["sequentialaug", ['["resizeaug", {"size": 3, "interp": 2}]']]
        )

    def test_each_changes_an_image(self):
        pixels = nd.array(COLORS)
        self.assertEqual(image.ForceResizeAug((4, 2))(pixels).shape, (2, 4, 3))
        self.assertEqual(image.SequentialAug([image.RandomCropAug((3, 2)), image.CastAug("float64")])(pixels).dtype, np.float64)
        self.assert_equal(image.HorizontalFlipAug(1)(pixels), COLORS[:, ::-1])
        self.assert_close(image.RandomGrayAug(1)(pixels)[..., 1], COLORS @ [0.21, 0.72, 0.07], 1e-4)
        self.assert_equal(image.HorizontalFlipAug(0)(image.RandomGrayAug(0)(pixels)), COLORS)
        self.assert_equal(image.color_normalize(pixels, nd.array([1, 2, 3]), nd.array([2, 2, 2])), (COLORS - [1.0, 2, 3]) / 2)
        with self.assertRaisesRegex(NotImplementedError, "Must override"):
            image.Augmenter()(pixels)
        with self.assertRaisesRegex(AssertionError, "mean has to be True"):
            image.CreateAugmenter((3, 4, 4), mean=[1, 2, 3])
        with self.assertRaisesRegex(AssertionError, "wants rand_crop"):
            image.CreateAugmenter((3, 4, 4), rand_resize=True)


class FilesTest(PillowCase):
    def test_pixels_of_files(self):
        path = self.write("a.png", [2, 3, 7])
        self.assert_equal(image.imread(path), [[[7, 0, 1]] * 3] * 2, np.uint8)
        self.assert_equal(mx.img.imread(path, to_rgb=False), [[[1, 0, 7]] * 3] * 2)
        self.assertEqual(image.imread(path, 0).shape, (2, 3, 1))
        for content in (b"\2\3\7", bytearray(b"\2\3\7"), np.array([2, 3, 7], np.uint8), nd.array([2, 3, 7], dtype="uint8")):
            self.assertEqual(image.imdecode(content).shape, (2, 3, 3))

    def test_files_that_are_no_images(self):
        for content, text in ((b"", "empty buffer"), (b"text", "Invalid image file")):
            with self.assertRaisesRegex(mx.MXNetError, text):
                image.imdecode(content)
        with self.assertRaisesRegex(ValueError, "convert to bytes"):
            image.imdecode("text")
        with self.assertRaisesRegex(mx.MXNetError, "No such file.*nothing.png"):
            image.imread(os.path.join(self.folder, "nothing.png"))

    def test_without_pillow(self):
        with mock.patch.dict(sys.modules, {"PIL": None, "PIL.Image": None}):
            with self.assertRaisesRegex(ImportError, "pip install pillow"):
                image.imdecode(b"123")

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "Pillow is not installed")
    def test_pillow_reads_what_it_wrote(self):
        with mock.patch.dict(sys.modules):
            for name in ("PIL", "PIL.Image", "PIL.ImageOps"):
                del sys.modules[name]
            from PIL import Image

            path = os.path.join(self.folder, "a.png")
            Image.fromarray(COLORS).save(path)
            self.assert_equal(image.imread(path), COLORS, np.uint8)
            self.assertEqual(image.imread(path, 0).shape, (9, 7, 1))

    def test_a_folder_of_folders(self):
        for name, content in (("b/2.png", [2, 2, 5]), ("b/1.JPG", [2, 2, 4]), ("a/1.png", [2, 2, 3])):
            self.write(name, content)
        dataset = vision.ImageFolderDataset(self.folder)
        self.assertEqual(dataset.synsets, ["a", "b"])
        self.assertEqual(
            [(os.path.basename(path), label) for path, label in dataset.items], [("1.png", 0), ("1.JPG", 1), ("2.png", 1)]
        )
        pixels, label = dataset[1]
        self.assert_equal(pixels, [[[4, 0, 1]] * 2] * 2, np.uint8)
        self.assertEqual(label, 1)
        ((x, y),) = DataLoader(dataset.transform_first(ToTensor()), 3)
        self.assert_close(x[:, 0, 0, 0], np.array([3, 4, 5]) / 255)
        self.assert_equal(y, [0, 1, 1])
        self.assertEqual(vision.ImageFolderDataset(self.folder, 0, lambda x, y: (x.shape, y))[0], ((2, 2, 1), 0))
        self.write("b/notes.txt", [])
        with self.assertWarnsRegex(UserWarning, "notes.txt of type .txt. Only support .jpg, .jpeg, .png"):
            self.assertEqual(len(vision.ImageFolderDataset(self.folder)), 3)
        os.remove(os.path.join(self.folder, "b/notes.txt"))
        self.write("c", [])
        with self.assertWarnsRegex(UserWarning, "c, which is not a directory"):
            vision.ImageFolderDataset(self.folder)


if __name__ == "__main__":
    case_runner.main()
