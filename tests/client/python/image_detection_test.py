"""Images with boxes: numbers without a source are those of MXNet 1.9.1."""

import random
import warnings

import gluond as mx
import numpy as np
from gluond import image, nd, recordio
from tests import case_runner
from tests.client.python.pillow_case import PillowCase, file_of

PIXELS = np.random.RandomState(0).randint(0, 256, (5, 20, 30, 3)).astype("uint8")
NUMBERS = [
    [2, 5, 0, 0.1, 0.1, 0.5, 0.6, 1, 0.4, 0.2, 0.9, 0.9],
    [3, 5, 7, 2, 0.2, 0.3, 0.8, 0.7],
    [2, 5, 1, 0.5, 0.5, 0.4, 0.9, 0, 0.3, 0.3, 0.9, 0.6, 2, 0.1, 0.1, 0.95, 0.9],
    [2, 5, 3, 0, 0, 1, 1],
    [2, 5, 4, 0.6, 0.1, 0.9, 0.5],
]
BOXES = [
    [[0, 0.1, 0.1, 0.5, 0.6], [1, 0.4, 0.2, 0.9, 0.9]],
    [[2, 0.2, 0.3, 0.8, 0.7], [-1] * 5],
    [[0, 0.3, 0.3, 0.9, 0.6], [2, 0.1, 0.1, 0.95, 0.9]],
    [[3, 0, 0, 1, 1], [-1] * 5],
    [[4, 0.6, 0.1, 0.9, 0.5], [-1] * 5],
]
CHANGED = [
    [[1, 0.3333, 0.1176, 0.8889, 0.9412], [-1] * 5],
    [[2, 0, 0.375, 1, 0.875], [-1] * 5],
    [[0, 0.1364, 0.52, 0.9545, 0.76], [2, 0.0682, 0.36, 0.9545, 1]],
    [[3, 0.1622, 0.1034, 0.8649, 0.7931], [-1] * 5],
    [[4, 0.5909, 0.087, 0.8636, 0.4348], [-1] * 5],
]


class DetectionCase(PillowCase):
    def setUp(self):
        super().setUp()
        self.write_records(NUMBERS)

    def write_records(self, numbers):
        writer = recordio.MXIndexedRecordIO(self.path("a.idx"), self.path("a.rec"), "w")
        for i, labels in enumerate(numbers):
            writer.write_idx(i, recordio.pack((0, labels, i, 0), file_of(PIXELS[i])))
        writer.close()

    def iterator(self, kind=image.ImageDetIter, **settings):
        return kind(**{"batch_size": 2, "data_shape": (3, 20, 30), "path_imgrec": self.path("a.rec"), **settings})


