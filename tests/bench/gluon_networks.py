"""The networks of network_cases.py in Gluon, for the module that the program's first argument names: gluond or mxnet."""

import importlib
import sys

import network_cases as cases

mx = importlib.import_module(sys.argv[1])
nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
nn = gluon.nn


def sequential(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def recurrent():
    layers, width, _ = cases.LSTM
    return gluon.rnn.LSTM(width, layers, input_size=width)


class EncoderLayer(gluon.HybridBlock):
    """Self-attention and two dense layers, normalized after each."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        with self.name_scope():
            self.project, self.merge = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
            self.widen, self.narrow = nn.Dense(4 * width, flatten=False, activation="relu"), nn.Dense(width, flatten=False)
            self.norms = sequential(nn.LayerNorm(), nn.LayerNorm())

    def heads_of(self, F, x):
        """(batch, steps, width) as (batch * heads, steps, width / heads)."""
        return F.reshape(F.transpose(F.reshape(x, (0, 0, self.heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))

    def hybrid_forward(self, F, x):
        query, key, value = (self.heads_of(F, y) for y in F.split(self.project(x), num_outputs=3, axis=2))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) * self.scale)
        y = F.reshape(F.batch_dot(weights, value), (-4, -1, self.heads, 0, 0))
        y = self.norms[0](x + self.merge(F.reshape(F.transpose(y, (0, 2, 1, 3)), (0, 0, -3))))
        return self.norms[1](y + self.narrow(self.widen(y)))


def encoder():
    layers, width, _, heads = cases.ENCODER
    return sequential(*(EncoderLayer(width, heads) for _ in range(layers)))


def dense(width, layers):
    return sequential(*(nn.Dense(width, activation="relu") for _ in range(layers)), nn.Dense(cases.CLASSES))


def small():
    """Of many small parameters."""
    return sequential(*(nn.Dense(cases.SMALL_WIDTH, activation="relu") for _ in range(cases.SMALL_LAYERS)))


def lenet():
    return sequential(
        nn.Conv2D(20, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(50, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Dense(500, activation="relu"),
        nn.Dense(10),
    )


class Bottleneck(gluon.HybridBlock):
    """1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, channels, stride, match):
        super().__init__()
        with self.name_scope():
            self.body = sequential(
                nn.Conv2D(channels // 4, 1, stride),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels // 4, 3, 1, 1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 1),
                nn.BatchNorm(),
            )
            self.shortcut = nn.HybridSequential()
            if match:
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        return F.Activation(self.body(x) + (self.shortcut(x) if len(self.shortcut) else x), act_type="relu")


def resnet50():
    stages, channels = cases.RESNET50
    layers = [nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)]
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            layers.append(Bottleneck(4 * channels << stage, 2 if stage > 0 and i == 0 else 1, i == 0))
    return sequential(*layers, nn.GlobalAvgPool2D(), nn.Dense(cases.CLASSES))


class TwoConvolutions(gluon.HybridBlock):
    """3x3 twice, beside a shortcut."""

    def __init__(self, channels, stride, match):
        super().__init__()
        with self.name_scope():
            self.body = sequential(
                nn.Conv2D(channels, 3, stride, 1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 3, 1, 1, use_bias=False),
                nn.BatchNorm(),
            )
            self.shortcut = nn.HybridSequential()
            if match:
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        return F.Activation(self.body(x) + (self.shortcut(x) if len(self.shortcut) else x), act_type="relu")


def resnet20():
    """As in networks.h."""
    blocks, channels = cases.RESNET20
    layers = [nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu")]
    for stage in range(3):
        for i in range(blocks):
            first = stage > 0 and i == 0
            layers.append(TwoConvolutions(channels << stage, 2 if first else 1, first))
    return sequential(*layers, nn.GlobalAvgPool2D(), nn.Dense(10))


def mobilenet():
    return gluon.model_zoo.vision.MobileNet(cases.MOBILENET, classes=cases.CLASSES)


def built(case):
    """The network of a case, without values."""
    of_name = {"recurrent": recurrent, "encoder": encoder, "resnet50": resnet50, "mobilenet": mobilenet}
    return of_name[case.network]() if case.network in of_name else dense(*cases.DENSE[case.width])


def network(case):
    """The same, hybridized, with the values that it has on all sides."""
    net = built(case)
    net.initialize()
    net(nd.zeros(cases.shape_of(case._replace(batch=1))))  # Tells the shapes.
    matrices = [each for each in net.collect_params().values() if len(each.shape) > 1]
    for i, parameter in enumerate(matrices):
        parameter.set_data(nd.array(cases.weight(i, parameter.shape)))
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def loss_of(case):
    """What a training of the case makes small."""
    return gluon.loss.L2Loss() if case.network in ("recurrent", "encoder") else gluon.loss.SoftmaxCrossEntropyLoss()


def trainer_of(net):
    return gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})


def stepping(net, case, trainer):
    """A function of values and classes that trains on them: the loop of MXNet's tutorials."""
    loss_function = loss_of(case)

    def step(values, classes):
        x = nd.array(values)
        y = x if classes is None else nd.array(classes)
        with autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        trainer.step(len(values))  # As long as the losses are, so that the gradients are those of their mean.
        return loss.mean().asscalar()

    return step


def make(name):
    """The case of that name, timed."""
    case = cases.CASES[name]
    net = network(case)
    values, classes = cases.data_of(case)
    if not case.training:
        return case.timed(lambda: net(nd.array(values)).asnumpy())
    step = stepping(net, case, trainer_of(net))
    return case.timed(lambda: step(values, classes))
