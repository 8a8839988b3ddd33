"""Executors: symbols bound to arrays, run forward and backward."""

import unittest

import numpy as np

import gluond as mx
from gluond.test_utils import assert_almost_equal
from tests import case_runner


def classifier():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


class OptimizedSymbolTest(unittest.TestCase):
    def test_equal_computations_are_made_once(self):
        a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        for net, saved in (
            ((a + 1) + (a + 2), 0),
            (((a + b) * b) + ((a + b) * b), 2),
            (mx.sym.Group([a * b, a * b]), 0),
            (mx.sym.Dropout(a) + mx.sym.Dropout(a), 0),
            (mx.sym.Group([a, a]), 0),
        ):
            shapes = {name: (2, 3) for name in net.list_arguments()}
            executor = net.simple_bind(mx.cpu(), **shapes)
            found = executor.get_optimized_symbol()
            self.assertEqual(len(net.get_internals()) - len(found.get_internals()), saved)
            self.assertEqual(found.list_arguments(), net.list_arguments())
            other = found.bind(mx.cpu(), {name: mx.nd.ones(shape) for name, shape in shapes.items()}).forward()
            for result, expected in zip(other, executor.forward(**{name: mx.nd.ones(shape) for name, shape in shapes.items()})):
                assert_almost_equal(result, expected)

    def test_a_variable_of_the_environment_leaves_them(self):
        a = mx.sym.Variable("a")
        with mx.test_utils.environment("MXNET_ELIMINATE_COMMON_EXPR", "0"):
            executor = ((a * 2) + (a * 2)).simple_bind(mx.cpu(), a=(2,))
        self.assertEqual(len(executor.get_optimized_symbol().get_internals()), 4)


class OutputTest(unittest.TestCase):
    def test_outputs_are_the_programs_own(self):
        executor = (mx.sym.Variable("a") * 3).simple_bind(mx.cpu(), a=(2,))
        (output,) = executor.forward(is_train=True)
        output[:] = 7
        executor.backward(mx.nd.ones(2))
        assert_almost_equal(executor.grad_dict["a"], np.array([3, 3]))
        assert_almost_equal(executor.outputs[0], np.array([7, 7]))

    def test_without_gradients_backward_wants_none_of_the_outputs(self):
        executor = (mx.sym.Variable("a") * 3).simple_bind(mx.cpu(), grad_req="null", a=(2,))
        executor.forward(is_train=True)
        executor.backward()


