"""The mistakes that MXNet's users make most, with arrays, operators, gradients and devices. See mistake_case.py."""

import unittest

import gluond as mx
import numpy as np
from gluond import autograd, nd
from tests import case_runner
from tests.client.python.mistake_case import Table, marked, matrix

mistake = Table()


# Shapes.


@mistake(mx.MXNetError, "operator dot", "[2,3] and [2,3] do not fit", "check transpose_a", later=True)
def a_product_of_shapes_that_do_not_fit():
    return nd.dot(matrix(), matrix())


@mistake(mx.MXNetError, "could not be broadcast together with shapes [2, 3] [2, 2]")
def a_sum_of_shapes_that_do_not_fit():
    return matrix() + nd.ones((2, 2))


@mistake(mx.MXNetError, "input 0 'data' has 2 elements along axis 2, 2 with padding", "the window's 5", later=True)
def a_window_larger_than_the_image():
    return nd.Convolution(nd.ones((1, 1, 2, 2)), nd.ones((1, 1, 5, 5)), nd.ones(1), kernel=(5, 5), num_filter=1)


@mistake(mx.MXNetError, "input 1 'arg1' has shape [3,2]; want [?,3]", later=True)
def joining_shapes_that_do_not_fit():
    return nd.concat(matrix(), nd.ones((3, 2)), dim=0)


@mistake(mx.MXNetError, "has 6 elements and cannot get the shape (4, 4)")
def reshaping_to_another_size():
    matrix().reshape((4, 4))


@mistake(mx.MXNetError, "expect tuple of int but value=(2.5, 2)")
def a_shape_that_is_no_shape():
    nd.zeros((2.5, 2))


@mistake(ValueError, "(4, 4) and requested shape (2, 3)")
def assigning_another_shape():
    matrix()[:] = nd.ones((4, 4))


@mistake(mx.MXNetError, "different shapes, (2, 3) and (4, 4)")
def copying_into_another_shape():
    matrix().copyto(nd.ones((4, 4)))


@mistake(IndexError, "index 5 is out of bounds for axis 0 with size 2")
def an_index_out_of_range():
    matrix()[5]


@mistake(mx.MXNetError, "index 7 at position 0 is out of range", "mode 'clip'", later=True)
def taking_rows_that_are_not_there():
    return nd.take(matrix(), nd.array([7]), mode="raise")


# Types.


@mistake(mx.MXNetError, "input 1 'rhs' is float64, expected float32; insert a Cast", later=True)
def two_dtypes():
    return matrix() + matrix().astype("float64")


@mistake(TypeError, "data type 'floot32' not understood")
def a_dtype_misspelt():
    nd.zeros(1, dtype="floot32")


@mistake(AssertionError, "Argument data of relu must have NDArray type", "of type ndarray; mx.nd.array(...) makes one")
def a_numpy_array_for_an_ndarray():
    nd.relu(np.ones(2))


@mistake(AssertionError, "must have NDArray type, but got a Symbol; within hybrid_forward use F")
def a_symbol_for_an_ndarray():
    nd.relu(mx.sym.Variable("x"))


@mistake(AssertionError, "must have Symbol type, but got a NDArray", "mx.nd has the same functions")
def an_ndarray_for_a_symbol():
    mx.sym.relu(matrix())


@mistake(TypeError, r"an array of numpy's of float64 loses values in the NDArray's int32", "x.astype('float64')")
def adding_a_numpy_array_of_fractions_to_integers():
    matrix().astype("int32") + np.ones((2, 3))


@mistake(TypeError, "source_array must be array like object")
def an_array_of_ragged_rows():
    nd.array([[1, 2], [3]])


@mistake(ValueError, "not a scalar (its shape is (2, 3))", "x.mean()", "x.asnumpy()")
def asscalar_of_a_matrix():
    matrix().asscalar()


@mistake(TypeError, "float() takes an NDArray of one element, not one of shape (2, 3)")
def float_of_a_matrix():
    float(matrix())


@mistake(ValueError, "truth value of an NDArray with multiple elements is ambiguous", ".any()", "nd.where")
def an_array_as_a_condition():
    if matrix() > 0:
        pass


# Names.


@mistake(mx.MXNetError, "'num_hiden'", "did you mean 'num_hidden'", "Possible Arguments: data, weight")
def a_typo_in_an_operators_keyword():
    nd.FullyConnected(matrix(), matrix(), num_hiden=4)


