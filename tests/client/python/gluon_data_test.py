"""Datasets, samplers, DataLoader with and without workers, transforms, local image files."""

import functools
import gzip
import os
import signal
import struct
import tarfile
import tempfile
import time
import unittest

import gluond as mx
import numpy as np
from gluond import gluon, nd
from gluond.gluon import data
from gluond.gluon.data import _host
from gluond.gluon.data.vision import transforms
from gluond.progress import Progress
from tests import case_runner
from tests.client.python.array_case import ArrayCase

IMAGE = np.random.RandomState(0).randint(0, 256, (8, 6, 3)).astype("uint8")


GLOBAL = nd.array([3, 4])


def plus_global(x):
    return x + GLOBAL


def rows(loader):
    return [batch.asnumpy().tolist() for batch in loader]


class DatasetTest(ArrayCase):
    def setUp(self):
        self.x, self.y = nd.array(np.arange(24).reshape(12, 2)), nd.arange(12)
        self.dataset = data.ArrayDataset(self.x, self.y)

    def labels(self, dataset):
        return [int(dataset[i][1]) for i in range(len(dataset))]

    def test_samples_are_rows(self):
        row, label = self.dataset[3]
        self.assert_equal(row, [6, 7])
        self.assertEqual(label, 3)
        self.assertEqual(len(self.dataset), 12)
        with self.assertRaisesRegex(AssertionError, r"array\[1\] has 3"):
            data.ArrayDataset(self.x, [1, 2, 3])

    def test_parts_of_a_dataset(self):
        self.assertEqual(self.labels(self.dataset.filter(lambda sample: sample[1] % 3 == 0)), [0, 3, 6, 9])
        self.assertEqual(self.labels(self.dataset.take(2)), [0, 1])
        self.assertEqual([len(self.dataset.shard(5, i)) for i in range(5)], [3, 3, 2, 2, 2])
        self.assertEqual(self.labels(self.dataset.shard(5, 3)), [8, 9])
        self.assertEqual(self.labels(self.dataset.sample(data.SequentialSampler(2, 4))), [4, 5])

    def test_transforms_are_applied(self):
        both = self.dataset.transform(lambda x, y: (x * 2, y + 1))
        self.assert_equal(both[1][0], [4, 6])
        first = self.dataset.transform_first(lambda x: x + 1, lazy=False)
        self.assert_equal(first[1][0], [3, 4])
        self.assertEqual(data.SimpleDataset([1, 2]).transform(lambda x: x * 3)[1], 6)


class SamplerTest(unittest.TestCase):
    def test_orders(self):
        self.assertEqual(list(data.SequentialSampler(3, 2)), [2, 3, 4])
        self.assertEqual(sorted(data.RandomSampler(5)), list(range(5)))
        self.assertEqual(list(gluon.contrib.data.IntervalSampler(7, 3)), [0, 3, 6, 1, 4, 2, 5])

    def test_what_is_left_of_the_last_batch(self):
        for mode, expected in (("keep", [[0, 1, 2], [3, 4]]), ("discard", [[0, 1, 2]]), ("rollover", [[0, 1, 2]])):
            sampler = data.BatchSampler(data.SequentialSampler(5), 3, mode)
            self.assertEqual(len(sampler), len(expected))
            self.assertEqual(list(sampler), expected)
        self.assertEqual(list(sampler), [[3, 4, 0], [1, 2, 3]])


