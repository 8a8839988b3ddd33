"""The server's own layers, losses and initializers (DefineModel's Block, CreateTrainer's loss) against the client's.

For each class of the client, the server knows its name, its arguments and their defaults, and computes the same, up to
rounding, with the same parameters; or the class stands in a list here with the reason.
"""

import inspect
import time
import unittest

import gluond as mx
import grpc
import numpy as np
from gluond import gluon, nd
from gluond._proto import model_pb2, parameters_pb2, trainer_pb2, training_pb2
from gluond._wire import connect
from gluond.gluon import contrib, loss, nn, rnn
from google.protobuf import json_format
from tests import case_runner

RANDOM = np.random.RandomState(0)
STEPS = 3


class Layer:
    """A layer by its class, its arguments, and its children: for the client and for the server."""

    def __init__(self, kind, *children, **arguments):
        self.kind, self.children, self.arguments = kind, children, arguments

    @property
    def is_cell(self):
        return issubclass(self.kind, rnn.RecurrentCell)

    def block(self):
        """The client's block."""
        children = [child.block() for child in self.children]
        if self.kind in AROUND:
            return self.kind(*children, **self.arguments)
        block = self.kind(**self.arguments)
        for child in children:
            block.add(child)
        return block

    def tree(self, explicit):
        """The server's, as JSON; explicit: with the defaults as well."""
        attributes = dict(defaults(self.kind) if explicit else {}, **self.arguments)
        return {
            "block": self.kind.__name__,
            "attributes": plain(attributes),
            "children": [child.tree(explicit) for child in self.children],
        }


def defaults(kind):
    """The arguments that have a default, but for names and for objects of Python's."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {
        p.name: p.default for p in parameters if p.default is not p.empty and p.name not in ("prefix", "params", "output_prefix")
    }


def plain(value):
    """As JSON has it."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


# Their cells are arguments, not added.
AROUND = (rnn.BidirectionalCell, rnn.ZoneoutCell, rnn.ResidualCell, contrib.rnn.VariationalDropoutCell)

MATRIX, ROWS, IMAGE, VOLUME, SEQUENCE = (2, 5), (2, 4, 7), (2, 4, 6, 5), (2, 4, 3, 5, 4), (2, STEPS, 5)
GRU5 = Layer(rnn.GRUCell, hidden_size=5)

