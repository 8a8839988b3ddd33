"""--tf32: a GPU rounds float32 to 10 bits of fraction before it multiplies. GLUOND_TF32 says which server runs."""

import os
import unittest

import numpy as np

import gluond as mx
from gluond import nd
from tests import case_runner

# The largest error of a product of TF32, relative to the sums here, and that of float32.
ROUNDED, EXACT = 2e-3, 2e-6


class Tf32Test(unittest.TestCase):
    def errors(self, compute):
        """The differences between a GPU's results and the CPU's."""
        want = compute(mx.cpu()).asnumpy()
        return np.abs(compute(mx.gpu(0)).asnumpy() - want).max() / np.abs(want).max()

    def setUp(self):
        random = np.random.RandomState(1)
        self.x = random.uniform(1, 2, (2, 3, 8, 8)).astype("float32")
        self.w = random.uniform(1, 2, (4, 3, 3, 3)).astype("float32")

    def test_convolutions(self):
        error = self.errors(
            lambda c: nd.Convolution(nd.array(self.x, ctx=c), nd.array(self.w, ctx=c), no_bias=True, kernel=(3, 3), num_filter=4)
        )
        self.expect(error, rounded=os.environ["GLUOND_TF32"] in ("conv", "all"))

    def test_products(self):
        error = self.errors(lambda c: nd.dot(nd.array(self.x.reshape(2, -1), ctx=c), nd.array(self.x.reshape(2, -1).T, ctx=c)))
        self.expect(error, rounded=os.environ["GLUOND_TF32"] == "all")

    def expect(self, error, rounded):
        self.assertLess(error, ROUNDED if rounded else EXACT)
        if rounded:
            self.assertGreater(error, EXACT)


if __name__ == "__main__":
    case_runner.main()
