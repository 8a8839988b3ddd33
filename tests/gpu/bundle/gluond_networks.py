"""The networks in Gluon, as torch_networks.py has them."""

from gluond import gluon

nn = gluon.nn


def conv_norm(channels, kernel, stride=1, relu=True):
    """Layers, for a Sequential."""
    layers = [nn.Conv2D(channels, kernel, stride, kernel // 2, use_bias=False), nn.BatchNorm()]
    return layers + [nn.Activation("relu")] * relu


def sequential(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


class Residual(gluon.HybridBlock):
    """relu(body(x) + shortcut(x)); without a shortcut x itself."""

    def __init__(self, body, shortcut=()):
        super().__init__()
        self.body = sequential(*body)
        self.shortcut = sequential(*shortcut) if shortcut else None

    def hybrid_forward(self, F, x):
        return F.relu(self.body(x) + (self.shortcut(x) if self.shortcut else x))


def lenet(classes):
    return sequential(
        nn.Conv2D(20, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(50, 5, activation="relu"),
        nn.MaxPool2D(2),
        nn.Dense(500, activation="relu"),
        nn.Dense(classes),
    )


def resnet20(classes):
    layers = conv_norm(16, 3)
    for channels in (16, 32, 64):
        for i in range(3):
            first = i == 0 and channels > 16
            layers.append(
                Residual(
                    conv_norm(channels, 3, 1 + first) + conv_norm(channels, 3, relu=False),
                    conv_norm(channels, 1, 2, relu=False) if first else (),
                )
            )
    return sequential(*layers, nn.GlobalAvgPool2D(), nn.Dense(classes))


def resnet50(classes):
    """The first version: a stage's stride is its first 1x1 convolution's."""
    layers = conv_norm(64, 7, 2) + [nn.MaxPool2D(3, 2, 1)]
    for channels, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            stride = 2 if i == 0 and channels > 64 else 1
            body = conv_norm(channels, 1, stride) + conv_norm(channels, 3) + conv_norm(4 * channels, 1, relu=False)
            layers.append(Residual(body, conv_norm(4 * channels, 1, stride, relu=False) if i == 0 else ()))
    return sequential(*layers, nn.GlobalAvgPool2D(), nn.Dense(classes))


class EncoderLayer(gluon.HybridBlock):
    """Attention and a network of two layers, each added to its input and normalized after that."""

    def __init__(self, size):
        super().__init__()
        self.heads, self.scale = size.heads, (size.width // size.heads) ** -0.5
        self.projections = nn.Dense(3 * size.width, flatten=False)
        self.joined = nn.Dense(size.width, flatten=False)
        self.wide, self.narrow = nn.Dense(size.inner, flatten=False), nn.Dense(size.width, flatten=False)
        self.norm1, self.norm2 = nn.LayerNorm(), nn.LayerNorm()

    def by_heads(self, F, x):
        """(batch, tokens, width) to (batch * heads, tokens, width / heads)."""
        x = F.transpose(F.reshape(x, (0, 0, -4, self.heads, -1)), (0, 2, 1, 3))
        return F.reshape(x, (-3, -2))

    def hybrid_forward(self, F, x):
        query, key, value = (self.by_heads(F, part) for part in F.split(self.projections(x), num_outputs=3, axis=2))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) * self.scale)
        seen = F.reshape(F.batch_dot(weights, value), (-4, -1, self.heads, -2))
        seen = F.reshape(F.transpose(seen, (0, 2, 1, 3)), (0, 0, -3))
        x = self.norm1(x + self.joined(seen))
        return self.norm2(x + self.narrow(F.LeakyReLU(self.wide(x), act_type="gelu")))


def encoder(classes, size):
    return sequential(
        *(EncoderLayer(size) for _ in range(size.layers)), nn.HybridLambda(lambda F, x: F.mean(x, axis=1)), nn.Dense(classes)
    )


def make(name, classes, encoder_size):
    if name == "encoder":
        return encoder(classes, encoder_size)
    return {"lenet": lenet, "resnet20": resnet20, "resnet50": resnet50}[name](classes)