# The layers, each with the shape of its input.
LAYERS = [
    (Layer(nn.Sequential, Layer(nn.Dense, units=3), Layer(nn.Dense, units=2)), MATRIX),
    (Layer(nn.HybridSequential, Layer(nn.Dense, units=3), Layer(nn.HybridSequential, Layer(nn.ELU))), MATRIX),
    (Layer(nn.Dense, units=3), IMAGE),
    (Layer(nn.Dense, units=3, activation="tanh", use_bias=False, flatten=False, in_units=7), ROWS),
    (Layer(nn.Dropout, rate=0.5), MATRIX),
    (Layer(nn.BatchNorm), IMAGE),
    (Layer(nn.BatchNorm, axis=2, epsilon=0.1, scale=False, in_channels=7), ROWS),
    (Layer(nn.BatchNormReLU), IMAGE),
    (Layer(nn.Embedding, input_dim=3, output_dim=4), MATRIX),
    (Layer(nn.Flatten), IMAGE),
    (Layer(nn.InstanceNorm), IMAGE),
    (Layer(nn.InstanceNorm, axis=3, epsilon=0.1, center=False), IMAGE),
    (Layer(nn.LayerNorm), IMAGE),
    (Layer(nn.LayerNorm, axis=1, epsilon=0.1), IMAGE),
    (Layer(nn.GroupNorm), IMAGE),
    (Layer(nn.GroupNorm, num_groups=2, epsilon=0.1), IMAGE),
    (Layer(nn.Lambda, function="square"), MATRIX),
    (Layer(nn.HybridLambda, function="tanh"), MATRIX),
    (Layer(nn.Activation, activation="softrelu"), MATRIX),
    (Layer(nn.LeakyReLU, alpha=0.1), MATRIX),
    (Layer(nn.PReLU), MATRIX),
    (Layer(nn.PReLU, alpha_initializer="ones", in_channels=4), IMAGE),
    (Layer(nn.ELU), MATRIX),
    (Layer(nn.ELU, alpha=0.3), MATRIX),
    (Layer(nn.SELU), MATRIX),
    (Layer(nn.GELU), MATRIX),
    (Layer(nn.Swish), MATRIX),
    (Layer(nn.Swish, beta=0.3), MATRIX),
    (Layer(nn.Conv1D, channels=3, kernel_size=2), ROWS),
    (Layer(nn.Conv2D, channels=3, kernel_size=(2, 3)), IMAGE),
    (
        Layer(
            nn.Conv2D,
            channels=4,
            kernel_size=2,
            strides=2,
            padding=(1, 0),
            dilation=2,
            groups=2,
            activation="relu",
            use_bias=False,
            in_channels=4,
        ),
        IMAGE,
    ),
    (Layer(nn.Conv3D, channels=3, kernel_size=2), VOLUME),
    (Layer(nn.Conv1DTranspose, channels=3, kernel_size=2), ROWS),
    (Layer(nn.Conv2DTranspose, channels=4, kernel_size=3, strides=2, padding=1, output_padding=(1, 0), groups=2), IMAGE),
    (Layer(nn.Conv3DTranspose, channels=3, kernel_size=2, in_channels=4), VOLUME),
    (Layer(nn.MaxPool1D), ROWS),
    (Layer(nn.MaxPool2D), IMAGE),
    (Layer(nn.MaxPool2D, pool_size=(3, 2), strides=2, padding=(1, 0), ceil_mode=True), IMAGE),
    (Layer(nn.MaxPool3D), VOLUME),
    (Layer(nn.AvgPool1D), ROWS),
    (Layer(nn.AvgPool2D), IMAGE),
    (Layer(nn.AvgPool2D, pool_size=3, strides=2, padding=1, count_include_pad=False), IMAGE),
    (Layer(nn.AvgPool3D), VOLUME),
    (Layer(nn.GlobalMaxPool1D), ROWS),
    (Layer(nn.GlobalMaxPool2D), IMAGE),
    (Layer(nn.GlobalMaxPool3D), VOLUME),
    (Layer(nn.GlobalAvgPool1D), ROWS),
    (Layer(nn.GlobalAvgPool2D), IMAGE),
    (Layer(nn.GlobalAvgPool3D), VOLUME),
    (Layer(nn.ReflectionPad2D), IMAGE),
    (Layer(nn.ReflectionPad2D, padding=2), IMAGE),
    (Layer(contrib.nn.Concurrent, Layer(nn.Dense, units=3), Layer(contrib.nn.Identity)), MATRIX),
    (Layer(contrib.nn.HybridConcurrent, Layer(contrib.nn.Identity), Layer(nn.GELU), axis=1), IMAGE),
    (Layer(contrib.nn.Identity), MATRIX),
    (Layer(contrib.nn.SparseEmbedding, input_dim=3, output_dim=4), MATRIX),
    (Layer(contrib.nn.SyncBatchNorm), IMAGE),
    (Layer(contrib.nn.PixelShuffle1D, factor=2), ROWS),
    (Layer(contrib.nn.PixelShuffle2D, factor=(1, 4)), IMAGE),
    (Layer(contrib.nn.PixelShuffle3D, factor=(2, 1, 2)), VOLUME),
    (Layer(rnn.RNN, hidden_size=4), SEQUENCE),
    (Layer(rnn.RNN, hidden_size=4, activation="tanh", num_layers=2, layout="NTC"), SEQUENCE),
    (Layer(rnn.LSTM, hidden_size=4), SEQUENCE),
    (Layer(rnn.LSTM, hidden_size=4, num_layers=2, bidirectional=True, layout="NTC", dropout=0.5), SEQUENCE),
    (Layer(rnn.GRU, hidden_size=4), SEQUENCE),
    (Layer(rnn.GRU, hidden_size=4, bidirectional=True, input_size=5), SEQUENCE),
    (Layer(rnn.RNNCell, hidden_size=4), SEQUENCE),
    (Layer(rnn.RNNCell, hidden_size=4, activation="relu"), SEQUENCE),
    (Layer(rnn.LSTMCell, hidden_size=4), SEQUENCE),
    (Layer(rnn.LSTMCell, hidden_size=4, activation="softsign", recurrent_activation="tanh"), SEQUENCE),
    (Layer(rnn.GRUCell, hidden_size=4), SEQUENCE),
    (Layer(rnn.GRUCell, hidden_size=4, input_size=5, h2h_bias_initializer="ones"), SEQUENCE),
    (Layer(contrib.rnn.LSTMPCell, hidden_size=4, projection_size=2), SEQUENCE),
    (Layer(rnn.SequentialRNNCell, Layer(rnn.LSTMCell, hidden_size=4), Layer(rnn.DropoutCell, rate=0.5), GRU5), SEQUENCE),
    (Layer(rnn.HybridSequentialRNNCell, Layer(rnn.RNNCell, hidden_size=5), Layer(rnn.ResidualCell, GRU5)), SEQUENCE),
    (Layer(rnn.DropoutCell, rate=0.5), SEQUENCE),
    (Layer(rnn.ZoneoutCell, Layer(rnn.LSTMCell, hidden_size=4), zoneout_outputs=0.3, zoneout_states=0.4), SEQUENCE),
    (Layer(rnn.ZoneoutCell, Layer(rnn.ResidualCell, GRU5), zoneout_outputs=0.3), SEQUENCE),
    (Layer(rnn.ResidualCell, GRU5), SEQUENCE),
    (Layer(rnn.BidirectionalCell, Layer(rnn.LSTMCell, hidden_size=4), GRU5), SEQUENCE),
    (Layer(contrib.rnn.VariationalDropoutCell, GRU5, drop_inputs=0.2, drop_states=0.3, drop_outputs=0.4), SEQUENCE),
]