class ImageDetIterTest(DetectionCase):
    def test_boxes_are_filled_up(self):
        iterator = self.iterator()
        self.assertEqual((iterator.provide_label, iterator.label_shape), ([("label", (2, 2, 5))], (2, 5)))
        batches = list(iterator)
        self.assertEqual([batch.pad for batch in batches], [0, 0, 1])
        self.assert_close(nd.concat(*[batch.label[0] for batch in batches], dim=0), [*BOXES, BOXES[0]])
        self.assert_equal(batches[1].data[0], PIXELS[2:4].transpose(0, 3, 1, 2), np.float32)

    def test_changes_are_mxnet_s(self):
        class Own(image.ImageDetIter):
            def augmentation_transform(self, data, label):
                assert isinstance(data, nd.NDArray)
                return super().augmentation_transform(data, label)

        for kind in (image.ImageDetIter, Own):
            random.seed(4)
            batch = next(
                self.iterator(
                    kind,
                    batch_size=5,
                    data_shape=(3, 6, 8),
                    rand_crop=1,
                    rand_pad=0.7,
                    rand_mirror=True,
                    min_object_covered=0.5,
                    area_range=(0.3, 2.5),
                )
            )
            self.assert_close(batch.label[0], CHANGED, 1e-3)
            self.assert_equal(batch.data[0][:, 0, 2, 3], [144, 87, 157, 53, 23])

    def test_own_augmenters_get_ndarrays(self):
        class Own(image.DetAugmenter):
            def __call__(self, src, label):
                return src.astype("float32") * nd.array([2]), label

        for own in (Own(), image.DetRandomSelectAug(Own())):
            iterator = self.iterator(aug_list=[own])
            self.assert_equal(next(iterator).data[0][1], PIXELS[1].transpose(2, 0, 1) * 2.0)

    def test_images_without_boxes_are_left_out(self):
        class NoBoxes(image.DetAugmenter):
            def __call__(self, src, label):
                return src, label if label[0, 0] else label[:0]

        iterator = self.iterator(aug_list=[NoBoxes(), image.DetBorrowAug(image.CastAug())])
        self.assertEqual([batch.label[0][:, 0, 0].asnumpy().tolist() for batch in iterator], [[2, 3], [4, 2]])

    def test_shapes_of_labels_are_made_equal(self):
        one = self.iterator()
        self.write_records(NUMBERS[1:2])
        other = self.iterator()
        self.assertEqual(other.label_shape, (1, 5))
        self.assertIs(one.sync_label_shape(other), other)
        self.assertEqual(other.provide_label, [("label", (2, 2, 5))])
        other.reshape((3, 10, 10), (4, 5))
        self.assertEqual((other.provide_data, other.label_shape), ([("data", (2, 3, 10, 10))], (4, 5)))
        other.sync_label_shape(one)
        self.assertEqual(one.label_shape, (4, 5))
        third = self.iterator()
        third.sync_label_shape(one)
        self.assertEqual(third.label_shape, (4, 5))
        for shape, text in (((1, 5), "reduce label count from 4 to 1"), ((4, 6), "width inconsistent: 5 vs 6"), ((4,), "length 2")):
            with self.assertRaisesRegex(ValueError, text):
                one.reshape(None, shape)

    def test_numbers_that_are_no_boxes(self):
        for numbers, text in (
            ([2, 5, 1], "is invalid"),
            ([2, 5, 1, 0.1, 0.1, 0.2, 0.2, 9], "inconsistent with annotation width 5"),
            ([2, 0, 1, 0.1, 0.1, 0.2, 0.2], "width 0"),
            ([2, 5, 1, 0.3, 0.1, 0.2, 0.2], "no valid label"),
        ):
            self.write_records([numbers])
            with self.assertRaisesRegex(RuntimeError, text):
                self.iterator()


