"""Files of arrays that Python writes are read and written by C++: the same bytes, which Python reads."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from gluond import nd
from tests import case_runner

DTYPES = "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"


def copied(path):
    """The file, read and written by C++."""
    again = path.with_name("again.params")
    subprocess.run([os.environ["COPY_ARRAYS"], path, again], check=True, timeout=60)
    return again


class FilesWithPythonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "x.params"

    def test_arrays_by_name_of_every_dtype(self):
        arrays = {f"of {dtype} ü": nd.array(np.arange(6).reshape(2, 3) % 2, dtype=dtype) for dtype in DTYPES}
        nd.save(str(self.path), arrays)
        again = copied(self.path)
        self.assertEqual(again.read_bytes(), self.path.read_bytes())
        loaded = nd.load(str(again))
        self.assertEqual(list(loaded), list(arrays))
        for name, array in arrays.items():
            self.assertEqual(loaded[name].dtype, array.dtype)
            np.testing.assert_array_equal(loaded[name].asnumpy(), array.asnumpy())

    def test_lists_and_files_of_nothing(self):
        for arrays in [nd.array([1, 2]), nd.array([[3]], dtype="int8")], [nd.array(np.zeros((2, 0)))], [], {}:
            with self.subTest(arrays=arrays):
                nd.save(str(self.path), arrays)
                self.assertEqual(copied(self.path).read_bytes(), self.path.read_bytes())


if __name__ == "__main__":
    case_runner.main()