NO_LAYERS = {
    "Block": "the base class of layers written in Python",
    "HybridBlock": "the base class of layers written in Python",
    "SymbolBlock": "a graph: DefineModel takes one beside a tree",
    "RecurrentCell": "the base class of cells written in Python",
    "HybridRecurrentCell": "the base class of cells written in Python",
    "ModifierCell": "the base class of cells around others",
    **{f"Conv{n}D{kind}Cell": "a graph: the package makes it of Convolution" for n in (1, 2, 3) for kind in ("RNN", "LSTM", "GRU")},
}

PREDICTION = RANDOM.uniform(-1, 1, (4, 3))
SIGNS = np.sign(RANDOM.uniform(-1, 1, (4, 3)))
SHARES = RANDOM.dirichlet((1, 1, 1), 4)

# The losses: class, arguments, prediction, label; and what the client's loss takes when it is called.
LOSSES = [
    (loss.L2Loss, {}, PREDICTION, SHARES, {}),
    (loss.L2Loss, {"weight": 0.3}, PREDICTION, SHARES.reshape(4, 1, 3), {}),
    (loss.L1Loss, {}, PREDICTION, SHARES, {}),
    (loss.L1Loss, {"weight": 0.3, "batch_axis": 1}, PREDICTION, SHARES, {}),
    (loss.SigmoidBinaryCrossEntropyLoss, {}, PREDICTION, SHARES, {}),
    (loss.SigmoidBinaryCrossEntropyLoss, {}, PREDICTION, SHARES, {"pos_weight": 1.7}),
    (loss.SigmoidBCELoss, {"from_sigmoid": True}, SHARES, SHARES, {"pos_weight": 1.7}),
    (loss.SoftmaxCrossEntropyLoss, {}, PREDICTION, np.array([0, 2, 1, 1]), {}),
    (loss.SoftmaxCrossEntropyLoss, {"sparse_label": False}, PREDICTION, SHARES, {}),
    (loss.SoftmaxCELoss, {"from_logits": True, "weight": 2}, np.log(SHARES), np.array([0, 2, 1, 1]), {}),
    (loss.KLDivLoss, {}, np.log(SHARES), SHARES[::-1], {}),
    (loss.KLDivLoss, {"from_logits": False}, PREDICTION, SHARES, {}),
    (loss.CTCLoss, {}, RANDOM.uniform(-1, 1, (4, 5, 3)), np.array([[0, 1], [1, 1], [0, -1], [1, 0]]), {}),
    (loss.HuberLoss, {}, 3 * PREDICTION, SHARES, {}),
    (loss.HuberLoss, {"rho": 0.3}, PREDICTION, SHARES, {}),
    (loss.HingeLoss, {}, PREDICTION, SIGNS, {}),
    (loss.HingeLoss, {"margin": 0.3}, PREDICTION, SIGNS, {}),
    (loss.SquaredHingeLoss, {}, PREDICTION, SIGNS, {}),
    (loss.LogisticLoss, {}, PREDICTION, SIGNS, {}),
    (loss.LogisticLoss, {"label_format": "binary"}, PREDICTION, (SIGNS + 1) / 2, {}),
    (loss.PoissonNLLLoss, {}, PREDICTION, 3 * SHARES, {}),
    (loss.PoissonNLLLoss, {"compute_full": True, "weight": 0.3}, PREDICTION, 3 * SHARES, {}),
    (loss.PoissonNLLLoss, {"from_logits": False}, SHARES, 3 * SHARES, {}),
    (loss.SDMLLoss, {}, PREDICTION, SHARES, {}),
    (loss.SDMLLoss, {"smoothing_parameter": 0.1}, PREDICTION, SHARES, {}),
]

