"""Operators that the package makes of the server's. The figures are those of MXNet 1.9.1."""

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._composed.shapes import NoGraph
from gluond._composed.table import COMPOSED
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.composed_case import THETA, checked_gradient, image


class SeveralWeightsTest(ArrayCase):
    """Optimizers' steps on several weights, against the formulas in numpy."""

    def arrays(self, dtype="float32"):
        return [nd.array(self.random.uniform(-1, 1, shape), dtype=dtype) for shape in ((2, 3), (4,))]

    def setUp(self):
        self.random = np.random.RandomState(2)

    def test_lamb(self):
        for is_half in (False, True):
            weights, grads, means, variances = (self.arrays() for _ in range(4))
            variances = [array * array for array in variances]
            copies = [array.copy() for array in weights]
            if is_half:
                weights = [array.astype("float16") for array in weights]
            before = [[array.asnumpy() for array in arrays] for arrays in (weights, copies, grads, means, variances)]
            step = {"step_count": [1, 3], "lrs": [0.1, 0.2], "wds": [0.01, 0], "out": weights, "beta1": 0.8, "epsilon": 1e-3}
            if is_half:
                grads = [array.astype("float16") for array in grads]
                nd.contrib.multi_mp_lamb_update(weights, grads, means, variances, copies, **step)
            else:
                nd.contrib.multi_lamb_update(weights, grads, means, variances, **step)
            for number, (weight, copy, g, mean, variance) in enumerate(zip(*before)):
                g = grads[number].asnumpy().astype(np.float32)
                mean, variance, count = 0.8 * mean + 0.2 * g, 0.999 * variance + 0.001 * g * g, step["step_count"][number]
                moved = mean / (1 - 0.8**count) / (np.sqrt(variance / (1 - 0.999**count)) + 1e-3) + step["wds"][number] * copy
                ratio = np.linalg.norm(weight.astype(float)) / np.linalg.norm(moved)
                self.assert_close(copies[number] if is_half else weights[number], copy - step["lrs"][number] * ratio * moved, 1e-4)
                self.assert_close(means[number], mean, 1e-5)
                self.assert_close(variances[number], variance, 1e-5)
                self.assert_close(weights[number], copy - step["lrs"][number] * ratio * moved, 2e-3 if is_half else 1e-4)

    def test_rates_in_arrays(self):
        lrs, wds = nd.array([0.1, 0.2]), nd.array([0.01, 0.3])
        for has_momentum in (False, True):
            for is_half in (False, True):
                weights, grads = (self.arrays("float16" if is_half else "float32") for _ in range(2))
                states = [self.arrays()] * has_momentum
                copies = [array.astype("float32") for array in weights]
                before = [[array.asnumpy().astype(np.float32) for array in arrays] for arrays in (weights, grads, *states)]
                function = getattr(nd, f"preloaded_multi_{'mp_' * is_half}sgd{'_mom' * has_momentum}_update")
                momentum = {"momentum": 0.9} if has_momentum else {}
                arrays = [array for group in zip(weights, grads, *states, *[copies] * is_half) for array in group]
                function(*arrays, lrs, wds, num_weights=2, rescale_grad=0.5, clip_gradient=0.2, out=weights, **momentum)
                for number, (weight, grad, *velocity) in enumerate(zip(*before)):
                    change = lrs.asnumpy()[number] * (np.clip(0.5 * grad, -0.2, 0.2) + wds.asnumpy()[number] * weight)
                    change = 0.9 * velocity[0] - change if has_momentum else -change
                    self.assert_close(weights[number], weight + change, 2e-3 if is_half else 1e-6)
                    if is_half:
                        self.assert_close(copies[number], weight + change, 1e-6)
                    if has_momentum:
                        self.assert_close(states[0][number], change, 1e-6)


