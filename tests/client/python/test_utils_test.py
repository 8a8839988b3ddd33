"""The tools for tests: they find mistakes, and nothing else."""

import subprocess
import sys
import unittest

import numpy as np

import gluond as mx
from gluond import nd, test_utils
from tests import case_runner


class ComparingTest(unittest.TestCase):
    def test_the_tolerance_is_the_coarser_dtypes(self):
        a = np.array([1.0, 2.0])
        test_utils.assert_almost_equal(a.astype(np.float16), a * 1.001)
        self.assertTrue(test_utils.almost_equal(a.astype(np.float32), a + 1e-5))
        self.assertFalse(test_utils.almost_equal(a, a + 1e-4))
        self.assertFalse(test_utils.almost_equal(np.array([1]), np.array([2])))
        self.assertFalse(test_utils.almost_equal(np.ones((2, 1)), np.ones((2,)), use_broadcast=False))

    def test_the_report_names_the_worst_element(self):
        with self.assertRaisesRegex(AssertionError, r"(?s)Location of maximum error: \(1, 0\).*mine=3.*yours=5"):
            test_utils.assert_almost_equal(np.array([[1, 2], [3, 4.0]]), np.array([[1, 2.1], [5, 4]]), names=("mine", "yours"))

    def test_nan_is_unequal_unless_told(self):
        a = np.array([1, np.nan])
        with self.assertRaises(AssertionError):
            test_utils.assert_almost_equal(a, a)
        test_utils.assert_almost_equal(a, a, equal_nan=True)
        test_utils.assert_almost_equal_ignore_nan(a, np.array([1.0, 7.0]))

    def test_a_fraction_may_differ(self):
        a, b = np.zeros(100), np.zeros(100)
        b[:3] = 1
        test_utils.assert_almost_equal_with_err(a, b, etol=0.05)
        with self.assertRaises(AssertionError):
            test_utils.assert_almost_equal_with_err(a, b, etol=0.01)

    def test_arrays_and_numpy_arrays_compare(self):
        self.assertTrue(test_utils.same(mx.nd.ones((2,)), np.ones(2)))
        self.assertFalse(test_utils.same(mx.nd.ones((2,)), np.ones(3)))
        x = mx.nd.ones((2, 2))
        self.assertTrue(test_utils.same_array(x, x[:]))
        self.assertFalse(test_utils.same_array(x, x.copy()))


class CheckingTest(unittest.TestCase):
    def setUp(self):
        np.random.seed(0)
        self.x = mx.sym.Variable("x")

    def test_right_values_pass_and_wrong_ones_are_found(self):
        test_utils.check_symbolic_forward(self.x * 2, [np.ones(3)], [np.full(3, 2)])
        with self.assertRaisesRegex(AssertionError, "FORWARD_"):
            test_utils.check_symbolic_forward(self.x * 2, {"x": np.ones(3)}, [np.ones(3)])

    def test_right_gradients_pass_and_wrong_ones_are_found(self):
        for request in ("write", "add", "null"):
            test_utils.check_symbolic_backward(self.x * 2, [np.ones(3)], [np.arange(3)], {"x": 2 * np.arange(3)}, grad_req=request)
        with self.assertRaisesRegex(AssertionError, "BACKWARD_x"):
            test_utils.check_symbolic_backward(self.x * 2, [np.ones(3)], [np.ones(3)], [np.ones(3)])

    def test_numeric_gradients_agree_with_a_right_gradient(self):
        location = {"x": np.random.uniform(-1, 1, (2, 3))}
        for net in (mx.sym.sigmoid(self.x), self.x * self.x, mx.sym.softmax(self.x)):
            test_utils.check_numeric_gradient(net, location, numeric_eps=1e-3, rtol=1e-2, atol=1e-3)
        net = mx.sym.FullyConnected(self.x, num_hidden=2, name="fc")
        loss = mx.sym.ctc_loss(mx.sym.Variable("x"), mx.sym.Variable("label"))  # A label that is moved is no class.
        test_utils.check_numeric_gradient(loss, [np.random.randn(2, 1, 3), np.ones((1, 1))], grad_nodes=["x"], rtol=1e-2, atol=1e-2)
        test_utils.check_numeric_gradient(
            net,
            [np.random.randn(2, 3), np.random.randn(2, 3), np.random.randn(2)],
            numeric_eps=1e-2,
            rtol=1e-2,
            atol=1e-3,
            grad_nodes=["fc_weight"],
        )

    def test_and_find_a_wrong_one(self):
        wrong = mx.sym.BlockGrad(self.x) * self.x  # Half of the true gradient.
        with self.assertRaisesRegex(AssertionError, "NUMERICAL_x"):
            test_utils.check_numeric_gradient(wrong, [np.array([1.0, 2.0])])

    def test_dtypes_are_consistent(self):
        test_utils.check_consistency(
            mx.sym.FullyConnected(self.x, num_hidden=2, name="fc"),
            [{"ctx": mx.cpu(), "x": (2, 3), "type_dict": {"x": dtype}} for dtype in (np.float64, np.float32)],
            rtol=1e-3,
            atol=1e-3,
        )

    def test_simple_forward_gives_numpy_arrays(self):
        np.testing.assert_array_equal(test_utils.simple_forward(self.x * 2, x=np.ones(2)), [2, 2])

    def test_an_exception_may_come_when_the_server_has_tried(self):
        test_utils.assert_exception(nd.dot, mx.MXNetError, nd.ones((2, 3)), nd.ones((2, 3)))
        with self.assertRaisesRegex(AssertionError, "did not raise"):
            test_utils.assert_exception(nd.dot, mx.MXNetError, nd.ones((2, 3)), nd.ones((3, 2)))