NO_LOSSES = {
    "Loss": "the base class",
    "TripletLoss": "takes two more inputs; it is an output of a graph",
    "CosineEmbeddingLoss": "takes one more input; it is an output of a graph",
}

# The initializers: class, arguments, and a shape. The values are compared where none is random.
INITIALIZERS = [
    (mx.init.Zero, {}, (3,)),
    (mx.init.One, {}, (3,)),
    (mx.init.Constant, {"value": 0.3}, (3, 2)),
    (mx.init.Constant, {"value": [0.1, 0.2, 0.3]}, (3,)),
    (mx.init.Bilinear, {}, (2, 1, 5, 4)),
    (mx.init.LSTMBias, {}, (8,)),
    (mx.init.LSTMBias, {"forget_bias": 0.3}, (8,)),
    (
        mx.init.FusedRNN,
        {
            "init": '["constant", {"value": 0.3}]',
            "num_hidden": 4,
            "num_layers": 2,
            "mode": "lstm",
            "bidirectional": True,
            "forget_bias": 0.7,
        },
        (2 * 16 * (3 + 4 + 2) + 2 * 16 * (8 + 4 + 2),),
    ),
    (mx.init.Uniform, {}, (3, 4)),
    (mx.init.Normal, {}, (3, 4)),
    (mx.init.Orthogonal, {}, (3, 4)),
    (mx.init.Xavier, {}, (3, 4)),
    (mx.init.MSRAPrelu, {}, (3, 4)),
]
RANDOM_INITIALIZERS = (mx.init.Uniform, mx.init.Normal, mx.init.Orthogonal, mx.init.Xavier)

NO_INITIALIZERS = {
    "InitDesc": "a parameter's name",
    "Initializer": "the base class",
    "Mixed": "DefineModel's variables choose each parameter's initializer",
    "Load": "SetParameters and uploads bring values",
}


def names_in(*modules):
    """The classes that modules offer."""
    return {name for module in modules for name in module.__all__ if isinstance(getattr(module, name), type)}


