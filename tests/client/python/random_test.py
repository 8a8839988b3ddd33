"""Random arrays: their distributions, and the seed."""

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

N = 20000


class RandomTest(ArrayCase):
    def check(self, array, mean, variance):
        values = array.asnumpy().astype(np.float64)
        self.assertEqual(values.shape, (N,))
        self.assertAlmostEqual(values.mean(), mean, delta=0.05 * max(1, abs(mean)))
        self.assertAlmostEqual(values.var(), variance, delta=0.1 * max(1, variance))

    def test_distributions_have_their_mean_and_variance(self):
        mx.random.seed(1)
        for array, mean, variance in (
            (mx.random.uniform(-1, 3, shape=N), 1, 16 / 12),
            (mx.random.normal(2, 3, shape=(N,)), 2, 9),
            (mx.random.randn(N), 0, 1),
            (mx.random.poisson(4, shape=N), 4, 4),
            (mx.random.exponential(2, shape=N), 2, 4),
            (mx.random.gamma(3, 2, shape=N), 6, 12),
            (mx.random.negative_binomial(3, 0.5, shape=N), 3, 6),
            (mx.random.generalized_negative_binomial(2, 0.5, shape=N), 2, 4),
        ):
            self.check(array, mean, variance)

    def test_a_seed_repeats_the_numbers(self):
        draws = []
        for seed in (7, 7, 8):
            mx.random.seed(seed)
            draws.append(np.concatenate([nd.random.uniform(shape=5).asnumpy(), nd.random.normal(shape=5).asnumpy()]))
        np.testing.assert_array_equal(draws[0], draws[1])
        self.assertFalse(np.array_equal(draws[0], draws[2]))

    def test_the_default_is_one_number(self):
        self.assertEqual(nd.random.uniform().shape, (1,))
        self.assertEqual(nd.uniform(shape=(4, 3)).shape, (4, 3))

    def test_integers(self):
        values = nd.random.randint(3, 6, shape=1000)
        self.assertEqual(values.dtype, np.int32)
        self.assertEqual(set(values.asnumpy()), {3, 4, 5})

    def test_parameters_may_be_arrays(self):
        values = nd.random.uniform(nd.array([0, 10]), nd.array([1, 20]), shape=100).asnumpy()
        self.assertEqual(values.shape, (2, 100))
        self.assertTrue((values[0] <= 1).all() and (values[1] >= 10).all())

    def test_multinomial_draws_indices(self):
        values = nd.random.multinomial(nd.array([[0, 1, 0], [0, 0, 1]]), shape=5)
        self.assert_equal(values, [[1] * 5, [2] * 5], np.int32)

    def test_shuffle_keeps_the_rows(self):
        values = nd.random.shuffle(nd.arange(100)).asnumpy()
        self.assertFalse(np.array_equal(values, np.arange(100)))
        np.testing.assert_array_equal(np.sort(values), np.arange(100))


if __name__ == "__main__":
    case_runner.main()