class BindingTest(unittest.TestCase):
    def test_simple_bind_makes_zeros_of_the_inferred_shapes(self):
        executor = classifier().simple_bind(mx.cpu(), data=(4, 5))
        self.assertEqual(
            {name: array.shape for name, array in executor.arg_dict.items()},
            {"data": (4, 5), "fc_weight": (3, 5), "fc_bias": (3,), "softmax_label": (4,)},
        )
        self.assertEqual([array.shape for array in executor.grad_arrays], [(4, 5), (3, 5), (3,), (4,)])
        self.assertEqual([output.shape for output in executor.outputs], [(4, 3)])
        assert_almost_equal(executor.arg_dict["data"], np.zeros((4, 5)))

    def test_gradients_are_requested_for_all_in_order_or_by_name(self):
        net = classifier()
        cases = {
            "null": [None] * 4,
            ("write", "add", "null", "null"): ["data", "fc_weight", None, None],
        }
        for request, expected in cases.items():
            executor = net.simple_bind(mx.cpu(), grad_req=list(request) if isinstance(request, tuple) else request, data=(4, 5))
            found = [name if grad is not None else None for name, grad in executor.grad_dict.items()]
            self.assertEqual(found, expected)
        executor = net.simple_bind(mx.cpu(), grad_req={"fc_weight": "add"}, data=(4, 5))
        self.assertEqual([name for name, grad in executor.grad_dict.items() if grad is not None], ["fc_weight"])

    def test_wrong_requests_and_missing_shapes_are_refused(self):
        net = classifier()
        with self.assertRaisesRegex(RuntimeError, "only 'null', 'write', and 'add'"):
            net.simple_bind(mx.cpu(), grad_req="foo", data=(4, 5))
        with self.assertRaisesRegex(RuntimeError, "expected 4, provided 1"):
            net.simple_bind(mx.cpu(), grad_req=["add"], data=(4, 5))
        with self.assertRaisesRegex(RuntimeError, "(?s)simple_bind error.*fc_weight"):
            net.simple_bind(mx.cpu())

    def test_types_are_given_by_name(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        executor = net.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=(4, 5))
        self.assertEqual({array.dtype for array in executor.arg_arrays}, {np.float64})

    def test_bind_takes_lists_or_dicts_and_says_what_is_missing(self):
        net = mx.sym.Variable("a") + mx.sym.Variable("b")
        x, y = mx.nd.ones((2,)), mx.nd.ones((2,)) * 3
        for args in ([x, y], {"a": x, "b": y}):
            executor = net.bind(mx.cpu(), args)
            self.assertIs(executor.arg_dict["a"], x)
            assert_almost_equal(executor.forward()[0], [4, 4])
        with self.assertRaisesRegex(ValueError, "key `b` is missing in `args`"):
            net.bind(mx.cpu(), {"a": x})
        with self.assertRaisesRegex(ValueError, "Length of args does not match"):
            net.bind(mx.cpu(), [x])
        for wrong in (3, {"a": 3, "b": y}):
            with self.assertRaisesRegex(TypeError, "Only accept list of NDArrays or dict"):
                net.bind(mx.cpu(), wrong)

    def test_shapes_that_do_not_fit_are_told_at_bind(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2, no_bias=True, name="fc")
        with self.assertRaisesRegex(mx.MXNetError, "fc"):
            net.bind(mx.cpu(), [mx.nd.ones((2, 3)), mx.nd.ones((2, 4))])

    def test_arguments_of_one_name_have_no_dict(self):
        net = mx.sym.Variable("x") + mx.sym.Variable("x")
        executor = net.bind(mx.cpu(), [mx.nd.ones((1,)), mx.nd.ones((1,)) * 2])
        assert_almost_equal(executor.forward()[0], [3])
        with self.assertRaisesRegex(ValueError, "Duplicate names detected"):
            executor.arg_dict

    def test_eval_is_bind_and_forward(self):
        net = mx.sym.Variable("a") * mx.sym.Variable("b")
        (output,) = net.eval(mx.cpu(), a=mx.nd.ones((2,)) * 2, b=mx.nd.ones((2,)) * 3)
        assert_almost_equal(output, [6, 6])


class RunningTest(unittest.TestCase):
    def test_forward_copies_what_is_given_by_name(self):
        net = mx.sym.Variable("x") * 2
        executor = net.simple_bind(mx.cpu(), x=(3,))
        assert_almost_equal(executor.forward(x=np.array([1, 2, 3]))[0], [2, 4, 6])
        assert_almost_equal(executor.arg_dict["x"], [1, 2, 3])
        assert_almost_equal(executor.forward(x=mx.nd.array([4, 5, 6]))[0], [8, 10, 12])
        executor.arg_dict["x"][:] = 1
        assert_almost_equal(executor.forward()[0], [2, 2, 2])

    def test_what_does_not_fit_is_refused_in_place(self):
        executor = classifier().simple_bind(mx.cpu(), data=(4, 5))
        with self.assertRaisesRegex(ValueError, r"Shape not match! Argument data, need: \(4, 5\), received: \(4, 6\)"):
            executor.forward(data=np.ones((4, 6)))
        with self.assertRaisesRegex(TypeError, "Unknown argument dta"):
            executor.forward(dta=np.ones((4, 5)))
        with self.assertRaisesRegex(ValueError, "only accept keyword argument of NDArrays and numpy.ndarray"):
            executor.forward(data=[1])

    def test_outputs_of_earlier_runs_keep_their_values(self):
        executor = (mx.sym.Variable("x") * 2).simple_bind(mx.cpu(), x=(1,))
        (first,) = executor.forward(x=np.array([1.0]))
        executor.forward(x=np.array([2.0]))
        assert_almost_equal(first, [2])
        assert_almost_equal(executor.outputs[0], [4])
        self.assertEqual(list(executor.output_dict), [executor._symbol.list_outputs()[0]])

    def test_a_group_of_variables_and_results_runs(self):
        x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
        executor = mx.sym.Group([x, y * 2, x]).bind(mx.cpu(), [mx.nd.ones((2,)), mx.nd.ones((2,))])
        for output, expected in zip(executor.forward(), ([1, 1], [2, 2], [1, 1])):
            assert_almost_equal(output, expected)

    def test_training_updates_the_states_and_prediction_does_not(self):
        net = mx.sym.BatchNorm(mx.sym.Variable("x"), fix_gamma=False, momentum=0.5, name="bn")
        executor = net.simple_bind(mx.cpu(), x=(4, 2))
        executor.aux_dict["bn_moving_var"][:] = 1
        executor.arg_dict["bn_gamma"][:] = 1
        value = np.arange(8.0).reshape(4, 2)
        executor.forward(is_train=False, x=value)
        assert_almost_equal(executor.aux_dict["bn_moving_mean"], [0, 0])
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((4, 2)))
        assert_almost_equal(executor.aux_dict["bn_moving_mean"], value.mean(axis=0) / 2)