def call(service, method, request, response, **fields):
    """A call with a request of these fields, as JSON, when the server is open."""
    rpc = connect.current().channel.unary_unary(f"/gluond.v1.{service}/{method}", request.SerializeToString, response.FromString)
    while True:
        try:
            return rpc(json_format.ParseDict(fields, request()), timeout=120)
        except grpc.RpcError as error:
            if "is loading its models" not in error.details():
                raise
        time.sleep(0.05)


def model_call(method, **fields):
    messages = model_pb2 if hasattr(model_pb2, method + "Request") else parameters_pb2
    return call(
        "ModelService", method, getattr(messages, method + "Request"), getattr(messages, method + "Response"), model="m", **fields
    )


def to_json(values):
    values = np.asarray(values, np.float32)
    return {"shape": list(values.shape), "floatData": [float(value) for value in values.ravel()]}


def to_numpy(tensor):
    return np.frombuffer(tensor.raw, np.float32).reshape(tuple(tensor.shape))


def initial_values():
    answer = model_call("GetParameters", encoding="RAW")
    return {name: to_numpy(tensor) for name, tensor in answer.parameters.items()}


def structural(block, path=""):
    """A block's parameters by the names of a tree."""
    found = {path + name: parameter for name, parameter in block._reg_params.items()}
    for name, child in block._children.items():
        found.update(structural(child, f"{path}{name}."))
    return found


class LayersTest(unittest.TestCase):
    def run_block(self, layer, block, x):
        if layer.is_cell:
            return block.unroll(STEPS, nd.array(x), layout="NTC", merge_outputs=True)[0].asnumpy()
        return block(nd.array(x)).asnumpy()

    def compare(self, layer, x, explicit):
        block = layer.block()
        block.initialize(mx.init.Constant(0.5))
        self.run_block(layer, block, x)
        parameters = structural(block)
        tree = layer.tree(explicit)
        if layer.is_cell:
            tree["attributes"]["length"] = STEPS
        model_call(
            "DefineModel", block=tree, replace=True, variables=[{"name": "data", "kind": "INPUT", "shape": [-1, *x.shape[1:]]}]
        )
        model_call("InitializeParameters", initializer={"name": "Constant", "attributes": {"value": 0.5}})
        model_call("Predict", inputs={"data": to_json(x)})
        first = initial_values()
        self.assertEqual(sorted(first), sorted(parameters))
        for name, parameter in parameters.items():
            np.testing.assert_array_equal(first[name], parameter.data().asnumpy(), name)
            parameter.set_data(nd.array(RANDOM.uniform(0.5, 1.5, parameter.shape)))
        if parameters:
            model_call(
                "SetParameters", parameters={name: to_json(parameter.data().asnumpy()) for name, parameter in parameters.items()}
            )
        y = to_numpy(model_call("Predict", inputs={"data": to_json(x)}, encoding="RAW").outputs["output"])
        np.testing.assert_allclose(y, self.run_block(layer, block, x), rtol=1e-5, atol=1e-6)

    def test_trees_compute_what_the_client_s_layers_do(self):
        for layer, shape in LAYERS:
            x = RANDOM.uniform(-1, 1, shape)
            if issubclass(layer.kind, nn.Embedding):
                x = RANDOM.randint(0, 3, shape)
            for explicit in (False, True):
                with self.subTest(layer.kind.__name__, explicit=explicit, **layer.arguments):
                    self.compare(layer, x, explicit)

    def test_each_layer_of_the_client_is_known(self):
        known = {layer.kind.__name__ for layer, _ in LAYERS}
        self.assertEqual(names_in(nn, rnn, contrib.nn, contrib.rnn), known | set(NO_LAYERS))
        self.assertFalse(known & set(NO_LAYERS))


