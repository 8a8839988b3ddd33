"""The build id changes with every file that the server and the GPU plugin compile apart and must agree on."""

import pathlib
import unittest

from tests import case_runner


def labels(name):
    return pathlib.Path("tests/gpu", name).read_text().split()


class BuildIdTest(unittest.TestCase):
    def test_covers_every_file_that_both_sides_compile(self):
        self.assertEqual(labels("outside_the_build_id"), [])

    def test_covers_parameters_of_operators_and_the_types_that_carry_them(self):
        covered = labels("inside_the_build_id")
        for label in ("//ops:convolution.cc", "//ops:window.h", "//ops/kernel:cuda/conv.cu", "//engine/core:node_attrs.h"):
            self.assertIn(label, covered)


if __name__ == "__main__":
    case_runner.main()
