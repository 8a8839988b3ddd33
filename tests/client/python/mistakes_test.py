"""The mistakes that MXNet's users make most: each raises what MXNet raises, and the text names the cause and the way out.

A mistake that only the server can see comes with the values; then the text shows the line that made it.
"""

import unittest
import warnings
from typing import NamedTuple

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner


class Mistake(NamedTuple):
    make: object
    kind: type
    says: tuple
    later: bool


TABLE = []


def mistake(kind, *says, later=False):
    """Adds a row: a function that makes a mistake, the exception's type in MXNet, and what the text must contain.

    later: the function raises nothing; what it returns does, where its values are wanted (nothing: waitall).
    """
    def add(make):
        TABLE.append(Mistake(make, kind, says, later))
        return make

    return add


def matrix():
    return nd.ones((2, 3))


def dense(**kwargs):
    net = nn.Dense(2, **{"in_units": 3, **kwargs})
    net.initialize()
    return net


def marked():
    x = matrix()
    x.attach_grad()
    return x


# Shapes.

@mistake(mx.MXNetError, "operator dot", "[2,3] and [2,3] do not fit", "check transpose_a", later=True)
def a_product_of_shapes_that_do_not_fit():
    return nd.dot(matrix(), matrix())


@mistake(mx.MXNetError, "could not be broadcast together with shapes [2, 3] [2, 2]")
def a_sum_of_shapes_that_do_not_fit():
    return matrix() + nd.ones((2, 2))


@mistake(mx.MXNetError, "FullyConnected", "Provided = [2,3], inferred shape=[2,5]", later=True)
def a_layer_for_other_features():
    return dense(in_units=5)(matrix())


@mistake(mx.MXNetError, "operator dense0_fwd (FullyConnected)", "Provided = [2,7], inferred shape=[2,3]", later=True)
def a_second_batch_with_other_features():
    with mx.name.NameManager():
        net = dense(in_units=0, prefix="dense0_")
    net.hybridize()
    net(matrix())
    return net(nd.ones((2, 7)))