class LossesTest(unittest.TestCase):
    def compare(self, kind, arguments, prediction, label, when_called, sample_weight, explicit):
        given = dict(
            {name: nd.array([value]) for name, value in when_called.items()},
            pred=nd.array(prediction),
            label=nd.array(label),
            sample_weight=None if sample_weight is None else nd.array(sample_weight),
        )
        positional = [given.get(name) for name in list(inspect.signature(kind.hybrid_forward).parameters)[2:]]
        positional[:2] = given["pred"], given["label"]
        while positional[-1] is None:
            positional.pop()
        expected = kind(**arguments)(*positional).asnumpy().astype(np.float64)
        # With a slope of 1 this is the identity, with a parameter to train.
        model_call("DefineModel", block={"block": "PReLU", "attributes": {"alpha_initializer": "ones"}}, replace=True)
        model_call("InitializeParameters")
        attributes = plain(dict(defaults(kind) if explicit else {}, **arguments, **when_called))
        call(
            "TrainingService",
            "CreateTrainer",
            trainer_pb2.CreateTrainerRequest,
            trainer_pb2.CreateTrainerResponse,
            model="m",
            loss={"name": kind.__name__, "attributes": attributes},
        )
        inputs = {"data": to_json(prediction), "label": to_json(label)}
        if sample_weight is not None:
            inputs["sample_weight"] = to_json(sample_weight)
        answer = call(
            "TrainingService", "Evaluate", training_pb2.EvaluateRequest, training_pb2.EvaluateResponse, model="m", inputs=inputs
        )
        # As the server adds: one after the other, which Python's sum() does not promise.
        self.assertEqual(answer.loss, np.cumsum(expected)[-1] / expected.size)

    def test_losses_have_the_bits_of_the_client_s(self):
        for kind, arguments, prediction, label, when_called in LOSSES:
            weights = [None]
            if kind is not loss.SDMLLoss:
                weights.append(RANDOM.uniform(0, 1, 4 if kind is loss.CTCLoss else (4, 1)))
            for sample_weight in weights:
                for explicit in (False, True):
                    weighted = sample_weight is not None
                    with self.subTest(kind.__name__, explicit=explicit, weighted=weighted, **arguments):
                        self.compare(kind, arguments, prediction, label, when_called, sample_weight, explicit)

    def test_each_loss_of_the_client_is_known(self):
        known = {kind.__name__ for kind, *_ in LOSSES} | {"SigmoidBCELoss", "SoftmaxCELoss"}
        self.assertEqual(set(loss.__all__), known | set(NO_LOSSES))
        self.assertFalse(known & set(NO_LOSSES))


class InitializersTest(unittest.TestCase):
    def values(self, kind, arguments, shape):
        model_call(
            "DefineModel",
            replace=True,
            graph={"nodes": [{"name": "y", "op": "identity", "inputs": ["w"]}]},
            variables=[
                {
                    "name": "w",
                    "kind": "PARAMETER",
                    "shape": list(shape),
                    "initializer": {"name": kind.__name__, "attributes": plain(arguments)},
                }
            ],
        )
        model_call("InitializeParameters")
        return initial_values()["w"]

    def test_initializers_have_the_client_s_values(self):
        for kind, arguments, shape in INITIALIZERS:
            for explicit in (False, True):
                with self.subTest(kind.__name__, explicit=explicit, **arguments):
                    values = self.values(kind, dict(defaults(kind) if explicit else {}, **arguments), shape)
                    expected = nd.zeros(shape)
                    kind(**arguments)._init_weight("w", expected)
                    if issubclass(kind, RANDOM_INITIALIZERS):
                        self.assertEqual(values.shape, shape)
                        self.assertTrue(values.any())
                    else:
                        np.testing.assert_array_equal(values, expected.asnumpy())

    def test_each_initializer_of_the_client_is_known(self):
        known = {kind.__name__ for kind, *_ in INITIALIZERS}
        self.assertEqual(names_in(mx.init), known | set(NO_INITIALIZERS))
        self.assertFalse(known & set(NO_INITIALIZERS))


if __name__ == "__main__":
    case_runner.main()
