"""Files of records: bytes as MXNet 1.9.1 writes them, and damaged files."""

import os
import pickle
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import gluond as mx
import numpy as np
from gluond import recordio
from tests import case_runner
from tests.client.python.pillow_case import PillowCase

MAGIC = recordio.MAGIC
# Records and their bytes in MXNet's files.
FILES = {
    b"": "0a23d7ce 00000000",
    b"abcde": "0a23d7ce 05000000 6162636465 000000",
    MAGIC: "0a23d7ce 00000020 0a23d7ce 00000060",
    b"abcd" + MAGIC + b"x": "0a23d7ce 04000020 61626364 0a23d7ce 01000060 78000000",
    MAGIC + MAGIC: "0a23d7ce 00000020 0a23d7ce 00000040 0a23d7ce 00000060",
    b"abcde" + MAGIC: "0a23d7ce 09000000 6162636465 0a23d7ce 000000",
}


class RecordsTest(PillowCase):
    def records(self, *records):
        """A file of records with keys 0, 3, 6 and so on; its two paths."""
        paths = self.path("a.idx"), self.path("a.rec")
        writer = recordio.MXIndexedRecordIO(*paths, "w")
        for i, record in enumerate(records):
            writer.write_idx(3 * i, record)
        writer.close()
        return paths

    def test_files_are_mxnet_s(self):
        for record, expected in FILES.items():
            with self.subTest(record):
                path = self.path("a.rec")
                writer = recordio.MXRecordIO(path, "w")
                writer.write(record)
                writer.close()
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), bytes.fromhex(expected))
                reader = recordio.MXRecordIO(path, "r")
                self.assertEqual([reader.read(), reader.read()], [record, None])
                reader.close()

    def test_records_by_key(self):
        index, path = self.records(b"a", b"bb" * 9, b"", b"dddd" + MAGIC * 3)
        with open(index) as file:
            self.assertEqual(file.read(), "0\t0\n3\t12\n6\t40\n9\t48\n")
        reader = recordio.MXIndexedRecordIO(index, path, "r")
        self.assertEqual((reader.keys, reader.idx), ([0, 3, 6, 9], {0: 0, 3: 12, 6: 40, 9: 48}))
        found = [reader.read_idx(9), reader.read(), reader.read_idx(3)]
        self.assertEqual(found, [b"dddd" + MAGIC * 3, None, b"bb" * 9])
        reader.reset()
        self.assertEqual(reader.read(), b"a")
        reader.seek(6)
        self.assertEqual(reader.read(), b"")
        self.assertEqual(recordio.record_places(path), [0, 12, 40, 48])
        with self.assertRaises(KeyError):
            reader.read_idx(1)
        self.assertEqual(recordio.MXIndexedRecordIO(index, path, "r", key_type=str).keys, ["0", "3", "6", "9"])

    def test_the_place_of_the_next_record(self):
        writer = recordio.MXIndexedRecordIO(self.path("a.idx"), self.path("a.rec"), "w", key_type=str)
        places = [writer.tell()]
        for key in "ab":
            writer.write_idx(key, bytes(5))
            places.append(writer.tell())
        self.assertEqual((places, writer.keys), ([0, 16, 32], ["a", "b"]))
        writer.close()

    def test_a_reader_goes_to_another_process(self):
        paths = self.records(b"a", b"b", b"c")
        reader = recordio.MXIndexedRecordIO(*paths, "r")
        reader.seek(6)
        other = pickle.loads(pickle.dumps(reader))
        self.assertEqual([reader.read(), other.read(), other.read_idx(3)], [b"c", b"a", b"b"])
        child = os.fork()
        if child == 0:
            found = reader.read_idx(3) == b"b" and reader.read_idx(0) == b"a"
            os._exit(0 if found else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        reader.pid = -1  # As if a fork came between.
        with self.assertRaisesRegex(mx.MXNetError, "Forbidden operation in multiple processes"):
            reader.read()
        writer = recordio.MXRecordIO(paths[1], "w")
        with self.assertRaisesRegex(mx.MXNetError, "is being written"):
            pickle.dumps(writer)
        writer.close()
        self.assertFalse(pickle.loads(pickle.dumps(writer)).is_open)

    def test_threads_read_at_once(self):
        class Slow(recordio.MXIndexedRecordIO):
            def seek(self, idx):
                super().seek(idx)
                time.sleep(0.001)

        reader = Slow(*self.records(*(bytes([i]) for i in range(20))), "r")
        with ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(reader.read_idx, range(0, 60, 3))), [bytes([i]) for i in range(20)])

    def test_damaged_files(self):
        head = lambda place, size: MAGIC + struct.pack("<I", place << 29 | size)
        for content, text in (
            (b"text that is no record", "does not begin here, at byte 0"),
            (MAGIC + b"\1", "is cut off, at byte 0"),
            (head(0, 4) + b"abcd" + head(0, 5) + b"abcde", "is cut off, at byte 20"),
            (head(1, 4) + b"abcd", "is cut off, at byte 12"),
            (head(2, 0), "a part that does not follow, at byte 0"),
            (head(1, 0) + head(0, 0), "a part that does not follow, at byte 8"),
            (head(5, 0), "does not follow"),
        ):
            with self.subTest(text):
                reader = recordio.MXRecordIO(self.write("a.rec", content), "r")
                with self.assertRaisesRegex(mx.MXNetError, f"a.rec: Invalid RecordIO File: .*{text}"):
                    while reader.read() is not None:
                        pass
        self.records(b"a")
        self.write("a.idx", b"0\t0\nx\t3\n")
        with self.assertRaisesRegex(mx.MXNetError, "a.idx, line 2: a key, a tab and a number are .* it is 'x.t3'"):
            recordio.MXIndexedRecordIO(self.path("a.idx"), self.path("a.rec"), "r")

    def test_wrong_uses(self):
        index, path = self.records(b"a")
        reader = recordio.MXIndexedRecordIO(index, path, "r")
        for use, error, text in (
            (lambda: recordio.MXRecordIO(path, "a"), ValueError, "Invalid flag a"),
            (lambda: recordio.MXRecordIO(path + "x", "r"), mx.MXNetError, "No such file.*a.recx"),
            (lambda: recordio.MXIndexedRecordIO(index + "x", path, "r"), FileNotFoundError, "a.idxx"),
            (lambda: reader.write(b"b"), AssertionError, "is open to be read"),
            (reader.tell, AssertionError, "to be read"),
            (lambda: (reader.close(), reader.read()), mx.MXNetError, "is closed"),
        ):
            with self.assertRaisesRegex(error, text):
                use()