@mistake(AttributeError, "'Fullyconnected', did you mean 'FullyConnected'")
def a_typo_in_an_operators_name():
    nd.Fullyconnected(matrix())


@mistake(mx.MXNetError, "Invalid Input: 'Relu', valid values are: {'relu'")
def a_typo_in_a_choice():
    nd.Activation(matrix(), act_type="Relu")


@mistake(mx.MXNetError, "Required parameter num_hidden", "FullyConnected")
def a_parameter_left_out():
    nd.FullyConnected(matrix(), matrix())


@mistake(mx.MXNetError, "takes 3 inputs (data, weight, bias), got 1", later=True)
def a_tensor_left_out():
    return nd.FullyConnected(matrix(), num_hidden=4)


@mistake(mx.MXNetError, "Cannot find custom operator nope", "mx.operator.register('nope')")
def a_custom_operator_that_nobody_registered():
    nd.Custom(matrix(), op_type="nope")


@mistake(TypeError, "Unknown argument b; the arguments are: a")
def an_argument_that_an_executor_has_not():
    mx.sym.relu(mx.sym.Variable("a")).simple_bind(mx.cpu(), a=(2,)).forward(b=nd.ones(2))


@mistake(mx.MXNetError, "Keyword argument name dat not found", "[0]data")
def an_argument_that_a_symbol_has_not():
    mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2).infer_shape(dat=(2, 3))


@mistake(mx.MXNetError, "operator fc (FullyConnected)", "Provided = [3,3], inferred shape=[2,?]")
def shapes_that_contradict_each_other_in_a_symbol():
    mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc").infer_shape(data=(2, 3), fc_weight=(3, 3))


@mistake(ValueError, "key `fc_weight` is missing in `args`")
def binding_without_a_weight():
    mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc").bind(mx.cpu(), {"data": matrix()})


# Gradients.


@mistake(mx.MXNetError, "not in a computational graph", "autograd.record()", later=True)
def backward_without_recording():
    y = marked() * 2
    y.backward()


@mistake(mx.MXNetError, "not in a computational graph", "pass retain_graph=True to backward", later=True)
def backward_twice():
    x = marked()
    with autograd.record():
        y = x * x
    y.backward()
    y.backward()


@mistake(mx.MXNetError, "not in a computational graph", later=True)
def backward_of_what_needs_no_gradient():
    with autograd.record():
        y = matrix() * 2
    y.backward()


@mistake(mx.MXNetError, "cannot differentiate with respect to the 1-th variable", later=True)
def a_gradient_for_an_array_that_is_not_marked():
    x, z = marked(), matrix()
    with autograd.record():
        y = x * z
    return autograd.grad(y, [z])[0]


@mistake(mx.MXNetError, "cannot use inplace operations like +=")
def changing_in_place_while_recording():
    x = marked()
    with autograd.record():
        x += 1


@mistake(mx.MXNetError, "a head gradient is float32[5,5], expected float32[2,3]", later=True)
def a_head_gradient_of_another_shape():
    x = marked()
    with autograd.record():
        y = x * x
    y.backward(nd.ones((5, 5)))


# Devices and sessions.


@mistake(mx.MXNetError, "The server has no device gpu(0); it has cpu")
def a_device_that_the_server_has_not():
    nd.ones(1, ctx=mx.gpu())


@mistake(mx.MXNetError, "on different devices, cpu(0) and cpu(1); move one with x.as_in_context(cpu(0))")
def two_devices_in_one_call():
    matrix() + nd.ones((2, 3), ctx=mx.cpu(1))


@mistake(KeyError, "'tpu' is no kind of device; there are cpu, gpu")
def a_kind_of_device_that_there_is_not():
    mx.Context("tpu")


@mistake(mx.MXNetError, "belong to two sessions", "mx.nd.array(x.asnumpy())")
def arrays_of_two_sessions():
    before = matrix()
    mx.connect()
    before + matrix()


MistakesTest = mistake.case()


class OtherServerTest(unittest.TestCase):
    def test_its_operators_are_asked_for_anew(self):
        before = nd.relu, mx.sym.relu
        self.assertIs(nd.relu, before[0])
        mx.connect()
        self.assertIsNot(nd.relu, before[0])
        self.assertIsNot(mx.sym.relu, before[1])
        self.assertEqual(nd.relu(nd.ones(1)).asscalar(), 1)
        self.assertEqual(before[0](nd.ones(1)).asscalar(), 1)


if __name__ == "__main__":
    case_runner.main()