class MakingTest(unittest.TestCase):
    def test_random_shapes_and_arrays_stay_within_their_bounds(self):
        for _ in range(20):
            self.assertTrue(all(1 <= size <= 4 for size in test_utils.rand_shape_nd(3, 4)))
        self.assertEqual(len(test_utils.rand_shape_2d()), 2)
        self.assertEqual(len(test_utils.rand_shape_3d()), 3)
        self.assertEqual(test_utils.rand_ndarray((2, 3)).shape, (2, 3))
        values = test_utils.rand_ndarray((50, 20), "csr", 0.5, modifier_func=lambda x: x + 1).asnumpy()
        self.assertTrue(0.3 < (values == 0).mean() < 0.7)
        self.assertGreaterEqual(values[values != 0].min(), 1)
        self.assertEqual(test_utils.random_arrays((2, 3)).shape, (2, 3))

    def test_contexts(self):
        self.assertEqual(test_utils.default_context(), mx.cpu())
        self.addCleanup(test_utils.set_default_context, mx.cpu())
        test_utils.set_default_context(mx.cpu(1))
        self.assertEqual((test_utils.default_context(), mx.nd.ones((1,)).context), (mx.cpu(1), mx.cpu(1)))
        self.assertEqual(len(test_utils.list_gpus()), mx.context.num_gpus())

    def test_structures_compare_without_names(self):
        x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
        self.assertTrue(test_utils.same_symbol_structure(x + x * 2, y + y * 2))
        self.assertFalse(test_utils.same_symbol_structure(x + x * 2, y * 2 + y))

    def test_the_environment_is_restored(self):
        import os

        with test_utils.environment("GLUOND_TEST_X", "1"):
            self.assertEqual(os.environ["GLUOND_TEST_X"], "1")
            with test_utils.environment({"GLUOND_TEST_X": None}):
                self.assertNotIn("GLUOND_TEST_X", os.environ)
        self.assertNotIn("GLUOND_TEST_X", os.environ)

    def test_numpy_helpers(self):
        a = np.arange(24.0).reshape(2, 3, 4)
        np.testing.assert_array_equal(test_utils.collapse_sum_like(a, (3, 1)), a.sum((0, 2)).reshape(3, 1))
        np.testing.assert_array_equal(test_utils.collapse_sum_like(a, (2, 3, 4)), a)
        with self.assertRaisesRegex(AssertionError, "does not broadcast"):
            test_utils.collapse_sum_like(a, (2, 1))
        np.testing.assert_array_equal(test_utils.assign_each(a, lambda x: x * 2), a * 2)
        np.testing.assert_array_equal(test_utils.assign_each2(a, a + 1, lambda x, y: y - x), np.ones((2, 3, 4)))
        np.testing.assert_array_equal(test_utils.create_2d_tensor(2, 3).asnumpy(), [[0, 0, 0], [1, 1, 1]])
        self.assertEqual(test_utils.create_vector(3).dtype, np.int64)