class DataLoaderTest(ArrayCase):
    def test_batches_of_arrays(self):
        dataset = data.ArrayDataset(nd.array(np.arange(10).reshape(5, 2)), np.arange(5))
        (x, y), (x2, y2) = data.DataLoader(dataset, 3)
        self.assert_equal(x, [[0, 1], [2, 3], [4, 5]])
        self.assert_equal(y, [0, 1, 2], np.int64)
        self.assert_equal(x2, [[6, 7], [8, 9]])
        self.assertEqual(rows(data.DataLoader(np.arange(5), 2, last_batch="discard")), [[0, 1], [2, 3]])

    def test_pinned_batches_are_in_pinned_memory(self):
        for workers in (0, 1):
            dataset = data.ArrayDataset(np.arange(4), np.arange(4))
            loader = data.DataLoader(dataset, 2, pin_memory=True, pin_device_id=1, num_workers=workers)
            for batch in loader:
                self.assertEqual([part.context for part in batch], [mx.cpu_pinned(1)] * 2)
                self.assert_equal(batch[0], batch[1].asnumpy())

    def test_shuffling_takes_every_sample_once(self):
        np.random.seed(0)
        loader = data.DataLoader(list(range(20)), 6, shuffle=True)
        one, other = sum(rows(loader), []), sum(rows(loader), [])
        self.assertEqual(sorted(one), list(range(20)))
        self.assertNotEqual(one, other)

    def test_workers_give_the_same(self):
        dataset = data.ArrayDataset(nd.array(np.arange(40).reshape(20, 2)), nd.arange(20)).transform(lambda x, y: (x * 2, y))
        expected = [[part.asnumpy().tolist() for part in batch] for batch in data.DataLoader(dataset, 6)]
        for arguments in ({"num_workers": 2}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 1, "prefetch": 1}):
            with self.subTest(**arguments):
                loader = data.DataLoader(dataset, 6, **arguments)
                for _ in range(2):
                    found = [[part.asnumpy().tolist() for part in batch] for batch in loader]
                    self.assertEqual(found, expected)

    def test_workers_have_the_arrays_that_a_dataset_holds(self):
        mean = nd.array([1, 2])

        class Held(data.Dataset):
            def __init__(self):
                self.rows, self.labels = nd.array(np.arange(12).reshape(6, 2)), ([nd.array([i]) for i in range(6)],)

            def __getitem__(self, idx):
                return self.rows[idx].asnumpy(), self.labels[0][idx]

            def __len__(self):
                return 6

        class Moved:
            def __init__(self, by):
                self.by = by

            def __call__(self, x):
                return x + self.by

            def twice(self, x):
                return sum([one + self.by for one in (x, x)])

        square = nd.array(np.arange(12).reshape(6, 2))
        rows = data.ArrayDataset(square)
        for name, dataset in (
            ("own", Held()),
            ("closure", Held().transform(lambda x, y: (nd.array(x) - mean, y))),
            ("simple", data.SimpleDataset(square)),
            ("array", square),
            ("first", data.ArrayDataset(square, square).transform_first(lambda x: x + 1)),
            ("object", rows.transform(Moved(mean))),
            ("method", rows.transform(Moved(mean).twice)),
            ("view", rows.transform(Moved(square[2]))),
            ("part", data.SimpleDataset(square[1:5])),
            ("partial", rows.transform(functools.partial(lambda y, x: x + y, mean))),
            ("default", rows.transform(lambda x, m=mean: x + m)),
            ("global", rows.transform(lambda x: [one + GLOBAL for one in (x,)][0])),
            ("helper", rows.transform(lambda x: plus_global(x))),
        ):
            with self.subTest(name):
                found, expected = (
                    [
                        [part.asnumpy().tolist() for part in (batch if isinstance(batch, list) else [batch])]
                        for batch in data.DataLoader(dataset, 4, num_workers=workers)
                    ]
                    for workers in (2, 0)
                )
                self.assertEqual(found, expected)

    def test_workers_give_ndarrays_to_functions_that_want_them(self):
        dataset = data.ArrayDataset(nd.array(np.arange(24).reshape(4, 2, 3)), np.arange(4))
        for name, samples, stack in (
            ("transform", dataset.transform(lambda x, y: (nd.transpose(x) / 2, y)), None),
            ("batches", dataset, lambda pairs: (nd.stack(*[x for x, _ in pairs]), nd.array([y for _, y in pairs]))),
        ):
            for arguments in ({}, {"thread_pool": True}):
                with self.subTest(name, **arguments):
                    found, expected = (
                        [
                            [part.asnumpy().tolist() for part in batch]
                            for batch in data.DataLoader(samples, 3, batchify_fn=stack, num_workers=workers, **arguments)
                        ]
                        for workers in (2, 0)
                    )
                    self.assertEqual(found, expected)

    def test_an_own_batch_function(self):
        loader = data.DataLoader([1, 2, 3, 4], 2, batchify_fn=lambda samples: nd.array([sum(samples)]))
        self.assertEqual(rows(loader), [[3], [7]])
        loader = data.DataLoader([1, 2, 3, 4], 2, batchify_fn=lambda samples: np.array([sum(samples)]), num_workers=1)
        self.assertEqual(rows(loader), [[3], [7]])

    def test_a_worker_s_error_reaches_the_program(self):
        def broken(x):
            raise KeyError("no such picture")

        for workers in (0, 1):
            with self.assertRaisesRegex(KeyError, "no such picture"):
                list(data.DataLoader(data.SimpleDataset([1, 2]).transform(broken), 1, num_workers=workers))

    def test_a_worker_that_dies_is_told(self):
        def deadly(x):
            os.kill(os.getpid(), signal.SIGKILL)

        with self.assertRaisesRegex(RuntimeError, "A worker of the DataLoader has ended with code -9"):
            list(data.DataLoader(data.SimpleDataset([1, 2]).transform(deadly), 1, num_workers=1))

    def test_a_worker_that_takes_too_long_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "Worker timed out after 0.2 seconds"):
            list(data.DataLoader(data.SimpleDataset([1, 2]).transform(time.sleep), 1, num_workers=1, timeout=0.2))

    def test_the_program_s_own_code_is_given_ndarrays_and_each_sample_once(self):
        asked = []

        class Rows(data.ArrayDataset):
            def __getitem__(self, idx):
                asked.append(idx)
                x, y = super().__getitem__(idx)
                return nd.flip(x, axis=0), y

        def halved(x, y):
            asked.append(type(x))
            return x / 2, y

        pictures = pictures_of(np.arange(6, dtype="uint8").reshape(3, 2))
        x, y = nd.array(np.arange(6).reshape(3, 2), dtype="uint8"), np.arange(3)
        for name, dataset, calls, expected in (
            ("transform", pictures.transform(halved), [nd.NDArray] * 3, [[0, 0], [1, 1], [2, 2]]),
            (
                "between",
                pictures.transform_first(transforms.Cast("float32")).transform(halved).transform_first(transforms.Cast("float32")),
                [nd.NDArray] * 3,
                [[0, 0.5], [1, 1.5], [2, 2.5]],
            ),
            ("subclass", Rows(x, y), [0, 1, 2], [[1, 0], [3, 2], [5, 4]]),
            ("list of one", data.SimpleDataset(Rows(x, y)), [0, 1, 2], [[1, 0], [3, 2], [5, 4]]),
        ):
            with self.subTest(name):
                asked.clear()
                ((batch, _),) = data.DataLoader(dataset, 3)
                self.assertEqual(asked, calls)
                self.assert_equal(batch, expected)

    def test_a_transform_that_chooses_by_chance_draws_once_for_each_sample(self):
        drawn = []

        def sometimes_flipped(x, y):
            drawn.append(np.random.uniform())
            return (nd.flip(x, axis=0), y) if drawn[-1] < 0.5 else (x, y)

        dataset = pictures_of(np.arange(12, dtype="uint8").reshape(6, 2)).transform(sometimes_flipped)
        for seed in range(4):
            drawn.clear()
            np.random.seed(seed)
            list(data.DataLoader(dataset, 3))
            np.random.seed(seed)
            self.assertEqual(drawn, [np.random.uniform() for _ in range(6)])

    def test_the_package_s_own_transforms_are_given_numpy_arrays(self):
        kinds = []

        class Spied(transforms.Cast):
            def apply_to(self, x):
                kinds.append(_host.active())
                return super().apply_to(x)

        Spied.__module__ = transforms.__name__
        for dataset in (pictures_of(np.zeros((3, 2), "uint8")), data.ArrayDataset(nd.zeros((3, 2)), nd.zeros(3))):
            list(data.DataLoader(dataset.transform_first(transforms.Compose([Spied()])), 3))
        self.assertEqual(kinds, [True] * 6)

    def test_wrong_arguments(self):
        for arguments, text in (
            ({}, "batch_size must be specified"),
            ({"batch_size": 1, "shuffle": True, "sampler": data.SequentialSampler(1)}, "shuffle must not be specified"),
            ({"batch_size": 1, "batch_sampler": data.SequentialSampler(1)}, "must not be specified if batch_sampler"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                data.DataLoader([1], **arguments)


def pictures_of(pixels):
    """A dataset of the package's, of pictures and their numbers."""
    dataset = data.vision.MNIST.__new__(data.vision.MNIST)
    dataset._data, dataset._label = pixels, np.arange(len(pixels))
    dataset._transform, dataset.host_ready = None, True
    return dataset


class TransformTest(ArrayCase):
    def test_arrays_of_either_kind(self):
        chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), 0.5)])
        expected = (IMAGE.transpose(2, 0, 1) / 255 - np.reshape([0.1, 0.2, 0.3], (3, 1, 1))) / 0.5
        np.testing.assert_allclose(chain(IMAGE), expected, rtol=1e-5)
        self.assert_close(chain(nd.array(IMAGE, dtype="uint8")), expected)
        self.assertEqual(transforms.ToTensor()(IMAGE[None]).shape, (1, 3, 8, 6))
        hybrid = transforms.HybridCompose([transforms.HybridRandomApply(chain, 1.0), transforms.HybridRandomApply(chain, 0.0)])
        np.testing.assert_allclose(hybrid(IMAGE), expected, rtol=1e-5)

    def test_a_hybrid_row_of_them(self):
        row = gluon.nn.HybridSequential()
        row.add(transforms.ToTensor(), transforms.Normalize(0.5, 0.25))
        image = nd.array(IMAGE, dtype="uint8")
        expected = (IMAGE.transpose(2, 0, 1) / 255 - 0.5) / 0.25
        for hybrid in (False, True):
            row.hybridize(hybrid)
            self.assert_close(row(image), expected)
        with self.assertRaisesRegex(TypeError, "ToTensor computes in the client"):
            row(mx.sym.var("x"))

    def test_sizes(self):
        for transform, shape in (
            (transforms.Resize(4), (4, 4)),
            (transforms.Resize((4, 2)), (2, 4)),
            (transforms.Resize(3, keep_ratio=True), (4, 3)),
            (transforms.CenterCrop((2, 4)), (4, 2)),
            (transforms.CenterCrop(10), (10, 10)),
            (transforms.RandomCrop(5, pad=1), (5, 5)),
            (transforms.RandomResizedCrop(4), (4, 4)),
            (transforms.CropResize(1, 2, 3, 4), (4, 3)),
        ):
            out = transform(IMAGE)
            self.assertEqual(out.shape, shape + (3,))
            self.assertEqual(out.dtype, np.uint8)

    def test_resizing_interpolates(self):
        line = np.array([[[0], [10]]], "float32")
        np.testing.assert_allclose(transforms.Resize((4, 1))(line)[0, :, 0], [0, 2.5, 7.5, 10])
        np.testing.assert_array_equal(transforms.Resize((6, 8))(IMAGE), IMAGE)

    def test_flips(self):
        np.testing.assert_array_equal(transforms.RandomFlipLeftRight(1.0)(IMAGE), IMAGE[:, ::-1])
        np.testing.assert_array_equal(transforms.RandomFlipTopBottom(1.0)(IMAGE), IMAGE[::-1])
        np.testing.assert_array_equal(transforms.RandomFlipTopBottom(0.0)(IMAGE), IMAGE)

    def test_colors_stay_images(self):
        for transform in (
            transforms.RandomBrightness(0.5),
            transforms.RandomContrast(0.5),
            transforms.RandomSaturation(0.5),
            transforms.RandomHue(0.5),
            transforms.RandomLighting(0.1),
            transforms.RandomColorJitter(0.2, 0.2, 0.2, 0.2),
            transforms.RandomGray(1.0),
        ):
            out = transform(IMAGE)
            self.assertEqual((out.shape, out.dtype), (IMAGE.shape, IMAGE.dtype))
        self.assertTrue((out == out[..., :1]).all())
        self.assertLess(np.abs(transforms.RandomHue(0.0)(IMAGE).astype(int) - IMAGE).max(), 3)

    def test_batches_are_resized_and_cut_image_by_image(self):
        batch = nd.array(np.random.RandomState(0).randint(0, 255, (2, 6, 5, 3)), dtype="uint8")
        for transform in (
            transforms.Resize(4),
            transforms.Resize((3, 2), interpolation=2),
            transforms.Resize(4, keep_ratio=True),
            transforms.CropResize(1, 2, 3, 4),
            transforms.CropResize(0, 0, 4, 4, (2, 3)),
            transforms.CenterCrop(4),
        ):
            whole = transform(batch)
            for place in range(2):
                self.assert_equal(whole[place], transform(batch[place]).asnumpy())

    def test_shapes_that_are_none(self):
        image = nd.ones((6, 5, 3))
        for transform, wrong in (
            (transforms.Resize(-4), image),
            (transforms.Resize((1, 2, 3)), image),
            (transforms.CropResize(0, 0, 9, 1), image),
            (transforms.CropResize(0, 0, -1, 1), image),
            (transforms.ToTensor(), nd.ones((2, 2))),
            (transforms.Normalize(0, 1), nd.ones((4, 5, 5))),
            (transforms.Normalize(0, 1), nd.ones((1, 1, 3, 2, 2))),
        ):
            with self.assertRaises(mx.base.WrongShape):
                transform(wrong)


