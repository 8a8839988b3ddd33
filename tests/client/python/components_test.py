"""The components that the server trains with (OperatorService.ListComponents) are the client's: the same names,
arguments and defaults, and, of optimizers, the same bits."""

import ast
import inspect
import unittest

import gluond as mx
import grpc
import numpy as np
from gluond import _initializer, _metric, gluon, initializer, metric, nd
from gluond._proto import model_pb2, operator_pb2, parameters_pb2, tensor_pb2, trainer_pb2, training_pb2
from gluond._wire import connect
from google.protobuf import json_format
from tests import case_runner
from tests.server.running_server import RunningServer

_SERVER = None


def setUpModule():
    global _SERVER
    _SERVER = RunningServer()
    mx.connect(_SERVER.address)


def tearDownModule():
    connect.current().close()
    _SERVER.__exit__()


def call(service, method, request, response):
    """The answer of one RPC; `request` is a message."""
    with grpc.insecure_channel(_SERVER.address) as channel:
        return channel.unary_unary(f"/gluond.v1.{service}/{method}", type(request).SerializeToString, response.FromString)(
            request, timeout=60
        )


def arguments_of(klass, base):
    """The arguments of klass(...) with their defaults: its own, and those that it passes on to its bases."""
    found = {}
    for each in klass.__mro__[: klass.__mro__.index(base) + 1]:
        if "__init__" not in vars(each):
            continue
        parameters = list(inspect.signature(each.__init__).parameters.values())[1:]
        for p in parameters:
            # A base's argument without a default is given by the class itself.
            if p.kind == p.POSITIONAL_OR_KEYWORD and (each is klass or p.default is not p.empty):
                found.setdefault(p.name, p.default)
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            break
    return found


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class ComponentsTest(unittest.TestCase):
    """Each exception has its reason; one that is no longer needed is a failure, too."""

    def compare(self, family, classes, base, missing, arguments, defaults, extra=(), more=()):
        """missing: names of classes that the server has not. arguments: those of no component. defaults: (the server's,
        the client's) by argument. extra: components that the client has not. more: arguments that it has not."""
        request = operator_pb2.ListComponentsRequest(family=family)
        response = call("OperatorService", "ListComponents", request, operator_pb2.ListComponentsResponse)
        by_name = {name.lower(): entry for entry in response.components for name in (entry.name, *entry.aliases)}
        wrong, used, seen = [], set(), set()
        for name, klass in sorted(classes.items()):
            entry = by_name.get(name.lower())
            if entry is None or name in missing:
                if (entry is None) != (name in missing):
                    wrong.append(f"{name}: {'is not on the server' if entry is None else 'is there, and in `missing`'}")
                continue
            seen.add(entry.name)
            has = {a.name: inspect.Parameter.empty if a.required else value_of(a.default_value) for a in entry.arguments}
            wanted = arguments_of(klass, base)
            for argument in sorted(set(wanted) - set(has) - set(arguments)):
                wrong.append(f"{name}: has no argument {argument}")
            for argument in sorted(set(has) - set(wanted) - set(more)):
                wrong.append(f"{name}: has an argument {argument}, which the client's has not")
            for argument in set(has) & set(wanted):
                both = has[argument], wanted[argument]
                if defaults.get(argument) == both:
                    used.add(argument)
                elif both[0] != both[1]:
                    wrong.append(f"{name}: {argument} is {both[0]!r}, and {both[1]!r} in the client")
        wrong += [f"{argument}: is no exception" for argument in defaults if argument not in used]
        wrong += [
            f"{entry.name}: is not in the client"
            for entry in response.components
            if entry.name not in seen and entry.name not in extra
        ]
        self.assertEqual(wrong, [])

    def test_optimizers(self):
        self.compare(
            "OPTIMIZER",
            dict(mx.optimizer.Optimizer.opt_registry),
            mx.optimizer.Optimizer,
            missing={"test"},  # It is for tests of Python programs.
            # A trainer knows its model's parameters and its schedule, counts its steps, and divides gradients.
            arguments={"begin_num_update", "lr_scheduler", "param_dict", "param_idx2name", "rescale_grad", "sym"},
            # The base class makes 0.01 of None. Half precision on the server keeps what is too small for it.
            defaults={"learning_rate": (0.01, None), "multi_precision": (True, False)},
            extra={"adamw"},
        )  # The client has its operator alone.

    def test_blocks(self):
        request = operator_pb2.ListComponentsRequest(family="BLOCK")
        listed = call("OperatorService", "ListComponents", request, operator_pb2.ListComponentsResponse).components
        known = {name for module in (gluon.nn, gluon.rnn, gluon.contrib.nn, gluon.contrib.rnn) for name in dir(module)}
        self.assertEqual([each.name for each in listed if each.name not in known], ["Residual"])  # x + f(x), in graphs alone.
        dense = next(each for each in listed if each.name == "Dense")
        self.assertLessEqual({"units", "activation", "use_bias"}, {each.name for each in dense.arguments})

    def test_schedules(self):
        classes = {name: getattr(mx.lr_scheduler, name) for name in mx.lr_scheduler.__all__ if name != "LRScheduler"}
        # None stands for the optimizer's learning rate, which Optimizer sets in the client.
        self.compare(
            "LR_SCHEDULE", classes, mx.lr_scheduler.LRScheduler, missing=(), arguments=(), defaults={"base_lr": (None, 0.01)}
        )

    def test_metrics(self):
        self.compare(
            "METRIC",
            _metric._registry.classes,
            metric.EvalMetric,
            # The functions of a client; and a trainer has a list of metrics.
            missing={"composite", "compositeevalmetric", "custommetric"},
            arguments={"name", "label_names", "output_names", "has_global_stats"},
            defaults={},
        )

    def test_losses(self):
        classes = {name: getattr(gluon.loss, name) for name in gluon.loss.__all__ if name != "Loss"}
        self.compare(
            "LOSS",
            classes,
            gluon.loss.Loss,
            missing={"CosineEmbeddingLoss", "TripletLoss"},  # They have more inputs than a prediction and a label.
            arguments=(),
            defaults={},
            more={"epsilon", "pos_weight"},
        )  # Gluon's come with each call.

    def test_initializers(self):
        classes = {klass.__name__: klass for klass in _initializer._registry.classes.values()}
        self.compare("INITIALIZER", classes, initializer.Initializer, missing=(), arguments=(), defaults={})


