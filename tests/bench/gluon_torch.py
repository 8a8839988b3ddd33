"""The networks of network_cases.py in PyTorch, which sums them up as gluon_bench.py does: prints microseconds, one line for each
case named on a line of standard input. Threads are OMP_NUM_THREADS.

usage: gluon_torch.py [compiled]

compiled: what torch.compile makes of each network.
"""

import os
import sys

import needs

needs.require("numpy", "torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import network_cases as cases  # noqa: E402


class Recurrent(nn.Module):
    """An LSTM without its last states."""

    def __init__(self):
        super().__init__()
        layers, width, _ = cases.LSTM
        self.lstm = nn.LSTM(width, width, layers)

    def forward(self, x):
        return self.lstm(x)[0]


def encoder():
    layers, width, _, heads = cases.ENCODER
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0, batch_first=True)
    return nn.TransformerEncoder(layer, layers)


def dense(width, layers):
    hidden = [each for _ in range(layers) for each in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, cases.CLASSES))


class Bottleneck(nn.Module):
    def __init__(self, before, channels, stride, match):
        super().__init__()
        middle = channels // 4
        self.body = nn.Sequential(
            nn.Conv2d(before, middle, 1, stride),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, middle, 3, 1, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, channels, 1),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = (
            nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)) if match else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50():
    stages, before = cases.RESNET50
    layers = [nn.Conv2d(3, before, 7, 2, 3, bias=False), nn.BatchNorm2d(before), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    first = 4 * before
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            layers.append(Bottleneck(before, first << stage, 2 if stage > 0 and i == 0 else 1, i == 0))
            before = first << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, cases.CLASSES))


def network(case):
    """The network of a case, with the values that it has on all sides."""
    of_name = {"recurrent": Recurrent, "encoder": encoder, "resnet50": resnet50}
    net = of_name[case.network]() if case.network in of_name else dense(*cases.DENSE[case.width])
    matrices = 0
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.from_numpy(cases.weight(matrices, parameter.shape)))
                matrices += 1
            elif "bias" in name:
                parameter.zero_()
    net.train(case.training)
    return torch.compile(net) if "compiled" in sys.argv[1:] else net


def make(name):
    """The case of that name, timed."""
    case = cases.CASES[name]
    net = network(case)
    values, classes = cases.data_of(case)
    x = torch.from_numpy(values)
    if not case.training:

        def infer():
            with torch.no_grad():
                return net(x).numpy()

        return case.timed(infer)
    y = x if classes is None else torch.from_numpy(classes).long()
    loss_of = (lambda found: 0.5 * F.mse_loss(found, y)) if classes is None else (lambda found: F.cross_entropy(found, y))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = loss_of(net(x))
        loss.backward()
        optimizer.step()
        return loss.item()

    return case.timed(step)


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    cases.answer(make)