class VisionTest(ArrayCase):
    def write(self, folder, packed):
        images = np.random.RandomState(1).randint(0, 256, (5, 28, 28)).astype("uint8")
        for part, content in (
            ("t10k-images-idx3", struct.pack(">4I", 0x803, 5, 28, 28) + images.tobytes()),
            ("t10k-labels-idx1", struct.pack(">2I", 0x801, 5) + bytes(range(5))),
        ):
            path = os.path.join(folder, part + "-ubyte" + (".gz" if packed else ""))
            with (gzip.open if packed else open)(path, "wb") as file:
                file.write(content)
        return images

    def test_local_files_are_read(self):
        for packed in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                images = self.write(folder, packed)
                dataset = data.vision.MNIST(folder, train=False)
                self.assertEqual(len(dataset), 5)
                image, label = dataset[2]
                self.assert_equal(image, images[2][..., None], np.uint8)
                self.assertEqual((label, label.dtype), (2, np.int32))
                some, labels = dataset[1:4]
                self.assertEqual(some.shape, (3, 28, 28, 1))
                ((x, y),) = data.DataLoader(dataset.transform_first(transforms.ToTensor()), 5)
                self.assert_close(x, images[:, None] / 255)
                self.assert_equal(y, np.arange(5), np.int32)

    def test_missing_and_broken_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "there is no train-images-idx3-ubyte.gz in .*downloads nothing"):
                data.vision.MNIST(folder)
            self.write(folder, False)
            with open(os.path.join(folder, "t10k-images-idx3-ubyte"), "r+b") as file:
                file.truncate(100)
            with self.assertRaisesRegex(ValueError, "is cut off"):
                data.vision.MNIST(folder, train=False)

    def test_cifar_is_read_from_files_and_from_its_archive(self):
        pixels = np.random.RandomState(1).randint(0, 256, (6, 3, 32, 32)).astype("uint8")
        ten, hundred = (b"".join(bytes([i, i + 10][:count]) + pixels[i].tobytes() for i in range(6)) for count in (1, 2))
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("test_batch.bin", ten), ("train.bin", hundred)):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(content)
            dataset = data.vision.CIFAR10(folder, train=False)
            self.assertEqual(len(dataset), 6)
            image, label = dataset[2]
            self.assert_equal(image, pixels[2].transpose(1, 2, 0), np.uint8)
            self.assertEqual((label, label.dtype), (2, np.int32))
            self.assertEqual(data.vision.CIFAR100(folder)[2][1], 2)
            self.assertEqual(data.vision.CIFAR100(folder, fine_label=True, transform=lambda x, y: y)[2], 12)
            with self.assertRaisesRegex(
                FileNotFoundError, "neither data_batch_1.bin nor cifar-10-binary.tar.gz in .*kriz/cifar-10"
            ):
                data.vision.CIFAR10(folder)
            with tarfile.open(os.path.join(folder, "cifar-10-binary.tar.gz"), "w:gz") as packed:
                for i in range(1, 6):
                    packed.add(os.path.join(folder, "test_batch.bin"), f"cifar-10-batches-bin/data_batch_{i}.bin")
            dataset = data.vision.CIFAR10(folder)
            self.assertEqual(len(dataset), 30)
            (x, y), *_ = data.DataLoader(dataset.transform_first(transforms.ToTensor()), 6)
            self.assert_close(x, pixels / 255)
            self.assert_equal(y, np.arange(6), np.int32)
            with open(os.path.join(folder, "test_batch.bin"), "r+b") as file:
                file.truncate(100)
            with self.assertRaisesRegex(ValueError, "test_batch.bin is cut off: 100 bytes"):
                data.vision.CIFAR10(folder, train=False)