class OptimizerTest(unittest.TestCase):
    def test_equal_optimizers_pass_and_others_do_not(self):
        make = mx.optimizer.create
        for shape in ((3, 4), [(2,), (3, 2)]):
            test_utils.compare_optimizer(make("sgd", momentum=0.9), make("sgd", momentum=0.9), shape, "float32")
            with self.assertRaisesRegex(AssertionError, "Items are not equal"):
                test_utils.compare_optimizer(make("sgd", momentum=0.9), make("adam"), shape, np.float32, compare_states=False)
        test_utils.compare_optimizer(make("adam", multi_precision=True), make("adam", multi_precision=True), (3,), "float16")
        with self.assertRaises(AssertionError):  # The states alone differ: the first step of both is wd * weight.
            test_utils.compare_optimizer(make("sgd", momentum=0.9), make("nag", momentum=0.9, learning_rate=0.1), (3,), "float32")


class DistributionTest(unittest.TestCase):
    def setUp(self):
        mx.random.seed(1)

    def test_a_generator_of_its_distribution_passes(self):
        import statistics

        ranges, probs = test_utils.gen_buckets_probs_with_ppf(
            lambda p: -np.inf if p == 0 else np.inf if p == 1 else statistics.NormalDist(1, 2).inv_cdf(p), 5
        )
        self.assertEqual(probs, [0.2] * 5)
        for scale, good in ((2, True), (2.1, False)):
            normal = lambda n: mx.nd.random.normal(1, scale, (n,))
            self.assertEqual(test_utils.var_check(normal, 2, 50000), good)
            self.assertEqual(test_utils.chi_square_check(normal, ranges, probs, 50000)[0] > 0.001, good)
        self.assertTrue(test_utils.mean_check(normal, 1, 2.1, 50000))
        self.assertFalse(test_utils.mean_check(normal, 1.1, 2.1, 50000))

    def test_discrete_values(self):
        faces = list(range(6))
        test_utils.verify_generator(lambda n: mx.nd.random.randint(0, 6, (n,)), faces, [1 / 6] * 6, 20000)
        with self.assertRaisesRegex(AssertionError, "Generator test fails"):
            test_utils.verify_generator(lambda n: mx.nd.random.randint(0, 7, (n,)), faces, [1 / 6] * 6, 20000)

    def test_the_tail_of_chi_square(self):
        counts = {
            2: np.array([45, 55]),
            3: np.array([30, 30, 40]),
            4: np.array([20, 20, 25, 35]),
            6: np.array([9, 14, 8, 12, 7, 10]),
        }
        for size, expected in {2: 0.317311, 3: 0.367879, 4: 0.111610, 6: 0.638570}.items():
            samples = np.repeat(np.arange(size), counts[size])
            p, found, _ = test_utils.chi_square_check(lambda n: samples, list(range(size)), [1 / size] * size, len(samples))
            np.testing.assert_array_equal(found, counts[size])
            self.assertAlmostEqual(p, expected, 5)


class ToolsTest(unittest.TestCase):
    def test_tolerances_may_be_given_by_dtype(self):
        half, single = np.ones(2, np.float16), np.full(2, 1.05, np.float32)
        test_utils.assert_almost_equal(half, single, rtol={np.dtype("float16"): 0.1, np.dtype("float32"): 0.001})
        self.assertEqual(test_utils.get_tols(half, 1.0, None, {np.dtype("float16"): 0.5}), (1e-2, 0.5))
        self.assertEqual(test_utils.effective_dtype(single), np.float32)

    def test_an_iterator_that_gives_one_batch_again_and_again(self):
        iterator = test_utils.DummyIter(mx.io.NDArrayIter(np.arange(6), batch_size=2))
        self.assertIs(next(iterator), next(iterator))
        self.assertEqual(iterator.provide_data, [("data", (2,))])

    def test_what_is_written_to_the_standard_error_is_lost(self):
        script = (
            "from gluond import test_utils; import os\nwith test_utils.discard_stderr(): os.write(2, b'lost')\nos.write(2, b'told')"
        )
        told = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=True).stderr
        self.assertTrue(told.endswith(b"told") and b"lost" not in told, told)

    def test_matrices(self):
        symmetric = test_utils.new_sym_matrix_with_real_eigvals_nd((2, 3, 3))
        np.testing.assert_allclose(symmetric, symmetric.swapaxes(1, 2))
        self.assertLess(abs(np.linalg.eigvals(test_utils.new_matrix_with_real_eigvals_nd((2, 3, 3))).imag).max(), 1e-9)
        rows = test_utils.new_orthonormal_matrix_2d(4)
        np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=1e-12)
        self.assertEqual(len(set(test_utils.random_sample(list(range(9)), 5))), 5)
        self.assertEqual([each.shape for each in test_utils.random_uniform_arrays((2,), (3, 4), low=1, high=2)], [(2,), (3, 4)])


if __name__ == "__main__":
    case_runner.main()