class GradientsTest(unittest.TestCase):
    def product(self, grad_req):
        x, y = mx.nd.array([1, 2]), mx.nd.array([3, 4])
        gradients = [mx.nd.zeros((2,)), mx.nd.zeros((2,))]
        net = mx.sym.Variable("x") * mx.sym.Variable("y")
        return net.bind(mx.cpu(), [x, y], args_grad=gradients, grad_req=grad_req), gradients

    def test_gradients_are_written_into_the_given_arrays(self):
        executor, (dx, dy) = self.product("write")
        for _ in range(2):
            executor.forward(is_train=True)
            executor.backward(mx.nd.array([1, 10]))
        assert_almost_equal(dx, [3, 40])
        assert_almost_equal(dy, [1, 20])
        self.assertIs(executor.grad_dict["x"], dx)

    def test_or_added(self):
        executor, (dx, _) = self.product("add")
        for _ in range(3):
            executor.forward(is_train=True)
            executor.backward([mx.nd.array([1, 1])])
        assert_almost_equal(dx, [9, 12])

    def test_or_written_over_what_was_added_before(self):
        executor, (dx, dy) = self.product(["add", "write"])
        for _ in range(2):
            executor.forward(is_train=True)
            executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(dx, [6, 8])
        assert_almost_equal(dy, [1, 2])
        dx[:] = 100
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(dx, [103, 104])

    def test_or_left_alone(self):
        executor, (dx, dy) = self.product({"y": "write"})
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(dx, [0, 0])
        assert_almost_equal(dy, [1, 2])

    def test_each_run_sees_the_arrays_as_they_are_then(self):
        executor, (dx, _) = self.product("write")
        executor.forward(is_train=True)
        executor.arg_dict["y"][:] = 7
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(dx, [7, 7])

    def test_backward_may_come_twice_and_after_a_prediction(self):
        executor, (dx, _) = self.product("write")
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
        executor.backward(mx.nd.ones((2,)) * 2)
        assert_almost_equal(dx, [6, 8])
        executor.forward(is_train=False)
        executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(dx, [3, 4])

    def test_a_loss_needs_no_head_gradient_and_another_output_does(self):
        executor = classifier().simple_bind(mx.cpu(), data=(2, 5))
        executor.forward(is_train=True, data=np.ones((2, 5)), softmax_label=np.array([0, 2]))
        executor.backward()
        expected = (np.full((2, 3), 1 / 3) - np.eye(3)[[0, 2]]).sum(axis=0)
        assert_almost_equal(executor.grad_dict["fc_bias"], expected)
        assert_almost_equal(executor.grad_dict["softmax_label"], [0, 0])
        executor, _ = self.product("write")
        executor.forward(is_train=True)
        with self.assertRaisesRegex(mx.MXNetError, "head_gradient is required"):
            executor.backward()
        with self.assertRaisesRegex(TypeError, "inputs must be NDArray"):
            executor.backward([3])

    def test_nor_does_an_output_whose_gradient_is_0(self):
        for output in (mx.sym.shape_array(mx.sym.var("x")), mx.sym.var("x") > 1, mx.sym.floor(mx.sym.var("x"))):
            executor = output.bind(mx.cpu(), {"x": mx.nd.ones((2, 3)) * 2}, {"x": mx.nd.ones((2, 3))})
            for heads in (None, [mx.nd.ones((5,))]):
                executor.forward(is_train=True)
                executor.backward(heads)
                assert_almost_equal(executor.grad_arrays[0], np.zeros((2, 3)))

    def test_head_gradients_get_the_outputs_type_and_those_beyond_the_outputs_are_ignored(self):
        x = mx.nd.array([1, 2], dtype="float64")
        executor = (mx.sym.var("x") * 3).bind(mx.cpu(), {"x": x}, {"x": mx.nd.zeros(2, dtype="float64")})
        executor.forward(is_train=True)
        executor.backward([mx.nd.array([1, 2]), mx.nd.ones((3, 3))])
        assert_almost_equal(executor.grad_arrays[0], np.array([3, 6]))

    def test_the_users_own_marks_are_left_alone(self):
        x = mx.nd.array([1, 2])
        x.attach_grad()
        executor = (mx.sym.Variable("x") * 3).bind(mx.cpu(), [x], args_grad=[mx.nd.zeros((2,))])
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2,)))
        assert_almost_equal(x.grad, [0, 0])
        with mx.autograd.record():
            y = x * x
        y.backward()
        assert_almost_equal(x.grad, [2, 4])
        assert_almost_equal(executor.grad_arrays[0], [3, 3])

    def test_views_of_arguments_and_gradients_stay_views(self):
        both = mx.nd.array([[1, 2], [3, 4]])
        executor = (mx.sym.Variable("x") ** 2).bind(mx.cpu(), [both[1]], args_grad=[mx.nd.zeros((2,))])
        part = executor.grad_arrays[0][0:1]
        for row, expected in (([3, 4], [9, 16]), ([5, 6], [25, 36])):
            both[1] = mx.nd.array(row)
            assert_almost_equal(executor.forward(is_train=True)[0], expected)
            executor.backward(mx.nd.ones((2,)))
            assert_almost_equal(part, [2 * row[0]])

    def test_two_executors_share_arguments_and_keep_their_own_gradients(self):
        x = mx.nd.array([2.0])
        one = (mx.sym.Variable("x") * 3).bind(mx.cpu(), [x], args_grad=[mx.nd.zeros((1,))])
        two = (mx.sym.Variable("x") ** 2).bind(mx.cpu(), [x], args_grad=[mx.nd.zeros((1,))])
        for executor in (one, two):
            executor.forward(is_train=True)
        for executor in (one, two):
            executor.backward(mx.nd.ones((1,)))
        assert_almost_equal(one.grad_arrays[0], [3])
        assert_almost_equal(two.grad_arrays[0], [4])