class PackTest(PillowCase):
    def test_records_of_labels(self):
        header = recordio.IRHeader(7, 4.5, 1, 2)
        self.assertEqual(repr(header), "HEADER(flag=7, label=4.5, id=1, id2=2)")
        self.assertEqual(pickle.loads(pickle.dumps(header)), header)
        packed = recordio.pack(header, b"ab")
        self.assertEqual(packed, struct.pack("<IfQQ", 0, 4.5, 1, 2) + b"ab")
        self.assertEqual(recordio.unpack(packed), ((0, 4.5, 1, 2), b"ab"))
        packed = recordio.pack((0, [1, 2], 3, 4), b"ab")
        self.assertEqual(packed, struct.pack("<IfQQff", 2, 0, 3, 4, 1, 2) + b"ab")
        header, content = recordio.unpack(packed)
        self.assertEqual((header.flag, header.label.tolist(), header.id, content), (2, [1, 2], 3, b"ab"))
        for cut, text in ((b"ab", "of 2 bytes has no place for its header.$"), (packed[:30], "header and 2 labels")):
            with self.assertRaisesRegex(mx.MXNetError, text):
                recordio.unpack(cut)

    def test_records_of_images(self):
        pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        packed = recordio.pack_img((0, 5, 6, 0), pixels, quality=9, img_fmt=".png")
        header, found = recordio.unpack_img(packed)
        self.assertEqual((header.label, header.id), (5, 6))
        self.assertEqual((found.dtype, found.tolist()), (np.uint8, pixels.tolist()))
        self.assert_equal(mx.image.imdecode(recordio.unpack(packed)[1]), pixels[..., ::-1])
        self.assertEqual(recordio.unpack_img(packed, 0)[1].shape, (2, 4))
        for picture, ending in ((pixels, ".txt"), (pixels[..., 0], ".png")):
            with self.assertRaisesRegex(mx.MXNetError, f"failed to encode an image as '{ending}'"):
                recordio.pack_img((0, 5, 6, 0), picture, img_fmt=ending)


if __name__ == "__main__":
    case_runner.main()
