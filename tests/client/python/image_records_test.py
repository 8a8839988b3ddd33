"""Datasets of images in files of records, and in lists."""

import os

import gluond as mx
import numpy as np
from gluond import recordio
from gluond.gluon.data import DataLoader, RecordFileDataset, vision
from tests import case_runner
from tests.client.python.pillow_case import PillowCase, file_of


class RecordsTest(PillowCase):
    def setUp(self):
        super().setUp()
        self.pixels = np.random.RandomState(0).randint(0, 256, (4, 2, 3, 3)).astype("uint8")
        writer = recordio.MXIndexedRecordIO(self.path("a.idx"), self.path("a.rec"), "w")
        for i, label in enumerate((7.0, 8.0, 9.0, [1, 2.5])):
            writer.write_idx(i, recordio.pack((0, label, i, 0), file_of(self.pixels[i])))
        writer.close()

    def test_records_are_bytes(self):
        dataset = RecordFileDataset(self.path("a.rec"))
        self.assertEqual((len(dataset), dataset[1]), (4, recordio.pack((0, 8.0, 1, 0), file_of(self.pixels[1]))))
        with self.assertRaisesRegex(mx.MXNetError, "No such file.*b.idx"):
            os.rename(self.path("a.rec"), self.path("b.rec"))
            RecordFileDataset(self.path("b.rec"))

    def test_records_are_images_and_labels(self):
        dataset = vision.ImageRecordDataset(self.path("a.rec"))
        self.assert_equal(dataset[2][0], self.pixels[2], np.uint8)
        self.assertEqual((dataset[2][1], dataset[3][1].tolist()), (9, [1, 2.5]))
        self.assertEqual(vision.ImageRecordDataset(self.path("a.rec"), 0)[0][0].shape, (2, 3, 1))
        changed = vision.ImageRecordDataset(self.path("a.rec"), transform=lambda x, y: (x.astype("float32") / 2, y + 1))
        self.assert_equal(changed[1][0], self.pixels[1] / 2)
        self.assertEqual(changed[1][1], 9)

    def test_batches_of_workers(self):
        dataset = vision.ImageRecordDataset(self.path("a.rec")).take(3).transform_first(vision.transforms.ToTensor())
        for workers in (0, 2):
            for threads in (False, True):
                batches = list(DataLoader(dataset, 2, num_workers=workers, thread_pool=threads))
                self.assertEqual([y.asnumpy().tolist() for _, y in batches], [[7, 8], [9]])
                self.assert_close(batches[1][0][0], self.pixels[2].transpose(2, 0, 1) / 255)

    def test_lists(self):
        for i in range(2):
            self.write(f"images/{i}.png", file_of(self.pixels[i]))
        listed = self.write("a.lst", b"5\t3\t1.png\n6\t4.5\t0.png\n\n")
        root = self.path("images")
        for images in (listed, [[3, "1.png"], [[4.5], "0.png"]]):
            dataset = vision.ImageListDataset(root, images)
            self.assertEqual([label.tolist() for _, label in (dataset[i] for i in range(len(dataset)))], [[3], [4.5]])
            self.assert_equal(dataset[0][0], self.pixels[1], np.uint8)
        dataset = vision.ImageListDataset(root, [[1, 2, "1.png"], [(3, 4), "0.png"]], flag=0)
        self.assertEqual([dataset[i][1].tolist() for i in range(2)], [[1, 2], [3, 4]])
        self.assertEqual(dataset[0][0].shape, (2, 3, 1))
        self.write("a.lst", b"5\t3\t1.png\nx\t3\t1.png\n")
        with self.assertRaisesRegex(mx.MXNetError, "a.lst, line 2: a number, labels and a path are expected"):
            vision.ImageListDataset(root, listed)


if __name__ == "__main__":
    case_runner.main()