class FourierTest(ArrayCase):
    def test_transforms(self):
        for shape in ((3, 7), (2, 2, 3, 8)):
            x = np.random.RandomState(0).uniform(-1, 1, shape)
            found, expected = nd.contrib.fft(nd.array(x)), np.fft.fft(x)
            self.assert_close(found, np.stack([expected.real, expected.imag], -1).reshape(shape[:-1] + (-1,)), 1e-5)
            self.assert_close(nd.contrib.ifft(found) / shape[-1], x, 1e-5)
        long = np.random.RandomState(0).uniform(-1, 1, (1, 1500))
        self.assert_close(nd.contrib.fft(nd.array(long))[0, ::2], np.fft.fft(long)[0].real, 1e-3)

    def test_gradients(self):
        for function in (nd.contrib.fft, nd.contrib.ifft):
            checked_gradient(self, function, nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 6))), 1e-4)


class MatrixTest(ArrayCase):
    def test_products_of_columns(self):
        self.assert_equal(
            nd.khatri_rao(nd.array([[1, 2], [3, 4]]), nd.array([[5, 6], [7, 8]])), [[5, 12], [7, 16], [15, 24], [21, 32]]
        )

    def test_sketches(self):
        h, s = nd.array([[0, 2, 2, 1]]), nd.array([[1, -1, 1, -1]])
        x = nd.array([[1, 2, 3, 4], [5, 6, 7, 9]])
        self.assert_equal(nd.contrib.count_sketch(x, h, s, out_dim=4), [[1, -4, 1, 0], [5, -9, 1, 0]])
        self.assert_equal(
            nd.contrib.count_sketch(x.reshape((1, 2, 1, 4)), h, s, out_dim=4).reshape((2, 4)), [[1, -4, 1, 0], [5, -9, 1, 0]]
        )
        checked_gradient(self, lambda data: nd.contrib.count_sketch(data, h, s, out_dim=4), x, 1e-4)

    def test_triangles(self):
        x = nd.arange(9).reshape((1, 3, 3))
        for how, packed in (
            ({}, [0, 3, 4, 6, 7, 8]),
            ({"offset": 1}, [1, 2, 5]),
            ({"offset": -1}, [3, 6, 7]),
            ({"lower": False}, [0, 1, 4, 2, 5, 8]),
        ):
            found = nd.linalg.extracttrian(x, **how)
            self.assert_equal(found, [packed])
            whole = nd.linalg.maketrian(found, **how)
            self.assert_equal(nd.linalg.extracttrian(whole, **how), [packed])
            self.assertEqual(whole.sum().asscalar(), sum(packed))

    def test_factors_with_orthonormal_rows(self):
        a = nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 3, 5)), dtype="float64")
        rows, triangle = nd.linalg.gelqf(a)
        self.assert_close(nd.linalg.gemm2(triangle, rows), a.asnumpy(), 1e-10)
        self.assert_close(nd.linalg.gemm2(rows, rows, transpose_b=True), np.broadcast_to(np.eye(3), (2, 3, 3)), 1e-10)
        self.assert_close(triangle, np.tril(triangle.asnumpy()))


