"""The mistakes that MXNet's users make most, with layers, parameters and training. See mistake_case.py."""

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.mistake_case import Table, dense, matrix

mistake = Table()


# Shapes.


@mistake(mx.MXNetError, "FullyConnected", "Provided = [2,3], inferred shape=[2,5]", later=True)
def a_layer_for_other_features():
    return dense(in_units=5)(matrix())


@mistake(mx.MXNetError, "operator dense0_fwd (FullyConnected)", "Provided = [2,7], inferred shape=[2,3]", later=True)
def a_second_batch_with_other_features():
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


# Types.


@mistake(AssertionError, "Argument rhs of broadcast_mul must have Symbol type", "use F and the parameters that it is given")
def a_parameters_data_in_a_graph():
    class Scaled(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(3,))

        def hybrid_forward(self, F, x, w):
            return F.broadcast_mul(x, self.w.data())

    net = Scaled()
    net.initialize()
    net.hybridize()
    net(matrix())


@mistake(ValueError, "In HybridBlock, there must be one NDArray or one Symbol in the input", "ndarray")
def a_numpy_array_for_a_network():
    dense()(np.ones((2, 3)))


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


@mistake(TypeError, "Dense() got an unexpected keyword argument 'activaton', did you mean 'activation'")
def a_typo_in_a_layers_keyword():
    nn.Dense(2, activaton="relu")


@mistake(TypeError, "Conv2D() got an unexpected keyword argument 'stride', did you mean 'strides'")
def a_typo_in_a_convolutions_keyword():
    nn.Conv2D(2, 3, stride=2)


@mistake(AssertionError, "Cannot find initializer xaver. Did you mean xavier?")
def a_typo_in_an_initializer():
    nn.Dense(2).initialize("xaver")


@mistake(ValueError, "Cannot find optimizer sgdd. Did you mean sgd")
def a_typo_in_an_optimizer():
    gluon.Trainer(dense().collect_params(), "sgdd")


@mistake(AssertionError, "Cannot find metric acuracy. Did you mean accuracy")
def a_typo_in_a_metric():
    mx.metric.create("acuracy")


# Parameters.


@mistake(RuntimeError, "has not been initialized", "Block.collect_params()")
def a_network_that_is_not_initialized():
    nn.Dense(2, in_units=3)(matrix())


@mistake(gluon.parameter.DeferredInitializationError, "initialization was deferred", "Please pass one batch of data through")
def a_weight_before_the_first_batch():
    dense(in_units=0).weight.data()


@mistake(
    ValueError, "Deferred initialization failed because shape cannot be inferred", "w: (0, 3)", "FullyConnected instead of dot"
)
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


@mistake(
    UserWarning,
    "Gradient of Parameter `b_bias` on context cpu(0) has not been updated by backward",
    "ignore_stale_grad=True",
    "The same holds for: Parameter `b_weight`",
    later=True,
)
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


@mistake(AssertionError, "Unknown input to HybridBlock: other_weight", "params=other.params")
def a_parameter_of_another_block_in_a_graph():
    other = dense(prefix="other_")

    class Borrows(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.broadcast_add(x, other.weight.var())

    net = Borrows()
    net.hybridize()
    net(matrix())


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


# Devices and sessions.


@mistake(RuntimeError, "Parameter 'd_weight' was not initialized on context cpu(1). It was only initialized on [cpu(0)]")
def a_batch_on_another_device_than_the_weights():
    dense(prefix="d_")(nd.ones((2, 3), ctx=mx.cpu(1)))


MistakesTest = mistake.case()

if __name__ == "__main__":
    case_runner.main()