@mistake(mx.MXNetError, "operator d_fwd (FullyConnected)", later=True)
def a_layer_that_is_used_twice_in_a_graph():  # Its second node has another name on the wire.
    class Twice(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(2, in_units=3, prefix="d_")

        def hybrid_forward(self, F, x):
            return self.layer(self.layer(x))

    net = Twice()
    net.initialize()
    net.hybridize()
    return net(matrix())


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


@mistake(mx.MXNetError, "pick", "Provided = [5], inferred shape=[2]", later=True)
def labels_for_another_batch():
    return gluon.loss.SoftmaxCrossEntropyLoss()(matrix(), nd.ones(5))


@mistake(ValueError, "LSTM takes inputs of shape (T, N, C)", "got (2, 3)")
def a_recurrent_layer_on_a_matrix():
    layer = gluon.rnn.LSTM(4)
    layer.initialize()
    layer(matrix())


@mistake(ValueError, "2 recurrent state(s) [h, c], got 1")
def one_state_for_an_lstm():
    layer = gluon.rnn.LSTM(4)
    layer.initialize()
    layer(nd.ones((5, 2, 3)), nd.zeros((1, 2, 4)))


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


@mistake(AssertionError, "must have Symbol type, but got a NDArray; within hybrid_forward use F")
def an_ndarray_for_a_symbol():
    mx.sym.relu(matrix())


@mistake(TypeError, "type <class 'numpy.ndarray'> not supported")
def adding_a_numpy_array():
    matrix() + np.ones((2, 3))


@mistake(ValueError, "In HybridBlock, there must be one NDArray or one Symbol in the input", "ndarray")
def a_numpy_array_for_a_network():
    dense()(np.ones((2, 3)))


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


@mistake(mx.base.NotImplementedForSymbol, "__bool__", "only available in NDArray")
def a_symbol_as_a_condition():
    class Branches(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x if x.sum() > 0 else -x

    net = Branches()
    net.hybridize()
    net(matrix())


@mistake(AttributeError, "'Symbol' object has no attribute 'shape'")
def a_shape_in_a_graph():
    class Reshapes(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x.reshape((x.shape[0], -1))

    net = Reshapes()
    net.hybridize()
    net(matrix())


# Names.

@mistake(mx.MXNetError, "'num_hiden'", "did you mean 'num_hidden'", "Possible Arguments: data, weight")
def a_typo_in_an_operators_keyword():
    nd.FullyConnected(matrix(), matrix(), num_hiden=4)


@mistake(TypeError, "Dense() got an unexpected keyword argument 'activaton', did you mean 'activation'")
def a_typo_in_a_layers_keyword():
    nn.Dense(2, activaton="relu")


@mistake(TypeError, "Conv2D() got an unexpected keyword argument 'stride', did you mean 'strides'")
def a_typo_in_a_convolutions_keyword():
    nn.Conv2D(2, 3, stride=2)


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


@mistake(AssertionError, "Cannot find initializer xaver. Did you mean xavier?")
def a_typo_in_an_initializer():
    nn.Dense(2).initialize("xaver")


@mistake(ValueError, "Cannot find optimizer sgdd. Did you mean sgd")
def a_typo_in_an_optimizer():
    gluon.Trainer(dense().collect_params(), "sgdd")


@mistake(AssertionError, "Cannot find metric acuracy. Did you mean accuracy")
def a_typo_in_a_metric():
    mx.metric.create("acuracy")


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


# Parameters.

@mistake(RuntimeError, "has not been initialized", "Block.collect_params()")
def a_network_that_is_not_initialized():
    nn.Dense(2, in_units=3)(matrix())


@mistake(gluon.parameter.DeferredInitializationError, "initialization was deferred", "Please pass one batch of data through")
def a_weight_before_the_first_batch():
    dense(in_units=0).weight.data()


@mistake(ValueError, "Deferred initialization failed because shape cannot be inferred", "w: (0, 3)",
         "FullyConnected instead of dot")
def a_shape_that_nothing_tells():
    class Product(gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.w = self.params.get("w", shape=(0, 3), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.dot(x, w)

    net = Product()
    net.initialize()
    net(matrix())


@mistake(UserWarning, "Gradient of Parameter `b_bias` on context cpu(0) has not been updated by backward",
         "ignore_stale_grad=True", "The same holds for: Parameter `b_weight`", later=True)
def a_parameter_of_another_network():
    used, unused = dense(prefix="a_"), dense(prefix="b_")
    params = used.collect_params()
    params.update(unused.collect_params())
    trainer = gluon.Trainer(params, "sgd")
    for ignore in (True, False):
        with autograd.record():
            loss = used(matrix())
        loss.backward()
        trainer.step(1, ignore_stale_grad=ignore)


@mistake(RuntimeError, "has not been initialized")
def a_trainer_before_the_parameters():
    gluon.Trainer(nn.Dense(2, in_units=3).collect_params(), "sgd")


@mistake(ValueError, "First argument must be a list or dict of Parameters", "Dense")
def a_network_for_its_parameters():
    gluon.Trainer(dense(), "sgd")


@mistake(AssertionError, "Expected shape (5, 5) is incompatible with given shape (2, 3)")
def a_value_of_another_shape():
    dense().weight.set_data(nd.ones((5, 5)))


@mistake(RuntimeError, "Cannot get gradient array for Parameter 'd_weight' because grad_req='null'")
def the_gradient_of_a_constant():
    net = dense(prefix="d_")
    net.weight.grad_req = "null"
    net.weight.grad()


@mistake(AttributeError, "call super().__init__() in its __init__ before `layer` is set")
def a_block_without_its_bases_init():
    class Net(gluon.Block):
        def __init__(self):
            self.layer = nn.Dense(2)

    Net()


@mistake(ValueError, "Children of HybridBlock must also be HybridBlock", "HybridSequential")
def a_block_in_a_hybrid_block():
    nn.HybridSequential().add(nn.Sequential())


@mistake(RuntimeError, "Please first call block.hybridize() and then run forward")
def an_export_before_the_first_batch():
    net = dense()
    net.hybridize()
    net.export("never")


@mistake(mx.MXNetError, "No such file", "/nonexistent.params")
def a_file_that_is_not_there():
    dense().load_parameters("/nonexistent.params")


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


@mistake(RuntimeError, "Parameter 'd_weight' was not initialized on context cpu(1). It was only initialized on [cpu(0)]")
def a_batch_on_another_device_than_the_weights():
    dense(prefix="d_")(nd.ones((2, 3), ctx=mx.cpu(1)))


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


class MistakesTest(unittest.TestCase):

    def check(self, row):
        if not row.later:
            with self.assertRaises(row.kind) as caught:
                row.make()
            self.assertNotIn("made earlier", str(caught.exception))
        else:
            wrong = row.make()
            with self.assertRaises(row.kind) as caught:
                nd.waitall() if wrong is None else wrong.asnumpy()
            self.assertRegex(str(caught.exception), rf'mistakes_test\.py", line \d+, in {row.make.__name__}\n')
        for text in row.says:
            self.assertIn(text, str(caught.exception))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nd.ones(1).asscalar()  # The session goes on.


for _row in TABLE:
    setattr(MistakesTest, f"test_{_row.make.__name__}", lambda self, row=_row: self.check(row))


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