class SameBitsTest(unittest.TestCase):
    """A model's steps, and the same steps of the client's optimizer."""

    GRADIENTS = np.random.RandomState(3).uniform(-2, 2, (5, 4))

    def of_model(self, name, arguments, dtype):
        """The weight after steps on y = w x, where x is the gradient."""
        declared = {"name": "data", "shape": [-1, 4], "dtype": dtype.upper()}
        block = {"block": "Dense", "attributes": {"units": 1, "use_bias": False, "dtype": dtype}}
        define = {"model": "m", "replace": True, "variables": [declared], "block": block}
        defined = call(
            "ModelService",
            "DefineModel",
            json_format.ParseDict(define, model_pb2.DefineModelRequest()),
            model_pb2.DefineModelResponse,
        )
        (weight,) = (p.name for p in defined.model.parameters)
        (output,) = (o.name for o in defined.model.outputs)
        fill = tensor_pb2.Tensor(shape=[1, 4], dtype=dtype.upper(), raw=self.weight().astype(dtype).tobytes())
        call(
            "ModelService",
            "SetParameters",
            parameters_pb2.SetParametersRequest(model="m", parameters={weight: fill}),
            parameters_pb2.SetParametersResponse,
        )
        create = {"model": "m", "loss_output": output, "optimizer": {"name": name, "attributes": arguments}}
        call(
            "TrainingService",
            "CreateTrainer",
            json_format.ParseDict(create, trainer_pb2.CreateTrainerRequest()),
            trainer_pb2.CreateTrainerResponse,
        )
        for gradient in self.GRADIENTS.astype(dtype):
            data = tensor_pb2.Tensor(shape=[1, 4], dtype=dtype.upper(), raw=gradient.tobytes())
            call(
                "TrainingService",
                "TrainStep",
                training_pb2.TrainStepRequest(model="m", inputs={"data": data}, batch_size=3),
                training_pb2.TrainStepResponse,
            )
        found = call(
            "ModelService",
            "GetParameters",
            parameters_pb2.GetParametersRequest(model="m", names=[weight], encoding="RAW"),
            parameters_pb2.GetParametersResponse,
        )
        return np.frombuffer(found.parameters[weight].raw, dtype)

    def of_client(self, name, arguments, dtype):
        optimizer = mx.optimizer.create(name, rescale_grad=1 / 3, multi_precision=True, **arguments)
        updater = mx.optimizer.get_updater(optimizer)
        weight = nd.array(self.weight(), dtype=dtype)
        for gradient in self.GRADIENTS.astype(dtype):
            updater(0, nd.array(gradient[None], dtype=dtype), weight)
        return weight.asnumpy().ravel()

    @staticmethod
    def weight():
        return np.array([[0.5, -2, 0.001, 1.25]])

    def test_optimizers(self):
        for name, klass in sorted(mx.optimizer.Optimizer.opt_registry.items()):
            if name in ("test", "sgld"):  # sgld's noise is another one.
                continue
            decay = {} if name == "groupadagrad" else {"wd": 0.0123}
            cases = [{}, {"learning_rate": 0.0371, "clip_gradient": 0.4, **decay}]
            if "momentum" in arguments_of(klass, mx.optimizer.Optimizer):
                cases.append({"learning_rate": 0.0371, "momentum": 0.9, **decay})
            if name == "rmsprop":
                cases.append({"centered": True, "clip_weights": 1.3})
            for arguments in cases:
                for dtype in ("float32", "float16"):
                    with self.subTest(name=name, dtype=dtype, **arguments):
                        found = self.of_model(name, arguments, dtype)
                        self.assertEqual(found.tobytes(), self.of_client(name, arguments, dtype).tobytes())
                        if dtype == "float32":  # Some steps are too small for float16.
                            self.assertFalse(np.array_equal(found, self.weight().astype(dtype).ravel()), "it moves")


if __name__ == "__main__":
    case_runner.main()
