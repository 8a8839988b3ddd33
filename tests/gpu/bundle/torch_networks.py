"""The networks in PyTorch, as gluond_networks.py has them."""

from torch import nn
from torch.nn import functional as F


def conv_norm(channels_in, channels, kernel, stride=1, relu=True):
    """Layers, for a Sequential."""
    layers = [nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(channels)]
    return layers + [nn.ReLU()] * relu


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); without a shortcut x itself."""

    def __init__(self, body, shortcut=()):
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), nn.Sequential(*shortcut)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def lenet(classes):
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, classes),
    )


def pooled(width, classes):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)


def resnet20(classes):
    layers, width = conv_norm(3, 16, 3), 16
    for channels in (16, 32, 64):
        for i in range(3):
            first = i == 0 and channels > 16
            layers.append(
                Residual(
                    conv_norm(width, channels, 3, 1 + first) + conv_norm(channels, channels, 3, relu=False),
                    conv_norm(width, channels, 1, 2, relu=False) if first else (),
                )
            )
            width = channels
    return nn.Sequential(*layers, *pooled(width, classes))


def resnet50(classes):
    """The first version: a stage's stride is its first 1x1 convolution's."""
    layers, width = conv_norm(3, 64, 7, 2) + [nn.MaxPool2d(3, 2, 1)], 64
    for channels, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            stride = 2 if i == 0 and channels > 64 else 1
            body = conv_norm(width, channels, 1, stride) + conv_norm(channels, channels, 3)
            layers.append(
                Residual(
                    body + conv_norm(channels, 4 * channels, 1, relu=False),
                    conv_norm(width, 4 * channels, 1, stride, relu=False) if i == 0 else (),
                )
            )
            width = 4 * channels
    return nn.Sequential(*layers, *pooled(width, classes))


class Encoder(nn.Module):
    """PyTorch's own encoder: its fused attention, and in inference its fused layers."""

    def __init__(self, classes, size):
        super().__init__()
        layer = nn.TransformerEncoderLayer(size.width, size.heads, size.inner, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.head = nn.Linear(size.width, classes)

    def forward(self, x):
        return self.head(self.layers(x).mean(dim=1))


def make(name, classes, encoder_size):
    if name == "encoder":
        return Encoder(classes, encoder_size)
    return {"lenet": lenet, "resnet20": resnet20, "resnet50": resnet50}[name](classes)