class UtilsTest(ArrayCase):
    def test_batches_are_split(self):
        self.assertEqual([part.shape for part in gluon.utils.split_data(nd.arange(7), 3, even_split=False)], [(3,), (2,), (2,)])
        with self.assertRaisesRegex(ValueError, "cannot be evenly split into 3 slices"):
            gluon.utils.split_data(nd.arange(7), 3)
        first, second = gluon.utils.split_and_load(np.arange(4), [mx.cpu(0), mx.cpu(1)])
        self.assertEqual(second.context, mx.cpu(1))
        self.assert_equal(second, [2, 3])

    def test_gradients_are_clipped_together(self):
        arrays = [nd.array([3, 4]), nd.array([[12]])]
        self.assertEqual(gluon.utils.clip_global_norm(arrays, 20), 13.0)
        self.assert_equal(arrays[0], [3, 4])
        gluon.utils.clip_global_norm(arrays, 6.5)
        self.assert_close(arrays[0], [1.5, 2])
        self.assert_close(arrays[1], [[6]])
        norm = gluon.utils.clip_global_norm(arrays, 1, check_isfinite=False)
        self.assert_close(norm, [6.5])
        with self.assertWarnsRegex(UserWarning, "nan or inf is detected"):
            gluon.utils.clip_global_norm([nd.array([np.inf])], 1)

    def test_nothing_is_downloaded(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"abc")
            file.flush()
            self.assertTrue(gluon.utils.check_sha1(file.name, "a9993e364706816aba3e25717850c26c9cd0d89d"))
            self.assertEqual(gluon.utils.download("http://host/x", file.name), file.name)
            with self.assertRaisesRegex(FileNotFoundError, "has another SHA-1 .* downloads nothing"):
                gluon.utils.download("http://host/x", file.name, sha1_hash="00000000")

    def test_progress_remembers_what_it_shows(self):
        progress = Progress(range(4), "epoch", every=0.0)
        for i in progress:
            progress.show(loss=nd.array([i, i + 2]), rate=0.5)
        self.assertEqual(progress.history["loss"][-1], (4, 4.0))
        self.assertEqual(progress.history["rate"][0], (1, 0.5))


if __name__ == "__main__":
    case_runner.main()