class ChangingTest(unittest.TestCase):
    def test_copy_params_from_checks_names_and_shapes(self):
        executor = classifier().simple_bind(mx.cpu(), data=(4, 5))
        executor.copy_params_from({"fc_bias": mx.nd.ones((3,))})
        assert_almost_equal(executor.arg_dict["fc_bias"], [1, 1, 1])
        with self.assertRaisesRegex(ValueError, 'Find name "foo" that is not in the arguments'):
            executor.copy_params_from({"foo": mx.nd.ones((1,))})
        executor.copy_params_from({"foo": mx.nd.ones((1,))}, allow_extra_params=True)
        with self.assertRaisesRegex(mx.MXNetError, "fc_bias"):
            executor.copy_params_from({"fc_bias": mx.nd.ones((4,))})

    def test_reshape_shares_what_stays(self):
        executor = classifier().simple_bind(mx.cpu(), data=(4, 5))
        smaller = executor.reshape(data=(2, 5), softmax_label=(2,))
        self.assertIs(smaller.arg_dict["fc_weight"], executor.arg_dict["fc_weight"])
        self.assertEqual(smaller.forward()[0].shape, (2, 3))
        with self.assertRaisesRegex(mx.MXNetError, "partial_shaping"):
            executor.reshape(data=(2, 4), softmax_label=(2,))
        with self.assertRaisesRegex(mx.MXNetError, "allow_up_sizing"):
            executor.reshape(data=(8, 5), softmax_label=(8,))
        larger = executor.reshape(allow_up_sizing=True, data=(8, 5), softmax_label=(8,))
        self.assertEqual(larger.forward()[0].shape, (8, 3))

    def test_a_small_network_learns(self):
        rng = np.random.RandomState(0)
        data, label = rng.randn(64, 2).astype(np.float32), np.zeros(64, np.float32)
        label[data[:, 0] * data[:, 1] > 0] = 1
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc1")
        net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=2, name="fc2")
        executor = mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch").simple_bind(mx.cpu(), data=(64, 2))
        for name in ("fc1_weight", "fc2_weight"):
            array = executor.arg_dict[name]
            array[:] = rng.randn(*array.shape)
        for _ in range(200):
            executor.forward(is_train=True, data=data, softmax_label=label)
            executor.backward()
            for name, gradient in executor.grad_dict.items():
                if name.startswith("fc"):
                    executor.arg_dict[name][:] -= 0.5 * gradient
        self.assertGreater((executor.outputs[0].asnumpy().argmax(axis=1) == label).mean(), 0.95)