class ElementTest(ArrayCase):
    def test_formulas(self):
        self.assert_equal(nd.contrib.quadratic(nd.array([[1, 2], [3, 4]]), a=1, b=2, c=3), [[6, 11], [18, 27]])
        self.assert_equal(nd.contrib.round_ste(nd.array([-1.5, 0.4, 2.5])), [-2, 0, 3])

    def test_gradients_that_are_not_those_of_the_values(self):
        for function, gradient in (
            (nd.contrib.round_ste, 1),
            (nd.contrib.sign_ste, 1),
            (lambda x: nd.contrib.gradientmultiplier(x, scalar=-0.5), -0.5),
        ):
            x = nd.array([0.3, -2.7])
            x.attach_grad()
            with autograd.record():
                y = function(x) * 2
            y.backward()
            self.assert_equal(x.grad, [gradient * 2, gradient * 2])

    def test_sync_batch_norm_tells_the_variance(self):
        x = nd.array([[1], [5]])
        with autograd.record():
            _, mean, variance = nd.contrib.SyncBatchNorm(
                x, nd.ones(1), nd.zeros(1), nd.zeros(1), nd.ones(1), key="a", output_mean_var=True, eps=0.5
            )
        self.assert_close(mean, [3])
        self.assert_close(variance, [4], 1e-5)

    def test_places(self):
        self.assert_equal(nd.contrib.index_array(nd.zeros((2, 2))), [[[0, 0], [0, 1]], [[1, 0], [1, 1]]])
        self.assert_equal(nd.contrib.index_array(nd.zeros((2, 2)), axes=(1,)), [[[0], [1]], [[0], [1]]])
        self.assert_equal(
            nd.contrib.index_copy(nd.zeros((3, 2)), nd.array([2, 0]), nd.array([[1, 2], [3, 4]])), [[3, 4], [0, 0], [1, 2]]
        )

    def test_arrays_of_any_type_become_zeros(self):
        arrays = [nd.ones(2), nd.ones((1, 3), dtype="float16")]
        nd.reset_arrays(*arrays, num_arrays=2)
        for array in arrays:
            self.assertEqual(array.sum().asscalar(), 0)

    def test_densities(self):
        sample = nd.array([[1, 2], [1, 3]])
        for name, parameters, expected in (
            ("normal", ([1, 2], [1, 0.5]), [[0.39894, 0.24197], [0.10798, 0.10798]]),
            ("gamma", ([1, 2], [1, 0.5]), [[0.36788, 0.13534], [0.15163, 0.16735]]),
            ("exponential", ([1, 0.5],), [[0.36788, 0.13534], [0.30327, 0.11157]]),
            ("poisson", ([1, 2],), [[0.36788, 0.18394], [0.27067, 0.18045]]),
            ("negative_binomial", ([1, 2], [0.4, 0.5]), [[0.24, 0.144], [0.25, 0.125]]),
        ):
            self.assert_close(getattr(nd, f"random_pdf_{name}")(sample, *map(nd.array, parameters)), expected, 1e-4)
        self.assert_close(nd.random_pdf_uniform(nd.array([[0.5, 0.7]]), nd.array([0]), nd.array([2])), [[0.5, 0.5]])
        self.assert_close(nd.random_pdf_dirichlet(nd.array([[[0.4, 0.6], [0.3, 0.7]]]), nd.array([[1, 2]])), [[1.2, 1.4]], 1e-5)
        self.assert_close(
            nd.random_pdf_generalized_negative_binomial(sample, nd.array([1, 2]), nd.array([0.4, 0.5]), is_log=True),
            [[-1.17765, -1.8708], [-1.38629, -2.07944]],
            1e-4,
        )