class DetAugmenterTest(PillowCase):
    def test_places_are_mxnet_s(self):
        boxes = np.array([[0, 0.1, 0.2, 0.5, 0.6], [1, 0.6, 0.1, 0.9, 0.9]])
        random.seed(4)
        pad = image.DetRandomPadAug(area_range=(1.5, 3), pad_val=(1, 2, 3))
        pixels, found = pad(nd.array(PIXELS[0], dtype="uint8"), boxes)
        self.assertEqual(pixels.shape, (35, 41, 3))
        np.testing.assert_allclose(found[0], [0, 0.09756, 0.22857, 0.39024, 0.45714], atol=1e-5)
        self.assert_equal(pixels[0, 0], [1, 2, 3], np.uint8)
        random.seed(5)
        pixels, found = image.DetRandomCropAug(0.3, area_range=(0.2, 0.9))(PIXELS[0], boxes)
        self.assertEqual(pixels.shape, (18, 21, 3))
        np.testing.assert_allclose(found, [[0, 0, 0.22222, 0.38095, 0.66667], [1, 0.52381, 0.11111, 0.95238, 1]], atol=1e-5)
        pixels, found = image.DetRandomCropAug(1.5)(PIXELS[0], boxes)
        self.assertIs(found, boxes)
        pixels, found = image.DetHorizontalFlipAug(1)(PIXELS[0], boxes)
        np.testing.assert_array_equal(pixels, PIXELS[0][:, ::-1])
        self.assertEqual(boxes[0, 1], 0.1)
        np.testing.assert_allclose(found, [[0, 0.5, 0.2, 0.9, 0.6], [1, 0.1, 0.1, 0.4, 0.9]])

    def test_sizes_are_mxnet_s(self):
        for augmenter, expected in (
            (
                image.DetRandomCropAug(0, (0.4, 3), (0.1, 1.0), 0),
                [(11, 29), (10, 7), (5, 14), (16, 16), (9, 9), (10, 20), (6, 15), (9, 11)],
            ),
            (image.DetRandomCropAug(0, (1.4, 1.7), (0.1, 0.11), 0), [(6, 10)] * 8),
            (image.DetRandomPadAug((0.3, 3)), [(26, 67), (52, 34), (24, 61), (40, 38), (27, 61), (25, 50), (24, 39), (27, 32)]),
        ):
            found = []
            for seed in range(8):
                random.seed(seed)
                found.append(augmenter(PIXELS[0], np.array([[0, 0, 0, 1.0, 1]]))[0].shape[:2])
            self.assertEqual(found, expected)
        crop, total = image.DetRandomCropAug(0, (0.4, 3), (0.02, 0.03), 0), np.zeros(2, int)
        for seed in range(60):
            random.seed(seed)
            total += crop(PIXELS[0], np.array([[0, 0, 0, 1.0, 1]]))[0].shape[:2]
        self.assertEqual(total.tolist(), [203, 277])
        sizes = []
        for seed in range(60):
            random.seed(seed)
            crop = image.DetRandomCropAug(0, (0.4, 3), (0.05, 0.3), 0)
            sizes.append(crop(PIXELS[0, :3, :3], np.array([[0, 0, 0, 1.0, 1]]))[0].size)
        self.assertEqual((min(sizes), sum(sizes)), (2 * 3, 120 * 3))

    def test_boxes_of_which_little_is_left_are_dropped(self):
        boxes = np.array([[0, 0, 0, 0.5, 1], [1, 0.9, 0, 1, 1]])
        for least, kept in ((0.1, {(0,), (1,), (0, 1)}), (1.1, set())):
            crop, found = image.DetRandomCropAug(0, (1, 1), (0.25, 0.35), least), set()
            for seed in range(40):
                random.seed(seed)
                _, left = crop(PIXELS[0], boxes)
                if left is not boxes:
                    found.add(tuple(left[:, 0].astype(int)))
            self.assertLessEqual(found, kept)
            self.assertEqual(bool(found), bool(kept))

    def test_augmenters_write_what_they_are(self):
        found = image.CreateDetAugmenter(
            (3, 4, 4), rand_crop=0.5, rand_pad=0.3, rand_mirror=True, mean=True, min_object_covered=[0.1, 0.5]
        )
        crop = (
            '["detrandomcropaug", {"min_object_covered": %s, "aspect_ratio_range": [0.75, 1.33], '
            '"area_range": [0.05, 3.0], "min_eject_coverage": 0.3, "max_attempts": 50}]'
        )
        pad = (
            '["detrandompadaug", {"aspect_ratio_range": [0.75, 1.33], "area_range": [1.0, 3.0], "max_attempts": 50, '
            '"pad_val": [127, 127, 127]}]'
        )
        self.assertEqual(
            [each.dumps() for each in found],
            [
                ["detrandomselectaug", [crop % 0.1, crop % 0.5]],
                '["dethorizontalflipaug", {"p": 0.5}]',
                ["detrandomselectaug", [pad]],
                ["detborrowaug", '["forceresizeaug", {"size": [4, 4], "interp": 2}]'],
                ["detborrowaug", '["castaug", {"type": "float32"}]'],
                ["detborrowaug", '["colornormalizeaug", {"mean": [123.68, 116.28, 103.53], "std": null}]'],
            ],
        )
        self.assertIs(mx.image.det.CreateDetAugmenter, image.CreateDetAugmenter)

    def test_mistakes(self):
        for use, error in (
            (lambda: image.DetBorrowAug(image.DetHorizontalFlipAug(1)), TypeError),
            (lambda: image.DetRandomSelectAug([image.CastAug()]), ValueError),
            (lambda: image.CreateMultiRandCropAugmenter([1, 2], max_attempts=[1, 2, 3]), AssertionError),
            (lambda: image.DetAugmenter()(PIXELS[0], None), NotImplementedError),
        ):
            with self.assertRaises(error):
                use()
        for make, text in (
            (lambda: image.DetRandomPadAug(area_range=1), r"DetRandomPadAug .* area_range: \(1, 1\)"),
            (lambda: image.DetRandomCropAug(area_range=(0.3, 0.2)), "area_range"),
            (lambda: image.DetRandomCropAug(aspect_ratio_range=(0, 1)), "aspect_ratio_range"),
        ):
            with self.assertWarnsRegex(UserWarning, text):
                augmenter = make()
            self.assertIs(augmenter(PIXELS, np.array([[0, 0, 0, 1, 1]]))[0], PIXELS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(image.DetRandomSelectAug([])(1, 2), (1, 2))


if __name__ == "__main__":
    case_runner.main()