class StayingTest(unittest.TestCase):
    """What stays the same from run to run is told to the server, which keeps what follows from it."""

    def staying(self, executor):
        variables = executor._running._define(executor._parameters).variables
        return {variables[place].name for place in executor._parameters}

    def test_of_simple_bind_all_whose_shapes_were_not_given(self):
        executor = classifier().simple_bind(mx.cpu(), data=(4, 5), softmax_label=(4,), grad_req="null")
        self.assertEqual(self.staying(executor), {"fc_weight", "fc_bias"})
        self.assertEqual(self.staying(executor.reshape(data=(2, 5), softmax_label=(2,))), {"fc_weight", "fc_bias"})

    def test_of_bind_what_has_gradients_and_then_what_forward_is_not_given(self):
        net = classifier()
        arrays = {"data": (4, 5), "fc_weight": (3, 5), "fc_bias": (3,), "softmax_label": (4,)}
        arrays = {name: mx.nd.ones(shape) for name, shape in arrays.items()}
        executor = net.bind(mx.cpu(), arrays, args_grad={"fc_weight": mx.nd.zeros((3, 5))})
        self.assertEqual(self.staying(executor), {"fc_weight"})
        executor.forward(data=mx.nd.ones((4, 5)))
        self.assertEqual(self.staying(executor), {"fc_weight", "fc_bias", "softmax_label"})
        executor.forward(softmax_label=mx.nd.ones(4))
        self.assertEqual(self.staying(executor), {"fc_weight", "fc_bias"})
        self.assertEqual(self.staying(net.bind(mx.cpu(), arrays)), set())

    def test_of_a_module_its_parameters(self):
        module = mx.mod.Module(classifier())
        module.bind([("data", (4, 5))], [("softmax_label", (4,))])
        module.init_params()
        other = mx.mod.Module(classifier())
        other.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False, shared_module=module)
        for each in (module, other):
            self.assertEqual(self.staying(each._exec_group.executor), {"fc_weight", "fc_bias"})

    def test_predictions_follow_what_is_written_meanwhile(self):
        net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=2, no_bias=True, name="conv")
        executor = mx.sym.BatchNorm(net, fix_gamma=False, eps=0, name="bn").simple_bind(mx.cpu(), data=(1, 1, 1, 1))
        for name, value in (("conv_weight", 2), ("bn_gamma", 3), ("bn_beta", 1)):
            executor.arg_dict[name][:] = value
        executor.aux_dict["bn_moving_var"][:] = 4
        for _ in range(3):
            self.assertEqual(executor.forward(data=mx.nd.full((1, 1, 1, 1), 5))[0].asnumpy().ravel().tolist(), [16, 16])
        executor.aux_dict["bn_moving_mean"][:] = 2
        self.assertEqual(executor.forward(data=mx.nd.full((1, 1, 1, 1), 5))[0].asnumpy().ravel().tolist(), [13, 13])
        executor.arg_dict["conv_weight"][:] = mx.nd.array([4, 6]).reshape((2, 1, 1, 1))
        for _ in range(3):
            self.assertEqual(executor.forward(data=mx.nd.full((1, 1, 1, 1), 5))[0].asnumpy().ravel().tolist(), [28, 43])


if __name__ == "__main__":
    case_runner.main()