class SymbolTest(ArrayCase):
    def test_each_is_a_symbol_or_says_why_not(self):
        for name in COMPOSED:
            with self.subTest(name):
                self.assertTrue(callable(getattr(mx.sym._internal, name)))
        with self.assertRaisesRegex(NoGraph, "sym.contrib.index_array is no graph: it needs the shape.*runs on arrays"):
            mx.sym.contrib.index_array(mx.sym.var("x"))

    def test_symbols_compute_the_same_and_have_the_name_that_they_are_given(self):
        data, grid = image(), nd.GridGenerator(THETA, transform_type="affine", target_shape=(2, 3))
        out = mx.sym.BilinearSampler(mx.sym.var("data"), mx.sym.var("grid"), name="sampled")
        self.assertEqual(out.list_outputs(), ["sampled_output"])
        self.assertEqual(out.infer_shape(data=(2, 3, 4, 4), grid=(2, 2, 5, 6))[1], [(2, 3, 5, 6)])
        self.assert_close(out.bind(mx.cpu(), {"data": data, "grid": grid}).forward()[0], nd.BilinearSampler(data, grid).asnumpy())

    def test_arguments_of_a_symbol_stand_in_mxnets_order(self):
        densities = {
            "uniform": "low high",
            "normal": "mu sigma",
            "gamma": "alpha beta",
            "exponential": "lam",
            "poisson": "lam",
            "negative_binomial": "k p",
            "generalized_negative_binomial": "mu alpha",
            "dirichlet": "alpha",
        }
        for make, names in (
            (mx.sym.contrib.box_encode, "samples matches anchors refs means stds"),
            (lambda *x: mx.sym.contrib.count_sketch(*x, out_dim=2), "data h s"),
            (lambda *x: mx.sym.contrib.interleaved_matmul_encdec_valatt(*x, heads=2), "keys_values attention"),
            (mx.sym.BilinearSampler, "data grid"),
            (mx.sym.linalg.gemm, "a b c"),
            (mx.sym.khatri_rao, "a b"),
            *((getattr(mx.sym, f"random_pdf_{name}"), f"sample {rest}") for name, rest in densities.items()),
        ):
            with self.subTest(names):
                made = make(*map(mx.sym.var, names.split()))
                self.assertEqual(mx.sym.Group(list(made)).list_arguments(), names.split())

    def test_older_names_are_their_operators(self):
        out = mx.sym.BatchNorm_v1(mx.sym.var("x"), name="bn")
        self.assertEqual(out.list_arguments(), ["x", "bn_gamma", "bn_beta"])
        self.assert_close(nd.Pooling_v1(image(), kernel=(2, 2), stride=(2, 2), pool_type="max"), [[[[5, 7], [13, 15]]]])

    def test_results_go_into_given_arrays(self):
        out = nd.zeros((2, 2))
        nd.contrib.quadratic(nd.ones((2, 2)), a=1, b=2, c=3, out=out)
        self.assert_equal(out, [[6, 6], [6, 6]])


class ConvCellTest(ArrayCase):
    def test_two_steps_are_mxnet_s(self):
        sequence = nd.arange(10).reshape((1, 2, 5)) / 10
        for kind, expected in (
            ("RNN", [0.15146, 0.2627, 0.33541, 0.38997, 0.2871]),
            ("LSTM", [0.05428, 0.1037, 0.14057, 0.1768, 0.1204]),
            ("GRU", [0.0893, 0.14928, 0.18529, 0.21672, 0.16643]),
        ):
            cell = getattr(gluon.contrib.rnn, f"Conv1D{kind}Cell")((2, 5), 1, 3, 3, i2h_pad=1, prefix="c_")
            cell.initialize(mx.init.Constant(0.1))
            for hybridize in (False, True):
                cell.hybridize(hybridize)
                _, states = cell(sequence, cell.begin_state(1))
                self.assert_close(cell(sequence, states)[0], [[expected]], 1e-4)

    def test_names_and_shapes(self):
        cell = gluon.contrib.rnn.Conv2DLSTMCell((1, 4, 4), 2, 3, 3, prefix="c_")
        self.assertEqual(list(cell.collect_params()), ["c_i2h_weight", "c_h2h_weight", "c_i2h_bias", "c_h2h_bias"])
        self.assertEqual(cell.state_info(5)[1], {"shape": (5, 2, 2, 2), "__layout__": "NCHW"})
        with self.assertRaisesRegex(AssertionError, "odd"):
            gluon.contrib.rnn.Conv2DRNNCell((1, 4, 4), 2, 3, 2)

    def test_dynamic_unrolling_is_unrolling(self):
        cell = gluon.rnn.LSTMCell(3, input_size=2)
        cell.initialize()
        x, states, length = nd.random.uniform(shape=(4, 2, 2)), cell.begin_state(2), nd.array([2, 4])
        expected, after = cell.unroll(4, x, states, layout="TNC", merge_outputs=True, valid_length=length)
        found, last = gluon.contrib.rnn.rnn_cell.dynamic_unroll(cell, x, states, layout="TNC", valid_length=length)
        for one, other in ((found, expected), *zip(last, after)):
            self.assert_close(one, other.asnumpy(), 1e-5)


if __name__ == "__main__":
    case_runner.main()
