"""Files in MXNet's `.params` format: files of MXNet 1.9.1 are read, the same bytes are written, and a damaged file
is an error."""

import os
import struct
import tempfile

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

# mx.nd.save of {"w": [[1, 2]] in float32, "n": [3] in int32}, by MXNet 1.9.1.
BY_MXNET = bytes.fromhex(
    "12010000000000000000000000000000"
    "0200000000000000"
    "c9fa93f9"
    "00000000"
    "02000000"
    "0100000000000000"
    "0200000000000000"
    "01000000"
    "00000000"
    "00000000"
    "0000803f00000040"
    "c9fa93f9"
    "00000000"
    "01000000"
    "0100000000000000"
    "01000000"
    "00000000"
    "04000000"
    "03000000"
    "0200000000000000"
    "0100000000000000"
    "77"
    "0100000000000000"
    "6e"
)
# The forms before: 1 without a storage type, 0 with the number of dimensions where later ones have a magic number.
VERSION_1 = bytes.fromhex("c8fa93f9" "01000000" "0200000000000000" "01000000" "00000000" "00000000" "0000803f00000040")
VERSION_0 = bytes.fromhex("01000000" "02000000" "01000000" "00000000" "00000000" "0000803f00000040")
LIST_OF_ONE = struct.pack("<QQQ", 0x112, 0, 1)
NO_NAMES = struct.pack("<Q", 0)


class ParamsFileTest(ArrayCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "x.params")

    def saved(self, data):
        nd.save(self.path, data)
        with open(self.path, "rb") as file:
            return file.read()

    def test_the_bytes_are_mxnet_s(self):
        self.assertEqual(self.saved({"w": nd.array([[1, 2]]), "n": nd.array([3], dtype="int32")}), BY_MXNET)

    def test_mxnet_s_bytes_are_read(self):
        loaded = nd.load_frombuffer(BY_MXNET)
        self.assertEqual(list(loaded), ["w", "n"])
        self.assert_equal(loaded["w"], [[1, 2]], np.float32)
        self.assert_equal(loaded["n"], [3], np.int32)

    def test_older_versions_are_read(self):
        for array in (VERSION_1, VERSION_0):
            self.assert_equal(nd.load_frombuffer(LIST_OF_ONE + array + NO_NAMES)[0], [1, 2], np.float32)

    def test_every_dtype_comes_back(self):
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"):
            values = np.array([[0, 1, 1]]).astype(dtype)
            nd.save(self.path, [nd.from_numpy(values)])
            self.assert_equal(nd.load(self.path)[0], values, np.dtype(dtype).type)

    def test_names_make_a_dict_and_no_names_a_list(self):
        nd.save(self.path, {"é": nd.ones(1)})
        self.assertEqual(list(nd.load(self.path)), ["é"])
        nd.save(self.path, [nd.ones(1), nd.zeros(2)])
        self.assertEqual([each.shape for each in nd.load(self.path)], [(1,), (2,)])
        nd.save(self.path, nd.ones(3))
        self.assertEqual(nd.load(self.path)[0].shape, (3,))

    def test_only_arrays_are_saved(self):
        for data in ([1], {"a": 1}, {1: nd.ones(1)}):
            with self.assertRaisesRegex(TypeError, "save only accept"):
                nd.save(self.path, data)
        with self.assertRaises(ValueError):
            nd.save(self.path, 1)

    def test_a_file_that_ends_too_soon_is_an_error(self):
        for size in range(len(BY_MXNET)):
            with self.assertRaises(mx.MXNetError):
                nd.load_frombuffer(BY_MXNET[:size])

    def test_a_damaged_byte_is_an_error_or_another_value(self):
        for place in range(len(BY_MXNET)):
            for value in (0x00, 0x7F, 0xFF):
                damaged = BY_MXNET[:place] + bytes([value]) + BY_MXNET[place + 1 :]
                try:
                    nd.load_frombuffer(damaged)
                except mx.MXNetError:
                    pass

    def test_huge_numbers_allocate_nothing(self):
        huge = 1 << 62
        for data in (
            struct.pack("<QQQ", 0x112, 0, huge),
            LIST_OF_ONE + VERSION_1[:8] + struct.pack("<q", huge) + VERSION_1[16:],
            LIST_OF_ONE + struct.pack("<I", 1 << 31) + bytes(100),
        ):
            with self.assertRaises(mx.MXNetError):
                nd.load_frombuffer(data)

    def test_sparse_arrays_are_refused_by_name(self):
        with self.assertRaisesRegex(mx.MXNetError, "sparse"):
            nd.load_frombuffer(LIST_OF_ONE + struct.pack("<Ii", 0xF993FAC9, 1) + bytes(64))


if __name__ == "__main__":
    case_runner.main()
